"""The graphs of `benches/src/bin/chain.rs` by LangGraph: prints microseconds for each node."""

import json
import operator
import sqlite3
import statistics
import sys
import tempfile
import time
from typing import Annotated, TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Send


class State(TypedDict):
    n: Annotated[int, operator.add]
    items: list


def step(state):
    return {"n": 1}


def linear(count):
    graph = StateGraph(State)
    for i in range(count):
        graph.add_node(f"n{i}", step)
        graph.add_edge(START if i == 0 else f"n{i - 1}", f"n{i}")
    graph.add_edge(f"n{count - 1}", END)
    return graph


def fan_out(count):
    graph = StateGraph(State)
    leaves = [f"n{i}" for i in range(1, count - 1)]
    for name in ["n0", *leaves, "last"]:
        graph.add_node(name, step)
    graph.add_edge(START, "n0")
    for name in leaves:
        graph.add_edge("n0", name)
    graph.add_edge(leaves, "last")
    graph.add_edge("last", END)
    return graph


def mapped(count):
    graph = StateGraph(State)
    graph.add_node("t", step)
    graph.add_conditional_edges(START, lambda state: [Send("t", {"n": i}) for i in state["items"]])
    graph.add_edge("t", END)
    return graph


def measure(graph, count, runs, saver):
    compiled = graph.compile(checkpointer=saver)
    times = []
    for run in range(runs):
        # As many at a time as ours.
        config = {"recursion_limit": count + 10, "max_concurrency": 8,
                  "configurable": {"thread_id": str(run)}}
        begun = time.perf_counter()
        compiled.invoke({"n": 0, "items": list(range(count))}, config)
        times.append((time.perf_counter() - begun) * 1e6 / count)
    return statistics.median(times)


def main():
    count, runs = int(sys.argv[1]), int(sys.argv[2])
    report = {}
    for name, make in [("linear", linear), ("fan-out", fan_out), ("map", mapped)]:
        report[name] = measure(make(count), count, runs, None)
        with tempfile.TemporaryDirectory() as folder:
            connection = sqlite3.connect(f"{folder}/chains.db", check_same_thread=False)
            report[f"{name}, kept"] = measure(make(count), count, runs, SqliteSaver(connection))
            connection.close()
    print(json.dumps(report))


main()
