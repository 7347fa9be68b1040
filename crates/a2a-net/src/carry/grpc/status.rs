//! How a call went, in the trailers of gRPC.

use a2a_wire::{ErrorCode, GrpcStatus};
use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use hyper::HeaderMap;
use hyper::header::HeaderValue;

use super::ERROR;

/// `UNKNOWN`: an error that the table does not have.
const UNKNOWN: u8 = 2;

/// An error message over this size is left out of the trailers: header blocks have limits everywhere. Ours are far below it.
const MAX_ERROR: usize = 8 * 1024;

/// A call that went well.
pub(crate) fn ok() -> HeaderMap {
    let mut trailers = HeaderMap::with_capacity(1);
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    trailers
}

/// A call that was answered with an error.
pub(crate) fn from_error(code: &ErrorCode, message: &[u8]) -> HeaderMap {
    let mut trailers = HeaderMap::with_capacity(3);
    let status = code.grpc().map_or(UNKNOWN, |status| status as u8);
    trailers.insert("grpc-status", HeaderValue::from(u16::from(status)));
    if !code.text().is_empty() {
        trailers.insert("grpc-message", HeaderValue::from_static(code.text()));
    }
    if message.len() <= MAX_ERROR
        && let Ok(value) = HeaderValue::try_from(STANDARD_NO_PAD.encode(message))
    {
        trailers.insert(ERROR, value);
    }
    trailers
}

/// The HTTP status that stands for one of gRPC.
pub(crate) fn http_status(status: u8) -> u16 {
    const ALL: [(GrpcStatus, u16); 12] = [
        (GrpcStatus::Cancelled, 409),
        (GrpcStatus::InvalidArgument, 400),
        (GrpcStatus::DeadlineExceeded, 504),
        (GrpcStatus::AlreadyExists, 409),
        (GrpcStatus::PermissionDenied, 403),
        (GrpcStatus::ResourceExhausted, 429),
        (GrpcStatus::FailedPrecondition, 400),
        (GrpcStatus::Aborted, 500),
        (GrpcStatus::OutOfRange, 413),
        (GrpcStatus::Unimplemented, 400),
        (GrpcStatus::Unavailable, 503),
        (GrpcStatus::Unauthenticated, 401),
    ];
    let known = ALL.iter().find(|(known, _)| *known as u8 == status);
    known.map_or(500, |(_, http)| *http)
}
