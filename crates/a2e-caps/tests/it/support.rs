//! Hosts with tools, and clients that have shaken hands.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use a2e_caps::files::{Access, Roots};
use a2e_caps::tool::{Call, Catalogue, Definition, Output, Source, Tool, ToolFailure};
use a2e_caps::tools::{Settings, Tools};
use a2e_runtime::{
    A2eError, AgentConfig, BoxFuture, Calling, Client, ClientError, Context, Failure, Handler,
    Host, Limits, Outcome, Plugin, Serves,
};
use a2e_wire::{Capability, Message, Tag};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

/// A tool of a test.
pub(crate) struct Fake {
    definition: Definition,
    run: Box<dyn Fn(Call) -> BoxFuture<'static, Result<Output, ToolFailure>> + Send + Sync>,
}

impl Tool for Fake {
    fn definition(&self) -> &Definition {
        &self.definition
    }

    fn call(&self, call: Call) -> BoxFuture<'_, Result<Output, ToolFailure>> {
        (self.run)(call)
    }
}

pub(crate) fn fake<F>(
    definition: Definition,
    run: impl Fn(Call) -> F + Send + Sync + 'static,
) -> Arc<dyn Tool>
where
    F: Future<Output = Result<Output, ToolFailure>> + Send + 'static,
{
    Arc::new(Fake {
        definition,
        run: Box::new(move |call| Box::pin(run(call))),
    })
}

/// A definition that takes anything.
pub(crate) fn defined(name: &str) -> Definition {
    Definition::new(name, "A tool of a test", &json!({"type": "object"})).unwrap()
}

/// A tool that gives the same each time.
pub(crate) fn constant(definition: Definition, data: Value) -> Arc<dyn Tool> {
    fake(definition, move |_| {
        let output = Output::new(&data);
        async move { output }
    })
}

/// A tool that counts its calls.
pub(crate) fn counting(definition: Definition) -> (Arc<dyn Tool>, Arc<AtomicUsize>) {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let tool = fake(definition, move |_| {
        let count = counted.fetch_add(1, Ordering::SeqCst) + 1;
        async move { Output::new(&json!({ "call": count })) }
    });
    (tool, calls)
}

pub(crate) fn plugin(tools: Vec<Arc<dyn Tool>>, settings: Settings) -> Tools {
    let catalogue = Arc::new(Catalogue::default());
    assert_eq!(catalogue.set(Source::BuiltIn, tools), []);
    Tools::new(catalogue, settings).unwrap()
}

pub(crate) fn host(tools: Vec<Arc<dyn Tool>>) -> Host {
    host_with(plugin(tools, Settings::default()), Limits::default())
}

pub(crate) fn host_with(tools: Tools, limits: Limits) -> Host {
    Host::builder().plugin(tools).limits(limits).build()
}

/// A session of its own.
pub(crate) async fn client(host: &Host) -> Client {
    let (stream, served) = tokio::io::duplex(64 * 1024);
    let host = host.clone();
    tokio::spawn(async move { host.serve(served, a2e_runtime::Source::Own).await });
    let config = AgentConfig {
        wanted: vec!["tools".into()],
        ..AgentConfig::default()
    };
    Client::connect(stream, config, Handler::none())
        .await
        .unwrap()
}

/// A client of a host with file tools for a folder.
pub(crate) async fn on_files(folder: &Path) -> Client {
    let roots = Roots::one(folder, Access::ReadWrite).unwrap();
    client(&host(a2e_caps::files::tools(roots).unwrap())).await
}

/// The result of a call that succeeds.
pub(crate) async fn call(client: &Client, name: &str, arguments: Value) -> Value {
    let result = client
        .tools()
        .call(name, &arguments, Calling::default())
        .await
        .unwrap();
    assert!(result.success, "{result:?}");
    result.data.unwrap().deserialize().unwrap()
}

/// The error of a call that does not.
pub(crate) async fn refused(client: &Client, name: &str, arguments: Value) -> A2eError {
    let outcome = client
        .tools()
        .call(name, &arguments, Calling::default())
        .await;
    match outcome {
        Err(ClientError::Host(error)) => *error,
        other => panic!("{other:?}"),
    }
}

/// Lets requests of one type through to the next plugin, each when it is opened for it.
#[derive(Clone)]
pub(crate) struct Gate {
    capability: Capability<'static>,
    tag: Tag,
    reached: Arc<Semaphore>,
    open: Arc<Semaphore>,
}

impl Gate {
    pub(crate) fn new(capability: Capability<'static>, tag: Tag) -> Self {
        Self {
            capability,
            tag,
            reached: Arc::new(Semaphore::new(0)),
            open: Arc::new(Semaphore::new(0)),
        }
    }

    /// Waits for one more request.
    pub(crate) async fn reached(&self) {
        self.reached.acquire().await.unwrap().forget();
    }

    /// Lets one more through.
    pub(crate) fn open(&self) {
        self.open.add_permits(1);
    }
}

impl Plugin for Gate {
    fn name(&self) -> &str {
        "gate"
    }

    fn capability(&self) -> Option<Capability<'static>> {
        Some(self.capability.clone())
    }

    fn priority(&self) -> i64 {
        10
    }

    fn serves(&self) -> Serves {
        Serves::Tags(vec![self.tag])
    }

    fn handle(
        &self,
        _: Box<Message<'static>>,
        _: Context,
    ) -> BoxFuture<'_, Result<Outcome, Failure>> {
        Box::pin(async {
            self.reached.add_permits(1);
            self.open.acquire().await.unwrap().forget();
            Ok(Outcome::Pass)
        })
    }
}
