//! HTTP/1.1 by hand: one request at a time on each of several connections, and a stream of events.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::time::Duration;

use memchr::memmem;
use rustix::buffer::spare_capacity;
use rustix::event::epoll;

use crate::load::{Calls, Channel};

/// A connection that takes one request after another.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    response: Vec<u8>,
}

/// Posts calls over several connections. A call is done when its post is answered and, if there is a
/// stream of events, when its event has come.
pub(crate) struct Posts {
    connections: Vec<Connection>,
    free: Vec<usize>,
    events: Option<Events>,
    poll: OwnedFd,
    ready: Vec<epoll::Event>,
    head: String,
    calls: Calls,
    request: Vec<u8>,
    chunk: Vec<u8>,
    answered: usize,
    done: usize,
}

/// A stream of server-sent events.
#[derive(Debug)]
pub(crate) struct Events {
    stream: TcpStream,
    /// The line that has begun.
    line: Vec<u8>,
    count: usize,
}

const CHUNK: usize = 64 * 1024;

/// A server that takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(30);

/// Marks the stream of events among the connections.
const EVENTS: u64 = u64::MAX;

/// A connection without delay.
pub(crate) fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(stream)
}

impl Connection {
    pub(crate) fn open(address: SocketAddr) -> io::Result<Self> {
        Ok(Self {
            stream: connect(address)?,
            response: Vec::new(),
        })
    }

    /// Sends a request; gives all of the response.
    pub(crate) fn ask(&mut self, request: &str) -> io::Result<String> {
        self.stream.write_all(request.as_bytes())?;
        let mut chunk = vec![0; CHUNK];
        self.response.clear();
        while !self.read(&mut chunk)? {}
        let response = String::from_utf8_lossy(&self.response).into_owned();
        match response.starts_with("HTTP/1.1 2") {
            true => Ok(response),
            false => Err(io::Error::other(response)),
        }
    }

    /// Reads once; says whether the response is whole.
    fn read(&mut self, chunk: &mut [u8]) -> io::Result<bool> {
        let size = self.stream.read(chunk)?;
        if size == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.response
            .extend_from_slice(chunk.get(..size).unwrap_or_default());
        Ok(is_whole(&self.response))
    }
}

/// Whether this is a whole response; one in chunks is if it ends in the last chunk.
fn is_whole(response: &[u8]) -> bool {
    let Some(end) = memmem::find(response, b"\r\n\r\n") else {
        return false;
    };
    let (head, rest) = response.split_at(end);
    let body = rest.get(4..).unwrap_or_default();
    match length(head) {
        Some(length) => body.len() >= length,
        None => body == b"0\r\n\r\n" || body.ends_with(b"\r\n0\r\n\r\n"),
    }
}

fn length(head: &[u8]) -> Option<usize> {
    const NAME: &[u8] = b"content-length: ";
    let line = head.split(|byte| *byte == b'\n').find(|line| {
        line.len() > NAME.len()
            && line
                .iter()
                .zip(NAME)
                .all(|(a, b)| a.to_ascii_lowercase() == *b)
    })?;
    std::str::from_utf8(line.get(NAME.len()..)?)
        .ok()?
        .trim()
        .parse()
        .ok()
}

impl Events {
    /// Opens a stream by this request.
    pub(crate) fn open(address: SocketAddr, request: &str) -> io::Result<Self> {
        let mut stream = connect(address)?;
        stream.write_all(request.as_bytes())?;
        Ok(Self {
            stream,
            line: Vec::new(),
            count: 0,
        })
    }

    /// Waits for the next event.
    pub(crate) fn next(&mut self) -> io::Result<()> {
        let count = self.count;
        let mut chunk = vec![0; CHUNK];
        while self.count == count {
            self.read(&mut chunk, |_| Ok(()))?;
        }
        Ok(())
    }

