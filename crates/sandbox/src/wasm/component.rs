//! A compiled component, and its calls.

use std::borrow::Cow;
use std::fmt;
use std::future::Future;
use std::sync::Arc;

use tokio::sync::SemaphorePermit;
use wasmtime::component::{self, ComponentExportIndex, Instance, InstancePre, TypedFunc, Val};
use wasmtime::{Error, Store};

use super::definition::Definition;
use super::error::WasmError;
use super::event::{Listener, Nobody};
use super::grant::Grant;
use super::host::Host;
use super::imports::EVENTS;
use super::output::Printing;
use super::text;
use super::ticker::Running;
use super::{MAX_COMPONENT, Shared};

/// What a tool answers: JSON, or what went wrong in its own words.
pub type Answer = Result<String, String>;

/// What a component has to export.
const DESCRIBE: &str = "describe";
const CALL: &str = "call";

/// A compiled component. Each call has an instance of its own.
#[derive(Clone)]
pub struct Component {
    // Before what it stands on: the clock ends when the last use of the engine has.
    instances: InstancePre<Host>,
    describe: ComponentExportIndex,
    call: ComponentExportIndex,
    uses_wasi: bool,
    tells: bool,
    shared: Arc<Shared>,
}

/// A place among those that run.
struct Place<'a> {
    _permit: Option<SemaphorePermit<'a>>,
    _running: Running<'a>,
}

