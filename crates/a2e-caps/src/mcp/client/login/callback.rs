//! Where a browser comes back to when somebody has logged in: an address of this machine alone, for as
//! long as that takes.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Waits for a browser.
#[derive(Debug)]
pub(super) struct Callback {
    listener: TcpListener,
    /// The address without its query.
    pub(super) uri: String,
}

/// How long one connection may take to say what it wants.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long that may be.
const MAX_HEAD: usize = 16 * 1024;

const PATH: &str = "/callback";

impl Callback {
    /// Listens.
    ///
    /// # Errors
    /// If this machine has no place to listen at.
    pub(super) async fn listen() -> Result<Self, String> {
        let listener = TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.map_err(|error| format!("cannot wait for a browser: {error}"))?;
        let address = listener.local_addr().map_err(|error| error.to_string())?;
        Ok(Self {
            listener,
            uri: format!("http://{address}{PATH}"),
        })
    }

    /// What the next browser comes back with, and the browser.
    pub(super) async fn next(&self) -> (Vec<(String, String)>, Browser) {
        loop {
            let Ok((stream, _)) = self.listener.accept().await else {
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            let mut browser = Browser(stream);
            let asked = tokio::time::timeout(PATIENCE, browser.asked()).await;
            match asked.ok().flatten() {
                Some(query) => return (parameters(&query), browser),
                None => browser.tell(404, "There is nothing here.").await,
            }
        }
    }
}

/// A browser that waits for its page.
#[derive(Debug)]
pub(super) struct Browser(TcpStream);

impl Browser {
    /// The query of the address that it wants.
    async fn asked(&mut self) -> Option<String> {
        let mut head = Vec::new();
        let mut some = [0; 1024];
        while !head.windows(4).any(|end| end == b"\r\n\r\n") {
            let read = self.0.read(&mut some).await.ok().filter(|read| *read > 0)?;
            head.extend_from_slice(some.get(..read)?);
            if head.len() > MAX_HEAD {
                return None;
            }
        }
        let line = head.split(|byte| *byte == b'\r').next()?;
        let mut words = std::str::from_utf8(line).ok()?.split(' ');
        let (method, to) = (words.next()?, words.next()?);
        let query = to.strip_prefix(PATH)?.strip_prefix('?')?;
        (method == "GET").then(|| query.to_owned())
    }

    /// Shows a sentence.
    pub(super) async fn tell(mut self, status: u16, text: &str) {
        let page = format!(
            "HTTP/1.1 {status} x\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n\
             Connection: close\r\n\r\n{text}",
            text.len()
        );
        // One that has gone needs no page.
        let told = self.0.write_all(page.as_bytes());
        let _ = tokio::time::timeout(PATIENCE, told).await;
        let _ = self.0.shutdown().await;
    }
}

/// The parameters of a query.
fn parameters(query: &str) -> Vec<(String, String)> {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs
        .map(|(name, value)| (decode(name), decode(value)))
        .collect()
}

/// A text without its percent-encoding.
fn decode(text: &str) -> String {
    let mut parts = text.split('%');
    let mut bytes = plain(parts.next().unwrap_or_default());
    for part in parts {
        let escaped = part.get(..2).and_then(|digits| hex::decode(digits).ok());
        match (escaped, part.get(2..)) {
            (Some(mut byte), Some(rest)) => {
                bytes.append(&mut byte);
                bytes.append(&mut plain(rest));
            }
            _ => {
                bytes.push(b'%');
                bytes.append(&mut plain(part));
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// What is not escaped: a plus is a space.
fn plain(text: &str) -> Vec<u8> {
    text.replace('+', " ").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_read_as_they_are_meant() {
        let read = parameters("code=a%2Fb%3D&state=x&empty=&iss=https%3A%2F%2Fh%2f&bad=%zz%1&no");
        let expected = [
            ("code", "a/b="),
            ("state", "x"),
            ("empty", ""),
            ("iss", "https://h/"),
            ("bad", "%zz%1"),
        ];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(read, expected);
        assert_eq!(decode("a+b%20c%C3%A4"), "a b cä");
    }
}