    /// Reads once, and takes the lines of data; the sizes of chunks between them end otherwise.
    fn read(
        &mut self,
        chunk: &mut [u8],
        mut take: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let size = self.stream.read(chunk)?;
        if size == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let chunk = chunk.get(..size).unwrap_or_default();
        let mut start = 0;
        for end in memchr::memchr_iter(b'\n', chunk) {
            let part = chunk.get(start..end).unwrap_or_default();
            self.line.extend_from_slice(part);
            if let Some(data) = self.line.strip_prefix(b"data:")
                && data.ends_with(b"}")
            {
                self.count += 1;
                take(data)?;
            }
            self.line.clear();
            start = end + 1;
        }
        self.line
            .extend_from_slice(chunk.get(start..).unwrap_or_default());
        Ok(())
    }
}

impl Posts {
    /// Posts to a path with these header lines, each with its end.
    pub(crate) fn open(
        address: SocketAddr,
        path: &str,
        headers: &str,
        events: Option<Events>,
        calls: Calls,
        connections: usize,
    ) -> io::Result<Self> {
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let connections: Vec<Connection> = (0..connections)
            .map(|_| Connection::open(address))
            .collect::<io::Result<_>>()?;
        for (number, connection) in connections.iter().enumerate() {
            let data = epoll::EventData::new_u64(number as u64);
            epoll::add(&poll, &connection.stream, data, epoll::EventFlags::IN)?;
        }
        if let Some(events) = &events {
            let data = epoll::EventData::new_u64(EVENTS);
            epoll::add(&poll, &events.stream, data, epoll::EventFlags::IN)?;
        }
        let before = events.as_ref().map_or(0, |events| events.count);
        Ok(Self {
            free: (0..connections.len()).rev().collect(),
            ready: Vec::with_capacity(connections.len() + 1),
            connections,
            done: before,
            answered: before,
            events,
            poll,
            head: format!(
                "POST {path} HTTP/1.1\r\nHost: {address}\r\n{headers}Content-Length: {}\r\n\r\n",
                calls.len()
            ),
            calls,
            request: Vec::new(),
            chunk: vec![0; CHUNK],
        })
    }

    fn take(&mut self, number: u64) -> io::Result<()> {
        if number == EVENTS {
            let take = |reply: &[u8]| self.calls.answered(reply);
            return self
                .events
                .as_mut()
                .map_or(Ok(()), |events| events.read(&mut self.chunk, take));
        }
        let number = number as usize;
        let Some(connection) = self.connections.get_mut(number) else {
            return Ok(());
        };
        if connection.read(&mut self.chunk)? {
            self.answered += 1;
            self.free.push(number);
            if !connection.response.starts_with(b"HTTP/1.1 2") {
                let response = String::from_utf8_lossy(&connection.response);
                return Err(io::Error::other(response.into_owned()));
            }
            if self.events.is_none() {
                self.calls.answered(object(&connection.response))?;
            }
            connection.response.clear();
        }
        Ok(())
    }
}

/// The JSON object of a response, whatever is around it.
fn object(response: &[u8]) -> &[u8] {
    let start = memchr::memchr(b'{', response).unwrap_or_default();
    let end = memchr::memrchr(b'}', response).unwrap_or_default();
    response.get(start..=end).unwrap_or_default()
}

impl Channel for Posts {
    fn send(&mut self, requests: usize) -> io::Result<()> {
        for _ in 0..requests {
            let number = self.free.pop();
            let Some(connection) = number.and_then(|number| self.connections.get_mut(number))
            else {
                return Err(io::Error::other("every connection waits for an answer"));
            };
            self.request.clear();
            self.request.extend_from_slice(self.head.as_bytes());
            self.calls.append(&mut self.request);
            connection.stream.write_all(&self.request)?;
        }
        Ok(())
    }

    fn receive(&mut self) -> io::Result<usize> {
        loop {
            self.ready.clear();
            epoll::wait(&self.poll, spare_capacity(&mut self.ready), None)?;
            for index in 0..self.ready.len() {
                if let Some(event) = self.ready.get(index) {
                    self.take(event.data.u64())?;
                }
            }
            let events = self.events.as_ref().map(|events| events.count);
            let done = self.answered.min(events.unwrap_or(usize::MAX));
            let new = done - self.done.min(done);
            self.done = done;
            if new > 0 {
                return Ok(new);
            }
        }
    }
}
