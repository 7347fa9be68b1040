//! What a call of a WebAssembly component costs: an instance, its memory, the way in and out.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use a2e_caps::components::{Access, Components, Wanted};
use a2e_caps::tool::Tool;
use benches::{Contestant, Effort, compare};
use sandbox::Profile;
use sandbox::wasm::{Component, Engine, Event, Grant, Listener, Told};
use serde_json::json;
use tokio::runtime::Runtime;

use crate::files::called;

/// Microseconds that a warm call should stay below.
const TARGET: f64 = 50.0;

/// Takes what it is told and forgets it.
struct Deaf;

impl Listener for Deaf {
    fn tell(&self, _: Event) -> Told<'_> {
        Box::pin(std::future::ready(()))
    }
}

pub(crate) fn report(effort: Effort) -> Result<(), Box<dyn Error>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/tools/echo.wat");
    let bytes = wat::parse_file(path)?;
    let runtime = Runtime::new()?;
    let component = Engine::new()?.load(&bytes)?;
    let tool = tool(&runtime, &bytes)?;
    let (grant, listener) = (Grant::default(), Arc::new(Deaf));
    let arguments = json!({"text": "hello"});
    let text = arguments.to_string();
    let echo = |component: &Component| {
        let answer = component.call(&text, &grant, listener.clone());
        runtime.block_on(answer)
    };
    assert_eq!(echo(&component)?, Ok(text.clone()));
    called(&runtime, &tool, &arguments)?;
    let mut contestants = [
        Contestant::new("component", || echo(&component).is_ok()),
        Contestant::new("as a tool", || called(&runtime, &tool, &arguments).is_ok()),
    ];
    let times = compare(&mut contestants, effort);
    println!("call of a component, warm (target {TARGET} µs)");
    for (contestant, time) in contestants.iter().zip(times) {
        println!("{:44} {:>9.1} µs", contestant.name, time * 1e6);
    }
    Ok(())
}

fn tool(runtime: &Runtime, bytes: &[u8]) -> Result<Arc<dyn Tool>, Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("echo.wasm");
    std::fs::write(&path, bytes)?;
    let wanted = Wanted {
        name: "echo".into(),
        path,
        files: Access::None,
    };
    let (components, profile) = (Components::default(), Profile::default());
    Ok(runtime.block_on(components.load(&wanted, &profile))?)
}
