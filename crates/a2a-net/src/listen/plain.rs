//! Peers that speak HTTP without TLS.

use std::io;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::carry::{Limits, close};

const TEXT: &str = "This port speaks A2A over TLS. Use https://.\n";

/// Whether a peer begins with a method of HTTP. A record of TLS begins with no letter.
pub(super) async fn is_plain(stream: &TcpStream) -> io::Result<bool> {
    let mut first = [0];
    stream.peek(&mut first).await?;
    Ok(first.iter().all(u8::is_ascii_uppercase))
}

/// Says what is spoken here, and nothing else.
pub(super) async fn refuse(mut stream: TcpStream, limits: &Limits) {
    let length = TEXT.len();
    let response = format!(
        "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n\
         Content-Length: {length}\r\nConnection: close\r\n\r\n{TEXT}"
    );
    if stream.write_all(response.as_bytes()).await.is_ok() {
        close(&mut stream, limits).await;
    }
}
