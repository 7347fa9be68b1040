//! Profile §12: the table as it is written there.

use a2a_wire::{ErrorCode, GrpcStatus, Phase, Reason, Retry};

/// Code, HTTP, gRPC by name, WebSocket, baseline codes in a handshake and in a session.
#[rustfmt::skip]
const TABLE: &[(&str, u16, &str, u16, &str, &str)] = &[
    ("UNVERIFIED_AGENT", 401, "UNAUTHENTICATED", 4401, "", ""),
    ("INVALID_MANIFEST", 400, "INVALID_ARGUMENT", 4402, "", ""),
    ("POLICY_VIOLATION", 403, "PERMISSION_DENIED", 4403, "", ""),
    ("RATE_LIMIT_EXCEEDED", 429, "RESOURCE_EXHAUSTED", 4429, "", ""),
    ("UNSUPPORTED_CAPABILITY", 400, "UNIMPLEMENTED", 0, "", ""),
    ("INVALID_INTENT", 400, "INVALID_ARGUMENT", 0, "", ""),
    ("PROTOCOL_VERSION_UNSUPPORTED", 400, "FAILED_PRECONDITION", 4406, "", ""),
    ("HANDSHAKE_FAILED", 500, "ABORTED", 4410, "", ""),
    ("HANDSHAKE_TIMEOUT", 408, "DEADLINE_EXCEEDED", 4408, "", ""),
    ("SESSION_EXPIRED", 401, "UNAUTHENTICATED", 0, "", ""),
    ("TIMEOUT", 504, "DEADLINE_EXCEEDED", 0, "", ""),
    ("SERVICE_UNAVAILABLE", 503, "UNAVAILABLE", 4503, "", ""),
    ("INTERNAL_ERROR", 500, "INTERNAL", 4500, "", ""),
    ("INVALID_MESSAGE", 400, "INVALID_ARGUMENT", 4400, "HANDSHAKE_FAILED", "INVALID_INTENT"),
    ("REPLAY_DETECTED", 409, "ALREADY_EXISTS", 0, "HANDSHAKE_FAILED", "POLICY_VIOLATION"),
    ("PAYLOAD_TOO_LARGE", 413, "OUT_OF_RANGE", 1009, "POLICY_VIOLATION", "POLICY_VIOLATION"),
    ("CANCELLED", 409, "CANCELLED", 0, "TIMEOUT", "TIMEOUT"),
];

fn grpc_name(status: GrpcStatus) -> String {
    let mut name = String::new();
    for letter in format!("{status:?}").chars() {
        if letter.is_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(letter.to_ascii_uppercase());
    }
    name
}

/// Proves A-8-1 to A-8-12.
#[test]
fn the_table_is_the_profiles() {
    assert_eq!(ErrorCode::ALL.len(), TABLE.len());
    for (code, http, grpc, close, handshake, session) in TABLE {
        let error = ErrorCode::from(*code);
        assert!(ErrorCode::ALL.contains(&error), "{code}");
        assert_eq!(error.as_str(), *code);
        assert_eq!(error.http(), Some(*http), "{code}");
        assert_eq!(grpc_name(error.grpc().unwrap()), *grpc);
        assert_eq!(error.websocket_close().unwrap_or(0), *close, "{code}");
        let or_same = |other: &&str| ErrorCode::from(if other.is_empty() { code } else { *other });
        assert_eq!(error.for_baseline(Phase::Handshake), or_same(handshake));
        assert_eq!(error.for_baseline(Phase::Session), or_same(session));
        assert!(!error.text().is_empty());
    }
}

/// gRPC's own numbers.
#[test]
fn grpc_numbers() {
    assert_eq!(GrpcStatus::Cancelled as u8, 1);
    assert_eq!(GrpcStatus::PermissionDenied as u8, 7);
    assert_eq!(GrpcStatus::OutOfRange as u8, 11);
    assert_eq!(GrpcStatus::Unauthenticated as u8, 16);
}

/// Proves A-8-16.
#[test]
fn retry_classes() {
    let class = |code: &str| ErrorCode::from(code).retry();
    assert_eq!(class("RATE_LIMIT_EXCEEDED"), Some(Retry::AfterReset));
    assert_eq!(class("HANDSHAKE_FAILED"), Some(Retry::NewHandshake));
    assert_eq!(class("SESSION_EXPIRED"), Some(Retry::OneNewHandshake));
    assert_eq!(class("TIMEOUT"), Some(Retry::WithIntentId));
    assert_eq!(class("INTERNAL_ERROR"), Some(Retry::WithIntentIdAtMost(2)));
    assert_eq!(class("UNVERIFIED_AGENT"), Some(Retry::No));
    assert_eq!(class("SOMETHING_NEW"), None);
}

#[test]
fn codes_of_others_survive() {
    let code = ErrorCode::from("TEAPOT");
    assert_eq!(code.as_str(), "TEAPOT");
    assert_eq!(code.http(), None);
    assert_eq!(code.for_baseline(Phase::Session), code);
}

#[test]
fn every_reason_has_a_code_and_one_spelling() {
    assert_eq!(Reason::ALL.len(), 35);
    for reason in Reason::ALL {
        assert!(!reason.codes().is_empty());
        let same = Reason::ALL
            .iter()
            .filter(|other| other.as_str() == reason.as_str());
        assert_eq!(same.count(), 1, "{reason}");
    }
}
