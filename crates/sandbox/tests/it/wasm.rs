//! Components that are tools, and those that are none or want too much.

mod files;
mod limits;
mod loading;

use std::path::Path;
use std::sync::{Arc, Mutex};

use sandbox::wasm::{Component, Engine, Event, Grant, Level, Listener, Told, WasmError};

/// The example in the text format, whose `call` does what a test wants.
pub(crate) fn text(body: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/tools/echo.wat");
    let echo = std::fs::read_to_string(path).unwrap();
    let (head, rest) = echo.split_once(";; begin").unwrap();
    let (_, tail) = rest.split_once(";; end").unwrap();
    format!("{head}{body}{tail}")
}

pub(crate) fn load(text: &str) -> Result<Component, WasmError> {
    Engine::new().unwrap().load(&wat::parse_str(text).unwrap())
}

pub(crate) fn component(body: &str) -> Component {
    load(&text(body)).unwrap()
}

/// Gives back what it is given.
pub(crate) const ECHO: &str = "(call $answer (i32.const 0) (local.get $at) (local.get $size))";
/// Never ends.
pub(crate) const LOOP: &str = "(loop $again (br $again)) (unreachable)";

/// Remembers what it is told.
#[derive(Default)]
pub(crate) struct Heard(pub(crate) Mutex<Vec<Event>>);

impl Listener for Heard {
    fn tell(&self, event: Event) -> Told<'_> {
        self.0.lock().unwrap().push(event);
        Box::pin(std::future::ready(()))
    }
}

/// The answer to a call, and what was told.
pub(crate) async fn call(
    component: &Component,
    arguments: &str,
    grant: &Grant,
) -> (Result<Result<String, String>, WasmError>, Vec<Event>) {
    let heard = Arc::new(Heard::default());
    let answer = component.call(arguments, grant, heard.clone()).await;
    let told = heard.0.lock().unwrap().clone();
    (answer, told)
}

#[tokio::test]
async fn a_tool_says_what_it_is_answers_and_tells() {
    let component = component(&format!(
        "(call $status (i32.const 0x200) (i32.const 7)) {ECHO}"
    ));
    assert!(component.tells());
    assert!(!component.uses_wasi());
    let definition = component.describe(&Grant::default()).await.unwrap();
    assert_eq!(definition.description, "Gives back what it is given");
    assert_eq!(definition.input_schema, r#"{"type":"object"}"#);
    assert_eq!(definition.output_schema, None);
    assert_eq!(definition.tags, ["echo"]);
    assert_eq!(definition.version, "1.0.0");
    assert!(definition.read_only && definition.idempotent);
    let (answer, told) = call(&component, r#"{"a":"ä"}"#, &Grant::default()).await;
    assert_eq!(answer, Ok(Ok(r#"{"a":"ä"}"#.into())));
    assert_eq!(told, [Event::Status("echoing".into())]);
}

#[tokio::test]
async fn what_it_says_went_wrong_is_its_answer() {
    let component = component("(call $answer (i32.const 1) (local.get $at) (local.get $size))");
    let (answer, _) = call(&component, "no such thing", &Grant::default()).await;
    assert_eq!(answer, Ok(Err("no such thing".into())));
}

/// What one call leaves in its memory the next does not find.
#[tokio::test]
async fn each_call_has_a_memory_of_its_own() {
    let component = component(
        "(i32.store8 (i32.const 0x300)
           (i32.add (i32.load8_u (i32.const 0x300)) (i32.const 0x31)))
         (call $answer (i32.const 0) (i32.const 0x300) (i32.const 1))",
    );
    for _ in 0..2 {
        let (answer, _) = call(&component, "{}", &Grant::default()).await;
        assert_eq!(answer, Ok(Ok("1".into())));
    }
}

/// All of it is printed when the call is answered, with the end of a line or without one.
#[tokio::test]
async fn what_it_prints_is_told() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/components/prints.wat");
    let component = load(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert!(component.uses_wasi());
    let with = |output: usize| Grant {
        output,
        ..Grant::default()
    };
    let (answer, told) = call(&component, "one\ntwo\nthree", &with(24)).await;
    assert_eq!(answer, Ok(Ok("one\ntwo\nthree".into())));
    let of = |wanted: Level| -> Vec<String> {
        let told = told.iter().map(|event| {
            let Event::Log { level, message } = event else {
                panic!("{event:?}");
            };
            (*level, message.clone())
        });
        let told = told.filter(|(level, _)| *level == wanted);
        told.map(|(_, message)| message).collect()
    };
    assert_eq!(of(Level::Info), ["one\ntwo", "three"]);
    assert_eq!(of(Level::Error), ["one\ntwo", "three"]);
    let (answer, _) = call(&component, "one\ntwo\nthree", &with(23)).await;
    assert_eq!(answer, Err(WasmError::Output(23)));
}
