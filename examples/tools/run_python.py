"""Runs Python code inside the component: a tool in Python, for componentize-py (docs/tools.md).

The code sees what the component sees: no network, no variables of the host, and no files unless the
configuration says `files: read` or `files: write`.
"""

import json

# A component has the modules that were imported when it was built; these are for the code it is given.
import datetime, itertools, math, os, random, re, socket, statistics, sys  # noqa: E401, F401

from componentize_py_types import Err
from wit_world import Definition, WitWorld as World
from wit_world.imports import events


class WitWorld(World):
    def describe(self) -> Definition:
        return Definition(
            description="Runs Python code that computes something, without programs and network; "
            "gives the value of the variable `result`, which must fit into JSON",
            input_schema=json.dumps({
                "type": "object",
                "additionalProperties": False,
                "required": ["code"],
                "properties": {"code": {"type": "string", "description": "The code"}},
            }),
            output_schema=json.dumps({
                "type": "object",
                "required": ["result"],
                "properties": {"result": {}},
            }),
            tags=["python", "code", "compute"],
            version="1.0.0",
            read_only=False,
            idempotent=False,
        )

    def call(self, arguments: str) -> str:
        names: dict[str, object] = {"events": events}
        events.status("running")
        try:
            exec(json.loads(arguments)["code"], names)
            # What is printed becomes log events.
            sys.stdout.flush()
            return json.dumps({"result": names.get("result")})
        except Exception as error:
            raise Err(f"{type(error).__name__}: {error}; mend the code and call again")
