//! What was measured, as a table for people and as JSON for programs.

use benches::pin::Pinning;
use benches::report::{Figure, Medians, short, whole};
use benches::turns::{IN_FLIGHT, Score};
use serde_json::{Value, json};

use crate::contest::{Name, Side, Transport};

/// The outcome with client and server at certain CPUs.
pub(crate) struct Outcome {
    pub(crate) pinning: Pinning,
    pub(crate) cells: Vec<Cell>,
}

/// Medians of one server with so many in flight.
#[derive(Debug)]
pub(crate) struct Cell {
    pub(crate) transport: Transport,
    pub(crate) side: Side,
    pub(crate) in_flight: usize,
    pub(crate) medians: Medians,
}

impl Outcome {
    pub(crate) fn new(pinning: Pinning, scores: &[Score<Name>]) -> Self {
        let cells = scores.iter().flat_map(|score| {
            let (transport, side) = score.name;
            let slices = IN_FLIGHT.into_iter().zip(&score.slices);
            slices.map(move |(in_flight, slices)| Cell {
                transport,
                side,
                in_flight,
                medians: Medians::of(slices),
            })
        });
        Self {
            pinning,
            cells: cells.collect(),
        }
    }

    pub(crate) fn cell(&self, transport: Transport, side: Side, in_flight: usize) -> Option<&Cell> {
        self.cells.iter().find(|cell| {
            (cell.transport, cell.side, cell.in_flight) == (transport, side, in_flight)
        })
    }

    /// The table; counts what was missed.
    pub(crate) fn table(&self) -> (String, usize) {
        let mut text = format!(
            "\n{}, round trips per second\n{:12} {:>3} {:>9} {:>9} {:>6} {:>6}    {:>9} {:>6} {:>6}    {:>9} {:>6}\n",
            self.pinning.name(),
            "",
            "",
            "limit",
            "frith",
            "ratio",
            "target",
            "Rust MCP",
            "ratio",
            "target",
            "Python MCP",
            "ratio"
        );
        let mut missed = 0;
        for transport in Transport::ALL {
            for in_flight in IN_FLIGHT {
                let medians = |side| {
                    let cell = self.cell(transport, side, in_flight);
                    cell.map(|cell| &cell.medians)
                };
                let rate = |side| medians(side).map(|medians| medians.rate);
                let Some(ours) = medians(Side::Ours) else {
                    continue;
                };
                let to = |side| medians(side).map(|theirs| ours.ratio_to(theirs));
                let mut compared = |side, target: Option<f64>| {
                    let ratio = to(side);
                    let target = target.filter(|_| ratio.is_some());
                    let is_missed = ratio
                        .zip(target)
                        .is_some_and(|(ratio, target)| ratio < target);
                    missed += usize::from(is_missed);
                    let mark = if is_missed { " !" } else { "  " };
                    format!("{:>6} {:>6}{mark}", short(ratio), short(target))
                };
                let limit = compared(Side::Limit, limit_target(transport, in_flight));
                let mcp = compared(
                    Side::RustMcp,
                    mcp_target(self.pinning, transport, in_flight),
                );
                text += &format!(
                    "{:12} {in_flight:3} {:>9} {:>9} {limit}  {:>9} {mcp}  {:>9} {:>6}\n",
                    transport.name(),
                    whole(rate(Side::Limit)),
                    whole(Some(ours.rate)),
                    whole(rate(Side::RustMcp)),
                    whole(rate(Side::PythonMcp)),
                    short(to(Side::PythonMcp)),
                );
            }
        }
        (text + &self.latencies(), missed)
    }

    fn latencies(&self) -> String {
        let mut text = "\none in flight, p50 / p99 in microseconds\n".to_owned();
        for transport in Transport::ALL {
            text += &format!("{:12}", transport.name());
            for side in Side::ALL {
                let cell = self.cell(transport, side, 1);
                if let Some((half, most)) = cell.and_then(|cell| cell.medians.latency) {
                    let (half, most) = (half * 1e6, most * 1e6);
                    text += &format!("   {} {half:.0} / {most:.0}", side.name());
                }
            }
            text.push('\n');
        }
        text
    }

    fn to_json(&self) -> Value {
        let cells = self.cells.iter().map(|cell| {
            json!({
                "transport": cell.transport.name(),
                "server": cell.side.name(),
                "in_flight": cell.in_flight,
                "rate": cell.medians.rate,
                "p50_seconds": cell.medians.latency.map(|(half, _)| half),
                "p99_seconds": cell.medians.latency.map(|(_, most)| most),
                "rates": cell.medians.rates,
            })
        });
        json!({"pinning": self.pinning.name(), "cells": cells.collect::<Vec<_>>()})
    }
}

/// The share of the bare limit that is wanted.
fn limit_target(transport: Transport, in_flight: usize) -> Option<f64> {
    match (transport, in_flight) {
        (_, 64) => Some(0.5),
        (Transport::Stdio | Transport::Unix | Transport::Tcp, 1) => Some(0.7),
        (Transport::Http, 1) => Some(0.45),
        (Transport::WebSocket, 1) => Some(0.6),
        _ => None,
    }
}

/// How many times the speed of the Rust MCP SDK is wanted.
fn mcp_target(pinning: Pinning, transport: Transport, in_flight: usize) -> Option<f64> {
    match (pinning, transport, in_flight) {
        (Pinning::Shared, Transport::Stdio, 1) => Some(4.0),
        (Pinning::Shared, Transport::Stdio, 64) => Some(10.0),
        (Pinning::Shared, Transport::HttpClients, 1 | 64) => Some(3.0),
        _ => None,
    }
}

pub(crate) fn to_json(outcomes: &[Outcome], figures: &[Figure]) -> Value {
    json!({
        "round_trips": outcomes.iter().map(Outcome::to_json).collect::<Vec<_>>(),
        "at_rest": figures.iter().map(Figure::to_json).collect::<Vec<_>>(),
    })
}
