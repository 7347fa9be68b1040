//! `frith toolkits`: bundles of tools that an agent configures for itself.

use std::io::Read;

use a2e_wire::Object;
use a2e_wire::messages::toolkit::{
    ToolkitConfigureRequest, ToolkitDefinition, ToolkitListRequest, ToolkitStatus,
};
use a2e_wire::wire::ToStatic;
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::Outcome;
use crate::agent::{block_on, print, print_json};
use crate::connect;
use crate::screen::{self, one_line, plain};

#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Arguments {
    /// The toolkit to configure; without it, all are listed
    name: Option<String>,

    /// Its configuration, a JSON object; `-` reads it from standard input, where nobody sees secrets
    #[arg(requires = "name")]
    config: Option<String>,

    #[command(flatten)]
    host: connect::Arguments,
}

pub(crate) fn run(arguments: &Arguments, as_json: bool) -> Result<Outcome> {
    let config = arguments.config.as_deref().map(read).transpose()?;
    block_on(async {
        let connection = arguments.host.connect_elsewhere(&["toolkits"]).await?;
        let outcome = match (&arguments.name, config) {
            (Some(name), Some(config)) => {
                let request = ToolkitConfigureRequest {
                    toolkit_name: name.clone().into(),
                    config,
                    ..ToolkitConfigureRequest::new()
                };
                let answer = connection.client.request(request).await;
                let answer = answer.context("cannot configure the toolkit")?;
                if answer.status != ToolkitStatus::Ok {
                    bail!("{}", answer.message.unwrap_or_default());
                }
                match as_json {
                    true => print_json(&json!({"configured": name})),
                    false => print(&format!(
                        "`{name}` is configured; `frith tools` shows its tools"
                    )),
                }
            }
            (name, _) => {
                let list = connection.client.request(ToolkitListRequest::new()).await;
                let list = list.context("cannot list the toolkits")?;
                let wanted = |it: &&ToolkitDefinition<'_>| {
                    name.as_ref().is_none_or(|name| **name == *it.name)
                };
                let mut found = list.toolkits.iter().filter(wanted).peekable();
                if let (None, Some(name)) = (found.peek(), name) {
                    bail!("there is no toolkit `{name}`; `frith toolkits` lists all");
                }
                match (as_json, name) {
                    (false, _) => found.try_for_each(|toolkit| show(toolkit, name.is_some())),
                    (true, None) => print_json(&found.map(as_value).collect::<Result<Vec<_>>>()?),
                    // One that is named is no list.
                    (true, Some(_)) => print_json(&found.next().map(as_value).transpose()?),
                }
            }
        };
        connection.close().await;
        outcome.map(|()| Outcome::Good)
    })
}

fn as_value(toolkit: &ToolkitDefinition<'_>) -> Result<Value> {
    Ok(Object::from_record(toolkit)?.raw().deserialize()?)
}

fn show(toolkit: &ToolkitDefinition<'_>, in_full: bool) -> Result<()> {
    let state = match toolkit.configured {
        true => "configured",
        false => "not configured",
    };
    let (name, description) = (plain(&toolkit.name), one_line(&toolkit.description));
    print(&format!("{name:12} {description} ({state})"))?;
    print(&plain(format!("             {}", toolkit.tools.join(", "))))?;
    if in_full {
        let schema: Value = toolkit.schema.raw().deserialize()?;
        print(&screen::json(&serde_json::to_string_pretty(&schema)?))?;
    }
    Ok(())
}

fn read(config: &str) -> Result<Object<'static>> {
    let mut text = config.to_owned();
    if config == "-" {
        text.clear();
        std::io::stdin().read_to_string(&mut text)?;
    }
    let object = Object::parse(&text);
    object
        .map(ToStatic::to_static)
        .map_err(|_| anyhow::anyhow!("the configuration must be a JSON object"))
}