impl Component {
    pub(super) fn compile(shared: &Arc<Shared>, bytes: &[u8]) -> Result<Self, WasmError> {
        if bytes.len() > MAX_COMPONENT {
            return Err(WasmError::TooLarge {
                size: bytes.len(),
                most: MAX_COMPONENT,
            });
        }
        let binary = match text::is_text(bytes) {
            true => Cow::Owned(text::to_binary(bytes)?),
            false => Cow::Borrowed(bytes),
        };
        let compiled = component::Component::from_binary(&shared.engine, &binary)
            .map_err(|error| WasmError::Invalid(error.root_cause().to_string()))?;
        let instances = shared
            .linker
            .instantiate_pre(&compiled)
            .map_err(|error| WasmError::Import(format!("{error:#}")))?;
        let export = |export: &'static str| {
            let found = compiled.get_export_index(None, export);
            found.ok_or(WasmError::Export { export })
        };
        let form = compiled.component_type();
        let imports = |prefix: &str| {
            let mut all = form.imports(&shared.engine);
            all.any(|(name, _)| name.starts_with(prefix))
        };
        Ok(Self {
            describe: export(DESCRIBE)?,
            call: export(CALL)?,
            uses_wasi: imports("wasi:"),
            tells: imports(EVENTS),
            instances,
            shared: Arc::clone(shared),
        })
    }

    /// Whether it imports WASI. What one gives that does not depends on its arguments alone.
    #[must_use]
    pub const fn uses_wasi(&self) -> bool {
        self.uses_wasi
    }

    /// Whether it tells of its progress.
    #[must_use]
    pub const fn tells(&self) -> bool {
        self.tells
    }

    /// Asks it what it is, under what is left of a grant for that: nobody has approved it yet.
    ///
    /// # Errors
    /// If it is no tool, or fails to say.
    pub async fn describe(&self, grant: &Grant) -> Result<Definition, WasmError> {
        let grant = grant.to_describe();
        let _place = self.place().await;
        let (mut store, mut printing) = self.begin(&grant, Arc::new(Nobody))?;
        let work = self.waiting(self.definition(&mut store));
        let outcome = during(&grant, &mut printing, work).await;
        let said = finish(outcome, store, printing, &grant).await;
        said.map_err(WasmError::of_describing)
    }

    /// Calls it with JSON, under a grant. It ends when the future is dropped.
    ///
    /// # Errors
    /// If it has no answer: it broke off, or went past a limit of its grant.
    pub async fn call(
        &self,
        arguments: &str,
        grant: &Grant,
        listener: Arc<dyn Listener>,
    ) -> Result<Answer, WasmError> {
        let _place = self.place().await;
        let (mut store, mut printing) = self.begin(grant, listener)?;
        let work = self.waiting(self.answer(&mut store, arguments));
        let outcome = during(grant, &mut printing, work).await;
        finish(outcome, store, printing, grant).await
    }

    /// Waits for a place, and keeps the clock going while it is held.
    async fn place(&self) -> Place<'_> {
        Place {
            // It is never closed.
            _permit: self.shared.places.acquire().await.ok(),
            _running: self.shared.ticker.run(),
        }
    }

    /// Does something that may wait for files, not on threads that others need.
    async fn waiting<T>(&self, work: impl Future<Output = T>) -> T {
        match self.uses_wasi {
            true => self.shared.threads.during(work).await,
            false => work.await,
        }
    }

    fn begin(
        &self,
        grant: &Grant,
        listener: Arc<dyn Listener>,
    ) -> Result<(Store<Host>, Printing), WasmError> {
        let mut host = Host::new(grant, listener);
        let printing = match self.uses_wasi {
            true => host.with_wasi(grant)?,
            false => Printing::nothing(),
        };
        Ok((host.into_store(&self.shared.engine, grant), printing))
    }

    async fn definition(&self, store: &mut Store<Host>) -> Result<Definition, Error> {
        let wrong = |export| Error::new(WasmError::Export { export });
        let instance = self.instances.instantiate_async(&mut *store).await?;
        // One that cannot be called is found out now, not when an agent calls it.
        self.callable(store, &instance).map_err(|_| wrong(CALL))?;
        let describe = instance.get_func(&mut *store, self.describe);
        let describe = describe.ok_or_else(|| wrong(DESCRIBE))?;
        let form = describe.ty(&*store);
        if form.params().len() != 0 || form.results().len() != 1 {
            return Err(wrong(DESCRIBE));
        }
        let mut results = [Val::Bool(false)];
        describe.call_async(store, &[], &mut results).await?;
        let [value] = results;
        Definition::read(value).ok_or_else(|| wrong(DESCRIBE))
    }

    async fn answer(&self, store: &mut Store<Host>, arguments: &str) -> Result<Answer, Error> {
        let instance = self.instances.instantiate_async(&mut *store).await?;
        let call = self.callable(store, &instance)?;
        let (answer,) = call.call_async(store, (arguments,)).await?;
        Ok(answer)
    }

    fn callable<'a>(
        &self,
        store: &mut Store<Host>,
        instance: &Instance,
    ) -> Result<TypedFunc<(&'a str,), (Answer,)>, Error> {
        instance.get_typed_func(store, self.call)
    }
}

/// Does something within a grant's time, while what the component prints is told of.
async fn during<T>(
    grant: &Grant,
    printing: &mut Printing,
    work: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    tokio::select! {
        biased;
        outcome = tokio::time::timeout(grant.wall_time, work) => match outcome {
            Ok(outcome) => outcome,
            Err(_) => Err(Error::new(WasmError::Timeout(grant.wall_time))),
        },
        error = printing.too_much() => Err(Error::new(error)),
    }
}

/// Ends an instance; all that it has printed is told then.
async fn finish<T>(
    outcome: Result<T, Error>,
    store: Store<Host>,
    printing: Printing,
    grant: &Grant,
) -> Result<T, WasmError> {
    let was_refused = store.data().memory.was_refused;
    drop(store);
    let rest = printing.rest().await;
    let done = outcome.map_err(|error| {
        let error = WasmError::of_call(&error, grant);
        // One that cannot go on without more memory breaks off in its own way.
        match matches!(error, WasmError::Trap(_)) && was_refused {
            true => WasmError::Memory(grant.memory),
            false => error,
        }
    })?;
    rest.map(|()| done)
}

impl fmt::Debug for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Component")
            .field("uses_wasi", &self.uses_wasi)
            .field("tells", &self.tells)
            .finish_non_exhaustive()
    }
}
