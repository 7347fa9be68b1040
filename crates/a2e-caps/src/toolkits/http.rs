//! The toolkit `http`: requests to hosts of the agent's choice, with headers that stay secret.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};

use super::{Info, Toolkit};
use crate::http::{Client, Hidden, Host, Hosts, HttpTool, get, headers, request};
use crate::tool::{Definition, DefinitionError, Tool};

/// Requests to some hosts, each with its own headers.
#[derive(Debug)]
pub struct Http {
    info: Info,
    client: Arc<Client>,
}

#[derive(Deserialize)]
struct Config {
    hosts: Vec<Asked>,
}

#[derive(Deserialize)]
struct Asked {
    host: String,
    #[serde(default)]
    headers: BTreeMap<String, String>,
}

/// Hosts that a configuration may have.
const MAX_HOSTS: usize = 64;

const GET: &str = "http_api_get";
const REQUEST: &str = "http_api_request";

impl Http {
    /// The toolkit, whose requests this client makes: no configuration reaches more than it does.
    #[must_use]
    pub fn new(client: Arc<Client>) -> Self {
        let schema = json!({
            "type": "object", "additionalProperties": false, "required": ["hosts"],
            "properties": {"hosts": {
                "type": "array", "minItems": 1, "maxItems": MAX_HOSTS,
                "description": "The hosts that requests may go to",
                "items": {
                    "type": "object", "additionalProperties": false, "required": ["host"],
                    "properties": {
                        "host": {"type": "string", "minLength": 1, "maxLength": 300,
                            "description": "Its name; with a port if that is not the usual one"},
                        "headers": {
                            "type": "object",
                            "description": "Headers of all requests to it, as with a key; kept \
                                            secret, and sent by https only",
                            "additionalProperties": {"type": "string", "writeOnly": true},
                        },
                    },
                },
            }},
        });
        let info = Info::own("http", &schema, &[GET, REQUEST]);
        Self {
            info: Info {
                alias: "HTTP".into(),
                description: "Makes requests to hosts that were named, with headers that nobody \
                              sees again"
                    .into(),
                category: "web".into(),
                tags: vec!["http".into(), "api".into(), "web".into()],
                ..info
            },
            client,
        }
    }

    fn definitions(&self) -> Result<[Definition; 2], DefinitionError> {
        let get = get(
            GET,
            &self.client,
            "of a host that the toolkit is configured for",
        )?;
        let to = "to a host that the toolkit is configured for, with its headers";
        Ok([get, request(REQUEST, &self.client, to)?])
    }
}

impl Toolkit for Http {
    fn info(&self) -> &Info {
        &self.info
    }

    fn tools(&self, config: &Value) -> Result<Vec<Arc<dyn Tool>>, String> {
        let config = Config::deserialize(config).map_err(|_| "`hosts` cannot be read")?;
        let (mut hosts, mut hidden) = (Vec::new(), Hidden::default());
        for (at, asked) in config.hosts.iter().enumerate() {
            let named = |key: &str, problem: &str| format!("`hosts.{at}.{key}`: {problem}");
            for value in asked.headers.values() {
                hidden.add(value);
                // `Bearer KEY`: a server may repeat the key alone.
                if let Some((_, key)) = value.rsplit_once(' ') {
                    hidden.add(key);
                }
            }
            let headers = headers(&asked.headers).map_err(|problem| named("headers", &problem))?;
            let host = Host::parse(&asked.host, headers);
            hosts.push(host.map_err(|problem| named("host", &problem))?);
        }
        let hosts = Arc::new(Hosts(hosts));
        let definitions = self.definitions().map_err(|error| error.to_string())?;
        let tools = definitions.map(|definition| -> Arc<dyn Tool> {
            Arc::new(HttpTool {
                definition,
                client: Arc::clone(&self.client),
                hosts: Some(Arc::clone(&hosts)),
                hidden: hidden.clone(),
            })
        });
        Ok(tools.into())
    }
}
