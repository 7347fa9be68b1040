//! A client library under load, in a process of its own that is told what to do on its standard input.
//!
//! Each line is a number of calls in flight and of milliseconds; the reply is a line with the round
//! trips per second and the median and 99th percentile of a call's time in seconds, or with why a call
//! failed.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout, Command};
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;

use crate::server::Server;

/// What one slice of time gave.
#[derive(Debug, Default)]
pub struct Slice {
    /// Round trips per second.
    pub rate: f64,
    /// Seconds that half of the round trips took at most, and 99 in 100; only with one in flight.
    pub latency: Option<(f64, f64)>,
}

/// A client that does what it is told.
#[derive(Debug)]
pub struct Client {
    process: Server,
    orders: Option<ChildStdin>,
    reports: BufReader<ChildStdout>,
}

impl Client {
    /// Starts a program that obeys.
    ///
    /// # Errors
    /// If it does not start.
    pub fn start(command: &mut Command) -> io::Result<Self> {
        let (process, reports, orders) = Server::piped(command)?;
        Ok(Self {
            process,
            orders: Some(orders),
            reports: BufReader::new(reports),
        })
    }

    /// Has it keep so many calls in flight for about a slice of time.
    ///
    /// # Errors
    /// If it has failed.
    pub fn tell(&mut self, in_flight: usize, slice: Duration) -> io::Result<Slice> {
        let orders = self.orders.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        writeln!(orders, "{in_flight} {}", slice.as_millis())?;
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
            _ => Err(io::Error::other(format!("the client has failed: {report}"))),
        }
    }
}

impl Drop for Client {
    /// It ends when nobody can tell it anything more.
    fn drop(&mut self) {
        self.orders = None;
        self.process.wait();
    }
}

/// Does what it is told until its input ends. `call` makes one call and checks the answer.
///
/// # Errors
/// If a call fails, or it is told something else.
pub async fn obey<F, E>(call: impl Fn() -> F) -> io::Result<()>
where
    F: Future<Output = Result<(), E>>,
    E: std::fmt::Display,
{
    for line in io::stdin().lock().lines() {
        let line = line?;
        let (in_flight, slice) = order(&line).ok_or_else(|| io::Error::other(line.clone()))?;
        let start = Instant::now();
        let loops = (0..in_flight).map(|_| async {
            let mut times = Vec::new();
            while start.elapsed() < slice || times.is_empty() {
                let sent = Instant::now();
                call()
                    .await
                    .map_err(|error| io::Error::other(error.to_string()))?;
                times.push(sent.elapsed().as_secs_f64());
            }
            io::Result::Ok(times)
        });
        let times = try_join_all(loops).await;
        let mut times = match times {
            Ok(times) => times.concat(),
            Err(error) => {
                writeln!(io::stdout(), "{error}")?;
                return Err(error);
            }
        };
        let rate = times.len() as f64 / start.elapsed().as_secs_f64();
        times.sort_by(f64::total_cmp);
        let at = |share: f64| times.get((times.len() as f64 * share) as usize);
        let (half, most) = (at(0.5).unwrap_or(&0.0), at(0.99).unwrap_or(&0.0));
        writeln!(io::stdout(), "{rate} {half} {most}")?;
    }
    Ok(())
}

fn order(line: &str) -> Option<(usize, Duration)> {
    let (in_flight, millis) = line.split_once(' ')?;
    let slice = Duration::from_millis(millis.parse().ok()?);
    Some((in_flight.parse().ok()?, slice))
}
