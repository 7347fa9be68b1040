//! One operation as a tool.

use std::collections::BTreeMap;
use std::sync::Arc;

use a2e_runtime::BoxFuture;
use a2e_runtime::config::{Filling, OpenApi, ResponseForm};
use hyper::Method;
use serde_json::{Map, Value, json};

use super::body::{Body, Content, body};
use super::document::Document;
use super::operation::Operation;
use super::parameter::{BODY, Parameter, Place, parameters};
use super::schema::Schemas;
use super::security::{Carrier, Credential, credentials};
use super::server;
use super::style::Writing;
use crate::endpoints::{check_dots, is_url_text, said_by};
use crate::http::{Hidden, Kept, Request, Service, Statuses, Web, encode, headers};
use crate::template::{Piece, parse, places};
use crate::tool::{Call, Definition, Output, Tool, ToolFailure};

/// An operation.
struct OpenApiTool {
    definition: Definition,
    service: Service,
    method: Method,
    /// What the path begins with.
    base: String,
    path: Vec<Piece>,
    parameters: Vec<Written>,
    body: Option<Content>,
    /// Headers that the operator has set.
    headers: Vec<(String, String)>,
    credentials: Vec<Credential>,
}

/// A parameter, as far as requests need it.
struct Written {
    name: String,
    argument: String,
    place: Place,
    writing: Writing,
}

/// Bytes of a description: what a model is told of one tool.
const MAX_TEXT: usize = 4096;

/// Bytes of what a status means.
const MAX_MEANING: usize = 300;

/// The tool of an operation.
///
/// # Errors
/// Why it cannot be one.
pub(super) fn make<'d>(
    document: &'d Document,
    operation: &Operation<'d>,
    name: String,
    api: &OpenApi,
    web: &Web,
) -> Result<Arc<dyn Tool>, String> {
    let method = Method::from_bytes(operation.method.as_bytes());
    let method = method.map_err(|_| "its method is none")?;
    let parameters = parameters(document, operation)?;
    let body = body(document, operation)?;
    let path = path(operation, &parameters)?;
    let mut hidden = Hidden::default();
    let headers = fixed(&api.headers, &mut hidden)?;
    let credentials = credentials(document, operation, &api.auth, &mut hidden)?;
    check_credentials(&credentials)?;
    let url = server::base(document, operation, api.server.as_ref())?;
    let (origin, base) = web
        .origin(&url)
        .map_err(|problem| format!("its server: {problem}"))?;
    if base.contains(['?', '#']) || !is_url_text(base) {
        return Err("the URL of its server must end with a path".to_owned());
    }
    origin.check(&hidden)?;
    let input = input(document, &parameters, body.as_ref())?;
    let definition = Definition::new(name, description(operation), &input);
    let definition = definition.map_err(|error| error.to_string())?;
    let tags = operation.tags.iter().map(|tag| (*tag).to_owned());
    let tags = tags.chain(operation.is_deprecated().then(|| "deprecated".to_owned()));
    let definition = said_by(&method, definition.tags(tags));
    Ok(Arc::new(OpenApiTool {
        definition: match api.deferred {
            true => definition.deferred(),
            false => definition,
        },
        service: Service {
            client: Arc::clone(web.client()),
            origin,
            hidden,
            time: api.timeout,
            body_bytes: api.max_bytes,
            response: ResponseForm::Auto,
            statuses: statuses(document, operation)?,
        },
        method,
        base: base.trim_end_matches('/').to_owned(),
        path,
        parameters: parameters.into_iter().map(Written::from).collect(),
        body: body.map(|body| body.content),
        headers,
        credentials,
    }))
}

/// The path, each place of which is a parameter and the other way round.
fn path(operation: &Operation<'_>, parameters: &[Parameter<'_>]) -> Result<Vec<Piece>, String> {
    let is_path = operation.path.starts_with('/') && !operation.path.contains(['?', '#']);
    if !is_path || !is_url_text(operation.path) {
        return Err("its path must begin with `/`, and be ASCII without spaces".to_owned());
    }
    let pieces = parse(operation.path).ok_or("a brace in its path is not closed")?;
    let mut of_path = parameters.iter().filter(|it| it.place == Place::Path);
    let place = places(&pieces).find(|name| {
        let mut parameters = parameters.iter();
        !parameters.any(|it| it.place == Place::Path && it.name == *name)
    });
    if let Some(name) = place {
        return Err(format!(
            "its path has a place for `{name}`, which is no parameter of it"
        ));
    }
    match of_path.find(|it| !places(&pieces).any(|name| name == it.name)) {
        Some(it) => Err(format!(
            "its path has no place for the parameter `{}`",
            it.name
        )),
        None => Ok(pieces),
    }
}

