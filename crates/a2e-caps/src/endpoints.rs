//! Tools that an operator writes down as an HTTP request with places for arguments.
//!
//! Where a request goes is fixed: an argument is one part of a path, one value of a query, one header
//! or one value in a body, whatever is in it.

mod body;
mod url;

use std::collections::BTreeMap;
use std::sync::Arc;

use a2e_runtime::BoxFuture;
use a2e_runtime::config::{EndpointTool, Filling, Login, RequestBody};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::Method;
use serde_json::{Value, json};

use crate::http::{Hidden, Request, Service, Statuses, Web, headers};
use crate::template::{Piece, each, join, parse, places};
use crate::tool::{Call, Definition, DefinitionError, Output, Tool, ToolFailure};

use body::Body;
pub(crate) use body::{FORM, form_encoded};
use url::UrlTemplate;
pub(crate) use url::{check_dots, is_url_text};

/// Why an endpoint cannot be a tool.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    /// Its definition cannot be used.
    #[error(transparent)]
    Definition(#[from] DefinitionError),
    /// It cannot be asked.
    #[error("the endpoint `{tool}`: {problem}")]
    Bad {
        /// The tool.
        tool: String,
        /// What is wrong.
        problem: String,
    },
}

/// What stands in a query, a header or a form.
#[derive(Clone)]
enum Filled {
    Pieces(Vec<Piece>),
    Secret(String),
}

struct Endpoint {
    definition: Definition,
    service: Service,
    method: Method,
    url: UrlTemplate,
    query: Vec<(String, Filled)>,
    headers: Vec<(String, Filled)>,
    body: Body,
}

/// The tool that an endpoint is.
///
/// # Errors
/// If it cannot be one.
pub fn tool(endpoint: &EndpointTool, web: &Web) -> Result<Arc<dyn Tool>, EndpointError> {
    make(endpoint, web).map_err(|problem| match problem {
        Problem::Definition(error) => error.into(),
        Problem::Text(problem) => EndpointError::Bad {
            tool: endpoint.name.clone(),
            problem,
        },
    })
}

enum Problem {
    Definition(DefinitionError),
    Text(String),
}

fn make(endpoint: &EndpointTool, web: &Web) -> Result<Arc<dyn Tool>, Problem> {
    let mut hidden = Hidden::default();
    let (origin, path) = web
        .origin(&endpoint.url)
        .map_err(|problem| format!("`url`: {problem}"))?;
    let url = UrlTemplate::parse(path).map_err(|problem| format!("`url`: {problem}"))?;
    let query = fillings("query", &endpoint.query, &mut hidden)?;
    let mut carried = fillings("headers", &endpoint.headers, &mut hidden)?;
    if let Some(login) = &endpoint.login {
        let login = Filled::Secret(authorization(login, &mut hidden));
        carried.push(("authorization".to_owned(), login));
    }
    check_headers(&carried)?;
    let body = Body::new(&endpoint.body, &mut hidden)?;
    let is_bare = matches!(endpoint.method.as_str(), "GET" | "HEAD");
    if is_bare && endpoint.body != RequestBody::None {
        return Err(format!("a {} has no body; use POST or PUT", endpoint.method).into());
    }
    origin.check(&hidden)?;
    check_places(endpoint, &url, &query, &carried, &body)?;
    let method = Method::from_bytes(endpoint.method.as_bytes());
    let method = method.map_err(|_| "`method` is none".to_owned())?;
    Ok(Arc::new(Endpoint {
        definition: definition(endpoint, &method).map_err(Problem::Definition)?,
        service: Service {
            client: Arc::clone(web.client()),
            origin,
            hidden,
            time: endpoint.timeout,
            body_bytes: endpoint.max_bytes,
            response: endpoint.response,
            statuses: Statuses(endpoint.errors.clone()),
        },
        method,
        url,
        query,
        headers: carried,
        body,
    }))
}

fn definition(endpoint: &EndpointTool, method: &Method) -> Result<Definition, DefinitionError> {
    let schema = json!({
        "type": "object", "additionalProperties": false,
        "required": endpoint.required, "properties": endpoint.parameters,
    });
    let (name, text) = (endpoint.name.clone(), endpoint.description.clone());
    let definition = Definition::new(name, text, &schema)?;
    let definition = definition.tags(endpoint.tags.iter().cloned());
    Ok(match endpoint.read_only {
        true => definition.read_only().volatile(),
        false => said_by(method, definition),
    })
}

