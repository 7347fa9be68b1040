//! What is no tool is found out when it is loaded or asked what it is.

use std::time::Duration;

use sandbox::wasm::{DESCRIBING, Engine, Grant, MAX_COMPONENT, MAX_TEXT, WasmError};

use super::{ECHO, call, component, load, text};

#[test]
fn what_is_no_component_is_refused() {
    let engine = Engine::new().unwrap();
    let module = wat::parse_str("(module)").unwrap();
    for bytes in [&module[..], b"", b"no component"] {
        let error = engine.load(bytes).unwrap_err();
        assert!(matches!(error, WasmError::Invalid(_)), "{error}");
        assert!(error.to_string().contains("frith:tool/tool@1.0.0"));
    }
}

#[test]
fn a_component_has_a_size() {
    let engine = Engine::new().unwrap();
    let mut bytes = vec![0; MAX_COMPONENT];
    let error = engine.load(&bytes).unwrap_err();
    assert!(matches!(error, WasmError::Invalid(_)), "{error}");
    bytes.push(0);
    let error = engine.load(&bytes).unwrap_err();
    assert!(matches!(error, WasmError::TooLarge { .. }), "{error}");
}

/// As the example is written, with the comment that it begins with.
#[tokio::test]
async fn a_component_may_be_text() {
    let engine = Engine::new().unwrap();
    let echo = engine.load(text(ECHO).as_bytes()).unwrap();
    let (answer, _) = call(&echo, "1", &Grant::default()).await;
    assert_eq!(answer, Ok(Ok("1".into())));
    let wrong = engine.load(b" (component (what)").unwrap_err();
    assert!(matches!(wrong, WasmError::Invalid(_)), "{wrong}");
    let module = engine.load(b"(module)").unwrap_err();
    assert!(matches!(module, WasmError::Invalid(_)), "{module}");
}

#[test]
fn text_has_a_size() {
    let engine = Engine::new().unwrap();
    let mut echo = text(ECHO).into_bytes();
    echo.resize(MAX_TEXT, b' ');
    engine.load(&echo).unwrap();
    echo.push(b' ');
    let error = engine.load(&echo).unwrap_err();
    assert!(
        matches!(error, WasmError::TooLarge { most: MAX_TEXT, .. }),
        "{error}"
    );
}

/// What it does to say what it is has limits of its own, however much it may use when it is called.
#[tokio::test]
async fn one_that_is_asked_what_it_is_gets_little() {
    let grant = Grant {
        memory: 1 << 32,
        ..Grant::default()
    };
    let describing = |body: &str| {
        let head = r#"(func (export "describe") (result i32) "#;
        let (before, after) = (format!("{head}(i32.const 0x10))"), format!("{head}{body})"));
        let all = text(ECHO);
        assert!(all.contains(&before));
        load(&all.replace(&before, &after)).unwrap()
    };
    let limited = async |body: &str, grant: &Grant| {
        let error = describing(body).describe(grant).await.unwrap_err();
        let WasmError::Describing { limit } = &error else {
            panic!("{error}");
        };
        assert!(error.to_string().contains("`describe`"), "{error}");
        limit.clone()
    };
    // So many pages are as much as it may have, with the one there is.
    let pages = DESCRIBING.memory / 65_536 - 1;
    let grows = |pages: u64| {
        format!(
            "(if (i32.eq (memory.grow (i32.const {pages})) (i32.const -1)) (then unreachable))
             (i32.const 0x10)"
        )
    };
    assert!(describing(&grows(pages)).describe(&grant).await.is_ok());
    let memory = limited(&grows(pages + 1), &grant).await;
    assert!(memory.contains("bytes of memory"), "{memory}");
    // What the operator gives may be less.
    let short = Grant {
        cpu: Duration::from_millis(20),
        ..grant
    };
    let processor = limited("(loop $again (br $again)) (unreachable)", &short).await;
    assert_eq!(processor, "more than 0.02 s on a processor");
}

#[test]
fn what_it_must_not_have_is_named() {
    for import in ["wasi:http/types@0.2.0", "frith:tool/secrets@1.0.0"] {
        let text = format!(r#"(component (import "{import}" (instance (export "f" (func)))))"#);
        let error = load(&text).unwrap_err();
        assert!(matches!(error, WasmError::Import(_)), "{error}");
        assert!(error.to_string().contains(import), "{error}");
    }
}

#[tokio::test]
async fn its_exports_are_those_of_a_tool() {
    let export = |error| {
        let WasmError::Export { export } = error else {
            panic!("{error}");
        };
        export
    };
    assert_eq!(export(load("(component)").unwrap_err()), "describe");
    let with = |describe: &str, call: &str| {
        format!(
            r#"(component
                 (core module $M
                   (memory (export "m") 1)
                   (func (export "none")) (func (export "one") (result i32) (i32.const 0))
                   (func (export "call") (param i32 i32) (result i32) (i32.const 0))
                   (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 0)))
                 (core instance $m (instantiate $M))
                 (func (export "describe") {describe}) {call})"#
        )
    };
    let nothing = r#"(canon lift (core func $m "none"))"#;
    let call = r#"(func (export "call") (param "arguments" string)
        (result (result string (error string)))
        (canon lift (core func $m "call") (memory (core memory $m "m"))
          (realloc (core func $m "realloc"))))"#;
    let none = load(&with(nothing, "")).unwrap_err();
    assert_eq!(export(none), "call");
    let asked = async |text: String| {
        let component = load(&text).unwrap();
        component.describe(&Grant::default()).await.unwrap_err()
    };
    let other = format!(r#"(func (export "call") {nothing})"#);
    assert_eq!(export(asked(with(nothing, &other)).await), "call");
    assert_eq!(export(asked(with(nothing, call)).await), "describe");
    let number = r#"(result u32) (canon lift (core func $m "one"))"#;
    assert_eq!(export(asked(with(number, call)).await), "describe");
}

#[tokio::test]
async fn a_component_outlives_its_engine_and_may_be_cloned() {
    let one = component(ECHO);
    let other = one.clone();
    drop(one);
    assert!(other.describe(&Grant::default()).await.is_ok());
}