/// Headers that are the same each time.
fn fixed(
    given: &[(String, Filling)],
    hidden: &mut Hidden,
) -> Result<Vec<(String, String)>, String> {
    let mut all = Vec::new();
    for (name, filling) in given {
        let value = match filling {
            Filling::Text(text) => text.clone(),
            Filling::Secret(secret) => {
                hidden.add(secret.reveal());
                secret.reveal().to_owned()
            }
        };
        all.push((name.to_ascii_lowercase(), value));
    }
    headers(&all.iter().cloned().collect()).map_err(|problem| format!("`headers`: {problem}"))?;
    Ok(all)
}

/// What cannot be sent is told of at the start, by its name.
fn check_credentials(credentials: &[Credential]) -> Result<(), String> {
    for credential in credentials {
        let name = match credential.place {
            Carrier::Header => credential.name.clone(),
            Carrier::Query | Carrier::Cookie => "cookie".to_owned(),
        };
        let alone = [(name, credential.value.clone())].into();
        headers(&alone).map_err(|problem| format!("a credential cannot be sent: {problem}"))?;
    }
    Ok(())
}

/// What the tool takes.
fn input<'d>(
    document: &'d Document,
    parameters: &[Parameter<'d>],
    body: Option<&Body<'d>>,
) -> Result<Value, String> {
    let mut schemas = Schemas::new(document);
    let (mut properties, mut required) = (Map::new(), Vec::new());
    for parameter in parameters {
        let schema = parameter.schema.map(|schema| schemas.turn(schema));
        let mut schema = described(schema.transpose()?, parameter.description);
        if parameter.deprecated
            && let Some(members) = schema.as_object_mut()
        {
            members.insert("deprecated".into(), Value::Bool(true));
        }
        properties.insert(parameter.argument.clone(), schema);
        if parameter.required {
            required.push(parameter.argument.clone());
        }
    }
    if let Some(body) = body {
        let schema = match body.content.schema() {
            Some(schema) => Some(schema),
            None => body.schema.map(|schema| schemas.turn(schema)).transpose()?,
        };
        properties.insert(BODY.to_owned(), described(schema, body.description));
        if body.required {
            required.push(BODY.to_owned());
        }
    }
    let mut input = json!({
        "type": "object", "additionalProperties": false,
        "properties": properties, "required": required,
    });
    let definitions = schemas.definitions()?;
    if let Some(members) = input.as_object_mut().filter(|_| !definitions.is_empty()) {
        members.insert("$defs".into(), Value::Object(definitions));
    }
    Ok(input)
}

/// A schema with a description, if it has none of its own.
fn described(schema: Option<Value>, description: &str) -> Value {
    let mut schema = schema.unwrap_or_else(|| json!({}));
    if let Some(members) = schema.as_object_mut()
        && !description.is_empty()
        && !members.contains_key("description")
    {
        members.insert("description".into(), description.into());
    }
    schema
}

fn description(operation: &Operation<'_>) -> String {
    let note = match operation.is_deprecated() {
        true => "Deprecated: it will go away.",
        false => "",
    };
    let all = [
        operation.text("summary"),
        operation.text("description"),
        note,
    ];
    let mut said: Vec<&str> = Vec::new();
    for text in all {
        if !text.is_empty() && !said.contains(&text) {
            said.push(text);
        }
    }
    match said.is_empty() {
        true => format!("{} {}", operation.method, operation.path),
        false => cut(&said.join("\n\n"), MAX_TEXT),
    }
}

/// What the document says about answers that are errors.
fn statuses(document: &Document, operation: &Operation<'_>) -> Result<Statuses, String> {
    let responses = operation.value.get("responses").and_then(Value::as_object);
    let mut all = Vec::new();
    for (status, response) in responses.into_iter().flatten() {
        let response = document.resolve(response)?;
        let text = response.get("description").and_then(Value::as_str);
        if let Some(text) = text.filter(|text| !text.is_empty() && !status.starts_with('2')) {
            all.push((status.clone(), cut(text, MAX_MEANING)));
        }
    }
    Ok(Statuses(all))
}

