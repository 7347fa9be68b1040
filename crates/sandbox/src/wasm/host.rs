//! What an instance has of its host, and what it has used up.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use wasmtime::component::ResourceTable;
use wasmtime::{ResourceLimiter, Store, UpdateDeadline};
use wasmtime_wasi::{FsPerms, WasiCtx, WasiCtxBuilder, WasiCtxView, WasiView};

use super::error::WasmError;
use super::event::{Event, Listener};
use super::grant::{Access, Grant, MAX_EVENTS};
use super::output::Printing;
use super::ticker::TICK;

/// Memories, tables and modules of one component; those that bring a language have a few dozen.
const MAX_PARTS: usize = 256;

/// References in all tables of an instance.
const MAX_REFERENCES: usize = 1 << 20;

/// Random bytes at once.
const MAX_RANDOM: u64 = 1 << 20;

/// What an instance has of its host.
pub(super) struct Host {
    /// Made when it is first needed; what a component without WASI never is asked for.
    wasi: Option<WasiCtx>,
    pub(super) table: ResourceTable,
    pub(super) memory: Memory,
    pub(super) listener: Arc<dyn Listener>,
    pub(super) budget: Arc<Budget>,
}

/// The memory of an instance.
pub(super) struct Memory {
    used: u64,
    most: u64,
    references: usize,
    /// Whether it wanted more than it may have.
    pub(super) was_refused: bool,
}

/// What one call has told and printed.
#[derive(Debug)]
pub(super) struct Budget {
    bytes: AtomicUsize,
    events: AtomicUsize,
    most: usize,
}

impl Host {
    /// The host of one call, without WASI.
    pub(super) fn new(grant: &Grant, listener: Arc<dyn Listener>) -> Self {
        let mut table = ResourceTable::new();
        table.set_max_capacity(grant.open_files);
        Self {
            wasi: None,
            table,
            memory: Memory {
                used: 0,
                most: grant.memory,
                references: 0,
                was_refused: false,
            },
            listener,
            budget: Arc::new(Budget::new(grant.output)),
        }
    }

    /// Adds WASI: folders of the grant, no arguments, no variables, no input, no network.
    pub(super) fn with_wasi(&mut self, grant: &Grant) -> Result<Printing, WasmError> {
        let mut builder = WasiCtxBuilder::new();
        builder.allow_tcp(false).allow_udp(false);
        builder.max_random_size(MAX_RANDOM);
        for folder in &grant.folders {
            let access = match folder.access {
                Access::None => continue,
                Access::Read => FsPerms::ReadOnly,
                Access::Write => FsPerms::ReadWrite,
            };
            let given = builder.preopened_dir(&folder.path, &folder.seen_as, access);
            given.map_err(|error| WasmError::Folder {
                path: folder.path.display().to_string(),
                why: error.root_cause().to_string(),
            })?;
        }
        let (listener, budget) = (Arc::clone(&self.listener), Arc::clone(&self.budget));
        let (printing, output, errors) = Printing::new(listener, budget);
        builder.stdout(output).stderr(errors);
        self.wasi = Some(builder.build());
        Ok(printing)
    }

    /// A store for it, with all limits on.
    pub(super) fn into_store(self, engine: &wasmtime::Engine, grant: &Grant) -> Store<Self> {
        let mut store = Store::new(engine, self);
        store.limiter(|host| &mut host.memory);
        store.set_hostcall_fuel(grant.output);
        store.set_max_component_handles(grant.open_files);
        let (cpu, mut left) = (grant.cpu, grant.cpu.as_millis() / TICK.as_millis());
        store.set_epoch_deadline(1);
        store.epoch_deadline_callback(move |_| match left.checked_sub(1) {
            Some(now) => {
                left = now;
                let give_way = Box::pin(tokio::task::yield_now());
                Ok(UpdateDeadline::YieldCustom(1, give_way))
            }
            None => Err(wasmtime::Error::new(WasmError::CpuTime(cpu))),
        });
        store
    }
}

impl WasiView for Host {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView {
            ctx: self
                .wasi
                .get_or_insert_with(|| WasiCtxBuilder::new().build()),
            table: &mut self.table,
        }
    }
}

impl ResourceLimiter for Memory {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        _: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let more = desired.saturating_sub(current) as u64;
        let used = self.used.saturating_add(more);
        let fits = used <= self.most;
        match fits {
            true => self.used = used,
            false => self.was_refused = true,
        }
        Ok(fits)
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        _: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let more = desired.saturating_sub(current);
        self.references = self.references.saturating_add(more);
        Ok(self.references <= MAX_REFERENCES)
    }

    fn instances(&self) -> usize {
        MAX_PARTS
    }

    fn tables(&self) -> usize {
        MAX_PARTS
    }

    fn memories(&self) -> usize {
        MAX_PARTS
    }
}

impl Budget {
    pub(super) const fn new(most: usize) -> Self {
        Self {
            bytes: AtomicUsize::new(0),
            events: AtomicUsize::new(0),
            most,
        }
    }

    /// Takes what an event costs; an error if that is too much.
    pub(super) fn take(&self, event: &Event) -> Result<(), WasmError> {
        if self.events.fetch_add(1, Ordering::Relaxed) >= MAX_EVENTS {
            return Err(WasmError::Events(MAX_EVENTS));
        }
        let size = event.size();
        let before = self.bytes.fetch_add(size, Ordering::Relaxed);
        match before.saturating_add(size) <= self.most {
            true => Ok(()),
            false => Err(WasmError::Output(self.most)),
        }
    }
}
