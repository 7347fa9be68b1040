//! Foreign code as WebAssembly components: tools in any language, without a process of their own.
//!
//! An [`Engine`] compiles a [`Component`] of the world in `wit/tool.wit`; each call has an instance,
//! and with it a memory, of its own. It reaches nothing but what its [`Grant`] names, tells of its
//! progress to a [`Listener`], and ends with the future that waits for it: a component that runs
//! gives way each millisecond, so there is always a moment to end it.
//!
//! Reading order: `event`, `grant` (what goes in and comes out), `component`, `host` (what an instance
//! has of its host), `pool`, `imports`, `files`, `threads`, `ticker`, `output`, `text`.

mod component;
mod definition;
mod error;
mod event;
mod files;
mod grant;
mod host;
mod imports;
mod output;
mod pool;
mod text;
mod threads;
mod ticker;

use std::fmt;
use std::sync::Arc;

use tokio::sync::Semaphore;
use wasmtime::Config;
use wasmtime::component::Linker;

pub use component::{Answer, Component};
pub use definition::Definition;
pub use error::WasmError;
pub use event::{Event, Level, Listener, Told};
pub use grant::{Access, DESCRIBING, Folder, Grant, MAX_EVENTS};
pub use text::MAX_TEXT;
pub use threads::MAX_WAITING;

use host::Host;
use threads::Threads;
use ticker::Ticker;

/// Bytes of the largest component in the binary format: one that brings its own Python has about
/// 20 MiB.
pub const MAX_COMPONENT: usize = 128 << 20;

/// Calls that run at the same time; others wait for one of them to end.
pub const MAX_INSTANCES: usize = 64;

/// Compiles components and runs them. All components of a program share one.
#[derive(Clone)]
pub struct Engine(Arc<Shared>);

/// What components need as long as one of them is there.
struct Shared {
    engine: wasmtime::Engine,
    linker: Linker<Host>,
    ticker: Ticker,
    threads: Threads,
    places: Semaphore,
}

impl Engine {
    /// An engine, with a thread that moves its clock while components run, and others on which they
    /// wait for files.
    ///
    /// # Errors
    /// If this machine cannot run compiled components.
    pub fn new() -> Result<Self, WasmError> {
        let mut config = Config::new();
        config.epoch_interruption(true);
        // The images of large components are mapped, not copied, into each instance.
        config.memory_init_cow(true);
        config.allocation_strategy(pool::strategy());
        // Nobody reads where inside a component something went wrong.
        config.wasm_backtrace_max_frames(None);
        let engine = wasmtime::Engine::new(&config).map_err(|error| WasmError::engine(&error))?;
        let linker = imports::linker(&engine).map_err(|error| WasmError::engine(&error))?;
        let failed = |error: std::io::Error| WasmError::Engine(error.to_string());
        let ticker = Ticker::start(&engine).map_err(failed)?;
        let threads = Threads::start().map_err(failed)?;
        Ok(Self(Arc::new(Shared {
            engine,
            linker,
            ticker,
            threads,
            places: Semaphore::new(MAX_INSTANCES),
        })))
    }

    /// Compiles a component, from the binary or the text format. Small ones take milliseconds; one that
    /// brings a language with it takes seconds on every processor there is, so this is not for threads
    /// on which others wait.
    ///
    /// # Errors
    /// If it is too large, no component, wants what no tool gets, or is no tool.
    pub fn load(&self, bytes: &[u8]) -> Result<Component, WasmError> {
        Component::compile(&self.0, bytes)
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").finish_non_exhaustive()
    }
}
