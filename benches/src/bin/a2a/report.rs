//! What was measured, as a table for people and as JSON for programs.

use benches::pin::Pinning;
use benches::report::{Figure, Medians, short, whole};
use benches::turns::{IN_FLIGHT, Score};
use serde_json::{Value, json};

use crate::contest::{Name, Side, Task, Transport};

/// The outcome with clients and servers at certain CPUs.
pub(crate) struct Outcome {
    pinning: Pinning,
    sizes: String,
    cells: Vec<Cell>,
}

/// Medians of one contestant with so many in flight.
#[derive(Debug)]
struct Cell {
    task: Task,
    transport: Transport,
    side: Side,
    in_flight: usize,
    medians: Medians,
}

impl Outcome {
    pub(crate) fn new(pinning: Pinning, sizes: String, scores: &[Score<Name>]) -> Self {
        let cells = scores.iter().flat_map(|score| {
            let (task, transport, side) = score.name;
            let slices = IN_FLIGHT.into_iter().zip(&score.slices);
            slices.map(move |(in_flight, slices)| Cell {
                task,
                transport,
                side,
                in_flight,
                medians: Medians::of(slices),
            })
        });
        Self {
            pinning,
            sizes,
            cells: cells.collect(),
        }
    }

    /// The tables; counts what was missed.
    pub(crate) fn table(&self) -> (String, usize) {
        let mut text = format!(
            "\n{}; messages of {} bytes\n",
            self.pinning.name(),
            self.sizes
        );
        let mut missed = 0;
        for task in Task::ALL {
            text += &format!(
                "\n{:13} {:>3} {:>10} {:>8} {:>8} {:>6} {:>6}    {:>8} {:>6}   {:>10} {:>6}\n",
                format!("{}s/s", task.name()),
                "",
                "bare axum",
                "floor",
                "frith",
                "ratio",
                "target",
                "Rust SDK",
                "ratio",
                "Python SDK",
                "ratio"
            );
            for transport in Transport::ALL {
                for in_flight in IN_FLIGHT {
                    let Some((row, is_missed)) = self.row(task, transport, in_flight) else {
                        continue;
                    };
                    text += &row;
                    missed += usize::from(is_missed);
                }
            }
        }
        (text + &self.latencies(), missed)
    }

    /// One line, and whether its target is missed; nothing if ours is not there.
    fn row(&self, task: Task, transport: Transport, in_flight: usize) -> Option<(String, bool)> {
        let medians = |side| {
            let cell = self.cell(task, transport, side, in_flight);
            cell.map(|cell| &cell.medians)
        };
        let rate = |side| medians(side).map(|medians| medians.rate);
        let ours = medians(Side::Ours)?;
        let to = |side| medians(side).map(|theirs| ours.ratio_to(theirs));
        let ratio = to(Side::Floor);
        let target = target(task, in_flight).filter(|_| ratio.is_some());
        let is_missed = ratio
            .zip(target)
            .is_some_and(|(ratio, target)| ratio < target);
        let mark = if is_missed { "!" } else { " " };
        let row = format!(
            "{:13} {in_flight:3} {:>10} {:>8} {:>8} {:>6} {:>6} {mark}  {:>8} {:>6}   {:>10} {:>6}\n",
            transport.name(),
            whole(rate(Side::Bare)),
            whole(rate(Side::Floor)),
            whole(Some(ours.rate)),
            short(ratio),
            short(target),
            whole(rate(Side::RustSdk)),
            short(to(Side::RustSdk)),
            whole(rate(Side::PythonSdk)),
            short(to(Side::PythonSdk)),
        );
        Some((row, is_missed))
    }

    fn cell(
        &self,
        task: Task,
        transport: Transport,
        side: Side,
        in_flight: usize,
    ) -> Option<&Cell> {
        let wanted = (task, transport, side, in_flight);
        let mut cells = self.cells.iter();
        cells.find(|cell| (cell.task, cell.transport, cell.side, cell.in_flight) == wanted)
    }

    fn latencies(&self) -> String {
        let mut text = "\none in flight, p50 / p99 in microseconds\n".to_owned();
        for task in Task::ALL {
            for transport in Transport::ALL {
                let times = Side::ALL.into_iter().filter_map(|side| {
                    let cell = self.cell(task, transport, side, 1)?;
                    let (half, most) = cell.medians.latency?;
                    let (half, most) = (half * 1e6, most * 1e6);
                    Some(format!("   {} {half:.0} / {most:.0}", side.name()))
                });
                let times: String = times.collect();
                if !times.is_empty() {
                    text += &format!("{:9} {:9}{times}\n", task.name(), transport.name());
                }
            }
        }
        text
    }

    fn to_json(&self) -> Value {
        let cells = self.cells.iter().map(|cell| {
            let Medians {
                rate,
                latency,
                rates,
            } = &cell.medians;
            json!({
                "task": cell.task.name(),
                "transport": cell.transport.name(),
                "side": cell.side.name(),
                "in_flight": cell.in_flight,
                "rate": rate,
                "p50_seconds": latency.map(|(half, _)| half),
                "p99_seconds": latency.map(|(_, most)| most),
                "rates": rates,
            })
        });
        json!({
            "pinning": self.pinning.name(),
            "message_bytes": self.sizes,
            "cells": cells.collect::<Vec<_>>(),
        })
    }
}

/// The share of the floor that is wanted.
fn target(task: Task, in_flight: usize) -> Option<f64> {
    match (task, in_flight) {
        (_, 64) => Some(1.0),
        (Task::Handshake, 1) => Some(0.85),
        (Task::Request, 1) => Some(0.9),
        _ => None,
    }
}

pub(crate) fn to_json(outcomes: &[Outcome], figures: &[Figure]) -> Value {
    json!({
        "exchanges": outcomes.iter().map(Outcome::to_json).collect::<Vec<_>>(),
        "figures": figures.iter().map(Figure::to_json).collect::<Vec<_>>(),
    })
}
