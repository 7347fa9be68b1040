//! A bare hyper client.

use std::error::Error;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Mutex;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper::{Request, Response, StatusCode, header};
use hyper_util::rt::{TokioExecutor, TokioIo};
use peers::tls::{Dialer, H2, HTTP_1_1};

use crate::grpc;
use crate::socket::Socket;

/// What carries messages.
pub(crate) enum Carrier {
    /// Connections that wait for a request.
    Http1 {
        dialer: Dialer,
        free: Mutex<Vec<http1::SendRequest<Full<Bytes>>>>,
        uri: String,
    },
    Http2 {
        connection: http2::SendRequest<Full<Bytes>>,
        uri: String,
    },
    Grpc {
        connection: http2::SendRequest<Full<Bytes>>,
        uri: String,
    },
    WebSocket(Socket),
}

impl Carrier {
    /// The one of this name, to the part of the server that is bare or signed.
    pub(crate) async fn open(
        name: &str,
        folder: &Path,
        address: SocketAddr,
        part: &str,
    ) -> Result<Self, Box<dyn Error>> {
        let dialer = |protocol| Dialer::new(folder, address, protocol);
        Ok(match name {
            "http/1.1" => Self::Http1 {
                dialer: dialer(HTTP_1_1)?,
                free: Mutex::default(),
                uri: format!("/{part}/post"),
            },
            "h2" => Self::Http2 {
                connection: connection(&dialer(H2)?).await?,
                uri: format!("https://{address}/{part}/post"),
            },
            "grpc" => Self::Grpc {
                connection: connection(&dialer(H2)?).await?,
                uri: format!("https://{address}/{part}/grpc"),
            },
            "websocket" => {
                Self::WebSocket(Socket::open(&dialer(HTTP_1_1)?, &format!("/{part}/ws")).await?)
            }
            _ => return Err(format!("there is no {name}").into()),
        })
    }

    /// Sends a message and waits for the answer.
    pub(crate) async fn send(&self, message: Vec<u8>) -> Result<Bytes, Box<dyn Error>> {
        match self {
            Self::Http1 { dialer, free, uri } => {
                let kept = free.lock().ok().and_then(|mut free| free.pop());
                let mut connection = match kept {
                    Some(connection) => connection,
                    None => {
                        let stream = TokioIo::new(dialer.dial().await?);
                        let (sender, connection) = http1::handshake(stream).await?;
                        tokio::spawn(connection);
                        sender
                    }
                };
                let request = Request::post(uri)
                    .header(header::HOST, dialer.address().to_string())
                    .header(header::CONTENT_TYPE, "application/json")
                    .body(Full::from(message))?;
                let response = connection.send_request(request).await?;
                let answer = whole(response).await?;
                connection.ready().await?;
                if let Ok(mut free) = free.lock() {
                    free.push(connection);
                }
                Ok(answer)
            }
            Self::Http2 { connection, uri } => {
                let request = Request::post(uri)
                    .header(header::CONTENT_TYPE, "application/json")
                    .body(Full::from(message))?;
                whole(connection.clone().send_request(request).await?).await
            }
            Self::Grpc { connection, uri } => {
                let request = Request::post(uri)
                    .header(header::CONTENT_TYPE, grpc::MEDIA_TYPE)
                    .header(header::TE, "trailers")
                    .body(Full::from(grpc::frame(&message)))?;
                let response = connection.clone().send_request(request).await?;
                let body = response.into_body().collect().await?;
                let status = body
                    .trailers()
                    .and_then(|trailers| trailers.get("grpc-status"));
                if status.is_none_or(|status| status != "0") {
                    return Err("the call has failed".into());
                }
                grpc::message(&body.to_bytes()).ok_or_else(|| "not a frame".into())
            }
            Self::WebSocket(socket) => socket.send(message).await,
        }
    }
}

async fn connection(dialer: &Dialer) -> Result<http2::SendRequest<Full<Bytes>>, Box<dyn Error>> {
    let stream = TokioIo::new(dialer.dial().await?);
    let (sender, connection) = http2::handshake(TokioExecutor::new(), stream).await?;
    tokio::spawn(connection);
    Ok(sender)
}

async fn whole(response: Response<Incoming>) -> Result<Bytes, Box<dyn Error>> {
    let status = response.status();
    let body = response.into_body().collect().await?.to_bytes();
    match status {
        StatusCode::OK => Ok(body),
        _ => Err(format!("{status}: {}", String::from_utf8_lossy(&body)).into()),
    }
}
