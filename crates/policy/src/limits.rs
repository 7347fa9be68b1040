//! Every limit of this crate, declared here alone.

/// Bytes of the domain, the goal and the canonical name of an intent, and of a pattern for them.
pub const INTENT: usize = 256;
/// Bytes of one label of such a name.
pub const LABEL: usize = 63;
/// Patterns in `allowed_intents` or `blocked_intents`.
pub const INTENT_PATTERNS: usize = 1024;
/// Bytes of a policy, `extensions` included, in canonical form.
pub const POLICY: usize = 16 * 1024;
/// The largest `rate_limit`.
pub const RATE_LIMIT: u32 = 10_000_000;
/// The largest `rate_period`, in seconds: 30 days.
pub const RATE_PERIOD: u32 = 2_592_000;
/// The largest `session_timeout`, in seconds: a week.
pub const SESSION_TIMEOUT: u32 = 604_800;
/// The largest `max_payload_size` unless configured otherwise, in bytes.
pub const PAYLOAD_CEILING: u64 = 64 * 1024 * 1024;
/// The largest `max_concurrent_sessions`.
pub const CONCURRENT_SESSIONS: u32 = 1_000_000;

/// Rules of one compiled set.
pub const RULES: usize = 4096;
/// Patterns of one kind in one rule.
pub const GLOBS: usize = 256;
/// Bytes of such a pattern.
pub const GLOB: usize = 512;
/// Bytes of the condition of a rule.
pub const CONDITION: usize = 1024;
/// How deep the parts of a condition may be nested.
pub const CONDITION_DEPTH: usize = 64;
/// How many times as large as the arguments what a condition makes of them may be.
pub const CONDITION_GROWTH: u64 = 1000;
/// The largest step of a slice in a condition.
pub const CONDITION_STEP: u32 = 1_000_000;
/// Bytes of the id of a rule.
pub const RULE_ID: usize = 64;
/// Bytes of the reason that a rule gives.
pub const REASON: usize = 256;

/// The most calls that a repeat breaker can be told to wait for.
pub const REPEAT_CALLS: u32 = 256;
/// The longest window of a repeat breaker, in seconds: a day.
pub const REPEAT_WINDOW: u32 = 86_400;
/// Calls of one agent that a repeat breaker remembers.
pub const REPEAT_MEMORY: usize = 512;