/// What a method says about what it does (RFC 9110, section 9.2).
pub(crate) fn said_by(method: &Method, definition: Definition) -> Definition {
    match method.as_str() {
        "GET" | "HEAD" | "OPTIONS" => definition.read_only().volatile(),
        "PUT" | "DELETE" => definition.idempotent(),
        _ => definition,
    }
}

/// Every place is for an argument that there is, and one in the URL for one that is always there.
fn check_places(
    endpoint: &EndpointTool,
    url: &UrlTemplate,
    query: &[(String, Filled)],
    headers: &[(String, Filled)],
    body: &Body,
) -> Result<(), String> {
    let pieces = query.iter().chain(headers).flat_map(|(_, it)| it.pieces());
    let named = url.places().chain(places(pieces)).cloned();
    let named = named.chain(body.places());
    for name in named.chain(endpoint.required.iter().cloned()) {
        if !endpoint.parameters.contains_key(&name) {
            return Err(format!(
                "there is a place for `{name}`, which is not among its `parameters`"
            ));
        }
    }
    match url.places().find(|name| !endpoint.required.contains(name)) {
        Some(name) => Err(format!(
            "`{name}` stands in its `url`, so it must be among those `required`; what may be \
             left out belongs in `query`"
        )),
        None => Ok(()),
    }
}

/// What cannot be sent is told of at the start, by its name.
fn check_headers(all: &[(String, Filled)]) -> Result<(), String> {
    let mut known = BTreeMap::new();
    for (name, filled) in all {
        let value = match filled {
            Filled::Secret(secret) => secret.clone(),
            Filled::Pieces(_) => String::new(),
        };
        known.insert(name.clone(), value);
    }
    match headers(&known) {
        Ok(_) => Ok(()),
        Err(problem) => Err(format!("`headers`: {problem}")),
    }
}

/// The header that says who asks.
pub(crate) fn authorization(login: &Login, hidden: &mut Hidden) -> String {
    match login {
        Login::Bearer(token) => {
            hidden.add(token.reveal());
            format!("Bearer {}", token.reveal())
        }
        Login::Basic(pair) => {
            let encoded = STANDARD.encode(pair.reveal());
            hidden.add(pair.reveal());
            hidden.add(&encoded);
            if let Some((_, password)) = pair.reveal().split_once(':') {
                hidden.add(password);
            }
            format!("Basic {encoded}")
        }
    }
}

fn fillings(
    key: &str,
    given: &[(String, Filling)],
    hidden: &mut Hidden,
) -> Result<Vec<(String, Filled)>, String> {
    let mut all = Vec::new();
    for (name, filling) in given {
        let filled = match filling {
            Filling::Secret(secret) => {
                hidden.add(secret.reveal());
                Filled::Secret(secret.reveal().to_owned())
            }
            Filling::Text(text) => Filled::Pieces(parse(text).ok_or_else(|| {
                format!("a brace is not closed in `{key}.{name}`; a brace itself is written {{{{ or }}}}")
            })?),
        };
        all.push((name.clone(), filled));
    }
    Ok(all)
}

impl Filled {
    fn pieces(&self) -> &[Piece] {
        match self {
            Self::Pieces(pieces) => pieces,
            Self::Secret(_) => &[],
        }
    }

    /// The values it stands for: none if it is but a place for an argument that is not there, and
    /// several if that is a list.
    fn values(&self, arguments: &Value) -> Vec<String> {
        match self {
            Self::Secret(secret) => vec![secret.clone()],
            Self::Pieces(pieces) => match pieces.as_slice() {
                [Piece::Place(name)] => each(arguments.get(name)),
                pieces => vec![join(pieces, arguments)],
            },
        }
    }
}

impl Endpoint {
    fn request(&self, arguments: &Value) -> Result<Request, ToolFailure> {
        let query = self.query.iter().flat_map(|(name, filled)| {
            let values = filled.values(arguments).into_iter();
            values.map(move |value| (name.as_str(), value))
        });
        let mut headers = BTreeMap::new();
        for (name, filled) in &self.headers {
            let values = filled.values(arguments);
            if !values.is_empty() {
                headers.insert(name.clone(), values.join(","));
            }
        }
        Ok(Request {
            method: self.method.clone(),
            path: self.url.fill(arguments, query)?,
            headers,
            body: self.body.fill(arguments),
        })
    }
}

impl Tool for Endpoint {
    fn definition(&self) -> &Definition {
        &self.definition
    }

    fn call(&self, call: Call) -> BoxFuture<'_, Result<Output, ToolFailure>> {
        Box::pin(async move {
            let request = self.request(call.arguments.value())?;
            self.service.send(&call.caller.agent, request).await
        })
    }
}

impl From<String> for Problem {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}
