//! x
use super::Check;
thread_local! {
    pub(super) static LEFT_OUT: std::cell::RefCell<Vec<Check>> = const { std::cell::RefCell::new(Vec::new()) };
}