fn cut(text: &str, most: usize) -> String {
    let head = text.get(..text.floor_char_boundary(most));
    head.unwrap_or(text).to_owned()
}

impl From<Parameter<'_>> for Written {
    fn from(parameter: Parameter<'_>) -> Self {
        Self {
            name: parameter.name.to_owned(),
            argument: parameter.argument,
            place: parameter.place,
            writing: parameter.writing,
        }
    }
}

impl OpenApiTool {
    /// The parameters of a place that were given.
    fn given<'a>(
        &'a self,
        place: Place,
        arguments: &'a Value,
    ) -> impl Iterator<Item = (&'a Written, &'a Value)> {
        let here = self.parameters.iter().filter(move |it| it.place == place);
        here.filter_map(|it| {
            let value = arguments.get(&it.argument)?;
            (!value.is_null()).then_some((it, value))
        })
    }

    fn credentials(&self, place: Carrier) -> impl Iterator<Item = &Credential> {
        self.credentials.iter().filter(move |it| it.place == place)
    }

    fn request(&self, arguments: &Value) -> Result<Request, ToolFailure> {
        let body = self.body.as_ref().zip(arguments.get(BODY));
        let body = body.map(|(content, value)| content.fill(value));
        Ok(Request {
            method: self.method.clone(),
            path: format!("{}{}", self.fill_path(arguments)?, self.query(arguments)),
            headers: self.all_headers(arguments),
            body: body.transpose()?,
        })
    }

    fn fill_path(&self, arguments: &Value) -> Result<String, ToolFailure> {
        let mut filled = self.base.clone();
        for piece in &self.path {
            let name = match piece {
                Piece::Text(text) => {
                    filled.push_str(text);
                    continue;
                }
                Piece::Place(name) => name,
            };
            let mut given = self.given(Place::Path, arguments);
            let found = given.find(|(it, _)| it.name == *name);
            let written = found.map(|(it, value)| it.writing.path(&it.name, value));
            match written.filter(|text| !text.is_empty()) {
                Some(text) => filled.push_str(&text),
                None => {
                    let text = format!("`{name}` must not be empty: it is a part of a path");
                    return Err(ToolFailure::new(text));
                }
            }
        }
        check_dots(&filled)?;
        Ok(filled)
    }

    fn query(&self, arguments: &Value) -> String {
        let given = self.given(Place::Query, arguments);
        let given = given.flat_map(|(it, value)| it.writing.pairs(&it.name, value));
        let secret = self.credentials(Carrier::Query).map(|it| {
            let [name, value] = [&it.name, &it.value].map(|text| encode(text, Kept::Unreserved));
            (name, value)
        });
        let pairs = given
            .chain(secret)
            .map(|(name, value)| format!("{name}={value}"));
        let pairs: Vec<String> = pairs.collect();
        match pairs.is_empty() {
            true => String::new(),
            false => format!("?{}", pairs.join("&")),
        }
    }

    /// Headers; what the operator has set stands for what an agent says.
    fn all_headers(&self, arguments: &Value) -> BTreeMap<String, String> {
        let given = self.given(Place::Header, arguments);
        let given =
            given.map(|(it, value)| (it.name.to_ascii_lowercase(), it.writing.header(value)));
        let mut all: BTreeMap<String, String> = given.collect();
        all.extend(self.headers.iter().cloned());
        let cookies = self.given(Place::Cookie, arguments);
        let cookies = cookies.flat_map(|(it, value)| it.writing.pairs(&it.name, value));
        let secret = self.credentials(Carrier::Cookie);
        let secret = secret.map(|it| (it.name.clone(), it.value.clone()));
        let cookies = cookies
            .chain(secret)
            .map(|(name, value)| format!("{name}={value}"));
        let cookies: Vec<String> = cookies.collect();
        if !cookies.is_empty() {
            all.insert("cookie".to_owned(), cookies.join("; "));
        }
        for it in self.credentials(Carrier::Header) {
            all.insert(it.name.to_ascii_lowercase(), it.value.clone());
        }
        all
    }
}

impl Tool for OpenApiTool {
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
