//! The client against scripted hosts, over links that break.

mod addresses;
mod calls;
mod document;
mod faults;
mod http;
mod real;
pub(crate) mod script;
mod ws;
