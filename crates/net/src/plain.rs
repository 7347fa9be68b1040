//! Peers that speak HTTP without TLS.

use std::io;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::{DiscardLimits, close};

/// Whether a peer begins with a method of HTTP. A record of TLS begins with no letter.
///
/// # Errors
/// If the connection breaks.
pub async fn is_plain_http(stream: &TcpStream) -> io::Result<bool> {
    let mut first = [0];
    stream.peek(&mut first).await?;
    Ok(first.iter().all(u8::is_ascii_uppercase))
}

/// Says in a response of HTTP what is spoken here, and nothing else.
pub async fn refuse_plain_http(mut stream: TcpStream, text: &str, limits: DiscardLimits) {
    let length = text.len();
    let response = format!(
        "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n\
         Content-Length: {length}\r\nConnection: close\r\n\r\n{text}"
    );
    if stream.write_all(response.as_bytes()).await.is_ok() {
        close(&mut stream, limits).await;
    }
}
