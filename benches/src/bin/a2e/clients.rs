//! Client libraries, each in a process of its own.

use std::io;
use std::time::Duration;

use benches::client::Client;

use crate::load::{Load, Slice};

impl Load for Client {
    fn drive(&mut self, in_flight: usize, slice: Duration) -> io::Result<Slice> {
        self.tell(in_flight, slice)
    }
}
