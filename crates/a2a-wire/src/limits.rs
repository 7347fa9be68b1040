//! Sizes a peer may not exceed (profile §1), each declared here alone.

/// Bytes of a JWS header, decoded.
pub const JWS_HEADER: usize = 512;
/// Bytes of a JWS payload, decoded.
pub const JWS_PAYLOAD: usize = 256 * 1024;
/// Characters of a whole compact JWS: header, payload, a 64-byte signature and two dots.
pub const JWS: usize = base64_length(JWS_HEADER) + base64_length(JWS_PAYLOAD) + 86 + 2;
/// Characters of the JWS of a request: a baseline peer signs the intent itself, and payloads go up
/// to 64 MiB. From a profile peer [`JWS`] holds; `a2a-identity` is told which.
pub const REQUEST_JWS: usize = base64_length(JWS_HEADER) + base64_length(64 << 20) + 86 + 2;
/// Bytes of a DID document.
pub const DID_DOCUMENT: usize = 64 * 1024;
/// Bytes of a manifest.
pub const MANIFEST: usize = 64 * 1024;
/// Bytes of a policy in canonical form.
pub const POLICY: usize = 16 * 1024;
/// Bytes of a handshake message.
pub const HANDSHAKE: usize = 128 * 1024;
/// Bytes of the data of one part of a streamed answer, in canonical form (profile §10.6).
pub const CHUNK: usize = 64 * 1024;
/// Bytes of a message with such a part: each may be written as `\u0000`, encrypted and base64url.
pub const CHUNK_MESSAGE: usize = 8 * CHUNK + 4096;
/// Bytes of a DID.
pub const DID: usize = 512;
/// Bytes of an `agent_id`.
pub const AGENT_ID: usize = 128;
/// Bytes of a `user_agent`.
pub const USER_AGENT: usize = 256;
/// Bytes of a key id.
pub const KID: usize = 128;
/// Characters of a session id.
pub const SESSION_ID: usize = 128;
/// Bytes of a protocol version.
pub const VERSION: usize = 32;
/// Bytes of any short word: a status, a transport, an error code, a trust level.
pub const WORD: usize = 256;
/// Bytes of a text meant for people: a name, a description, an error message.
pub const TEXT: usize = 4096;
/// Bytes of a URL.
pub const URL: usize = 2048;
/// Elements of a list with a type: keys, endpoints, capabilities, endorsements, versions.
pub const LIST: usize = 1024;

/// Seconds that two clocks may differ, both ways, inclusive.
pub const SKEW: i64 = 300;

const fn base64_length(bytes: usize) -> usize {
    (bytes * 4).div_ceil(3)
}
