//! What components may import: our events, and WASI.

use std::future::Future;
use std::sync::Arc;

use wasmtime::component::{Linker, Val};
use wasmtime::{Engine, Result, StoreContextMut};

use super::error::WasmError;
use super::event::{Event, Level};
use super::files;
use super::host::Host;

/// The interface of `wit/tool.wit`.
pub(super) const EVENTS: &str = "frith:tool/events@1.0.0";

type Doing = Box<dyn Future<Output = Result<()>> + Send>;

/// All that a component may import. What it does not name it does not get.
pub(super) fn linker(engine: &Engine) -> Result<Linker<Host>> {
    let mut linker = Linker::new(engine);
    wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;
    files::shadow(&mut linker)?;
    let mut events = linker.instance(EVENTS)?;
    events.func_wrap_async(
        "progress",
        |store: StoreContextMut<'_, Host>, (percent, message): (u8, String)| {
            tell(store.data(), Event::Progress { percent, message })
        },
    )?;
    events.func_wrap_async(
        "status",
        |store: StoreContextMut<'_, Host>, (message,): (String,)| {
            tell(store.data(), Event::Status(message))
        },
    )?;
    // A type of our own for `level` would need code that is not safe; values need none.
    events.func_new_async(
        "log",
        |store: StoreContextMut<'_, Host>, _, values, _| match log(values) {
            Some(event) => tell(store.data(), event),
            None => {
                let wrong = WasmError::Import(format!("another `log` than that of {EVENTS}"));
                Box::new(std::future::ready(Err(wasmtime::Error::new(wrong))))
            }
        },
    )?;
    events.func_wrap_async(
        "artifact",
        |store: StoreContextMut<'_, Host>,
         (name, mime, chunk, last): (String, String, Vec<u8>, bool)| {
            let event = Event::Artifact {
                name,
                mime,
                chunk,
                last,
            };
            tell(store.data(), event)
        },
    )?;
    Ok(linker)
}

fn log(values: &[Val]) -> Option<Event> {
    let [Val::Enum(level), Val::String(message)] = values else {
        return None;
    };
    Some(Event::Log {
        level: Level::named(level)?,
        message: message.clone(),
    })
}

/// Tells the listener; the component waits for it.
fn tell(host: &Host, event: Event) -> Doing {
    let taken = host.budget.take(&event);
    let listener = Arc::clone(&host.listener);
    Box::new(async move {
        taken.map_err(wasmtime::Error::new)?;
        listener.tell(event).await;
        Ok(())
    })
}
