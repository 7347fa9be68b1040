//! Client libraries, each in a process of its own.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout, Command};
use std::time::Duration;

use crate::load::{Load, Slice};
use crate::servers::Server;

/// A client that does what it is told; see `benches::client`.
pub(crate) struct Client {
    _process: Server,
    orders: ChildStdin,
    reports: BufReader<ChildStdout>,
}

impl Client {
    pub(crate) fn start(command: &mut Command) -> io::Result<Self> {
        let (process, reports, orders) = Server::piped(command)?;
        Ok(Self {
            _process: process,
            orders,
            reports: BufReader::new(reports),
        })
    }
}

impl Load for Client {
    fn drive(&mut self, in_flight: usize, slice: Duration) -> io::Result<Slice> {
        writeln!(self.orders, "{in_flight} {}", slice.as_millis())?;
        let mut report = String::new();
        self.reports.read_line(&mut report)?;
        let figures: Vec<f64> = report
            .split_whitespace()
            .map_while(|figure| figure.parse().ok())
            .collect();
        match figures.as_slice() {
            [rate, half, most] => Ok(Slice {
                rate: *rate,
                latency: (in_flight == 1).then_some((*half, *most)),
            }),
            _ => Err(io::Error::other("the client has failed")),
        }
    }
}
