//! Tools that an operator describes without code: keys of a plugin of the type `tools`.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Map, Value};

use super::commands::{CommandTool, command_tools};
use super::components::ComponentTool;
use super::read::{Field, Section};
use super::sections::{DAY, MIB, Reader, set, set_some};
use crate::secret::Secret;

/// Tools of the operator's own.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OwnTools {
    /// Commands with places for arguments.
    pub commands: Vec<CommandTool>,
    /// WebAssembly components.
    pub components: Vec<ComponentTool>,
    /// Requests with places for arguments.
    pub endpoints: Vec<EndpointTool>,
    /// Documents whose operations are tools.
    pub openapi: Vec<OpenApi>,
    /// The folder whose programs are tools.
    pub scripts: Option<PathBuf>,
    /// Hosts that endpoints and documents may lead to although their addresses are not public.
    pub private_hosts: Vec<String>,
}

/// A tool that is an HTTP request with places for arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointTool {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// What is done there.
    pub method: String,
    /// Where; `{name}` in its path and query is where an argument goes.
    pub url: String,
    /// More of the query, by name.
    pub query: Vec<(String, Filling)>,
    /// Headers, by name.
    pub headers: Vec<(String, Filling)>,
    /// Who asks.
    pub login: Option<Login>,
    /// What is sent.
    pub body: RequestBody,
    /// What comes back.
    pub response: ResponseForm,
    /// What a status means, by its number, `4xx`, `5xx` or `default`.
    pub errors: Vec<(String, String)>,
    /// JSON Schemas of the arguments, by name.
    pub parameters: Map<String, Value>,
    /// The arguments that must be given.
    pub required: Vec<String>,
    /// Words that lead to it.
    pub tags: Vec<String>,
    /// Whether it changes nothing, whatever its method.
    pub read_only: bool,
    /// How long it may take.
    pub timeout: Option<Duration>,
    /// Bytes that an answer may have.
    pub max_bytes: Option<usize>,
}

/// What stands in a query, a header or a form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Filling {
    /// A text; `{name}` is where an argument goes.
    Text(String),
    /// Something that nobody may see.
    Secret(Secret),
}

/// How a request says who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Login {
    /// By a token.
    Bearer(Secret),
    /// By `user:password`.
    Basic(Secret),
}

/// What a request sends.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum RequestBody {
    /// Nothing.
    #[default]
    None,
    /// All arguments, as JSON.
    Arguments,
    /// JSON; `{name}` in a text of it is where an argument goes.
    Json(Value),
    /// A form, by name.
    Form(Vec<(String, Filling)>),
    /// The text of this argument.
    Text(String),
}

/// What an answer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ResponseForm {
    /// What it says it is.
    #[default]
    Auto,
    /// JSON; anything else is a failure.
    Json,
    /// Text.
    Text,
}

/// An OpenAPI document whose operations are tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenApi {
    /// The file.
    pub document: PathBuf,
    /// What the names of its tools begin with.
    pub prefix: String,
    /// Where its paths begin, instead of what the document says.
    pub server: Option<String>,
    /// Credentials, by the names of its security schemes.
    pub auth: Vec<(String, Secret)>,
    /// Headers of all requests, by name.
    pub headers: Vec<(String, Filling)>,
    /// The operations that are tools, by `operationId` or `tag:NAME`; all if nothing is said.
    pub include: Vec<String>,
    /// Those that are not, by the same.
    pub exclude: Vec<String>,
    /// Whether its tools are only found by a search.
    pub deferred: bool,
    /// How long a request may take.
    pub timeout: Option<Duration>,
    /// Bytes that an answer may have.
    pub max_bytes: Option<usize>,
}

const METHODS: [&str; 6] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"];

impl Reader<'_> {
    pub(super) fn own_tools(&self, section: &mut Section<'_>) -> OwnTools {
        let mut own = OwnTools {
            commands: command_tools(section),
            components: self.component_tools(section),
            ..OwnTools::default()
        };
        set(&mut own.endpoints, section.field("endpoints"), |it| {
            Some(it.list()?.filter_map(|it| self.endpoint(&it)).collect())
        });
        set(&mut own.openapi, section.field("openapi"), |it| {
            Some(it.list()?.filter_map(|it| self.openapi(&it)).collect())
        });
        set_some(&mut own.scripts, section.field("scripts"), |it| {
            self.path(it)
        });
        set(
            &mut own.private_hosts,
            section.field("private_hosts"),
            |it| it.words(),
        );
        own
    }

    fn endpoint(&self, field: &Field<'_>) -> Option<EndpointTool> {
        let mut section = field.section()?;
        let word = |field: Option<Field<'_>>| field.and_then(|it| it.word());
        let name = word(section.required("name", field.at()));
        let description = word(section.required("description", field.at()));
        let url = word(section.required("url", field.at()));
        let methods = METHODS.map(|name| (name, name));
        let mut method = "GET";
        set(&mut method, section.field("method"), |it| {
            it.choice(&methods)
        });
        let mut tool = EndpointTool {
            name: name.unwrap_or_default(),
            description: description.unwrap_or_default(),
            method: method.to_owned(),
            url: url.unwrap_or_default(),
            query: Vec::new(),
            headers: Vec::new(),
            login: self.login(field, &mut section),
            body: self.body(field, &mut section),
            response: ResponseForm::Auto,
            errors: Vec::new(),
            parameters: Map::new(),
            required: Vec::new(),
            tags: Vec::new(),
            read_only: false,
            timeout: None,
            max_bytes: None,
        };
        set(&mut tool.query, section.field("query"), |it| {
            self.fillings(it)
        });
        set(&mut tool.headers, section.field("headers"), |it| {
            self.fillings(it)
        });
        set(&mut tool.errors, section.field("errors"), statuses);
        set(&mut tool.response, section.field("response"), |it| {
            it.choice(&[
                ("auto", ResponseForm::Auto),
                ("json", ResponseForm::Json),
                ("text", ResponseForm::Text),
            ])
        });
        set(&mut tool.parameters, section.field("parameters"), schemas);
        set(&mut tool.required, section.field("required"), |it| {
            it.words()
        });
        set(&mut tool.tags, section.field("tags"), |it| it.words());
        set(&mut tool.read_only, section.field("read_only"), |it| {
            it.boolean()
        });
        limits(&mut section, &mut tool.timeout, &mut tool.max_bytes);
        section.finish();
        Some(tool)
    }

    fn login(&self, field: &Field<'_>, section: &mut Section<'_>) -> Option<Login> {
        let bearer = section.field("bearer");
        let basic = section.field("basic");
        match (bearer, basic) {
            (Some(_), Some(_)) => field.wrong("needs either `bearer` or `basic`"),
            (Some(bearer), None) => self.secret(&bearer).map(Login::Bearer),
            (None, basic) => self.secret(&basic?).map(Login::Basic),
        }
    }

    fn body(&self, field: &Field<'_>, section: &mut Section<'_>) -> RequestBody {
        let all = [
            section.field("body"),
            section.field("form"),
            section.field("text"),
        ];
        if all.iter().flatten().count() > 1 {
            let _: Option<()> = field.wrong("needs one of `body`, `form` and `text`");
        }
        let [body, form, text] = all;
        let body = body.map(|it| match it.is_text() {
            true => it
                .choice(&[("arguments", ())])
                .map(|()| RequestBody::Arguments),
            false => it.json().map(RequestBody::Json),
        });
        let form = form.map(|it| self.fillings(&it).map(RequestBody::Form));
        let text = text.map(|it| it.word().map(RequestBody::Text));
        body.or(form).or(text).flatten().unwrap_or_default()
    }

    fn openapi(&self, field: &Field<'_>) -> Option<OpenApi> {
        let mut section = field.section()?;
        let document = section.required("document", field.at());
        let mut api = OpenApi {
            document: document.and_then(|it| self.path(&it)).unwrap_or_default(),
            prefix: String::new(),
            server: None,
            auth: Vec::new(),
            headers: Vec::new(),
            include: Vec::new(),
            exclude: Vec::new(),
            deferred: false,
            timeout: None,
            max_bytes: None,
        };
        set(&mut api.prefix, section.field("prefix"), |it| it.word());
        set_some(&mut api.server, section.field("server"), |it| it.word());
        set(&mut api.auth, section.field("auth"), |it| {
            let entries = it.entries()?;
            Some(
                entries
                    .filter_map(|(name, it)| Some((name.to_owned(), self.secret(&it)?)))
                    .collect(),
            )
        });
        set(&mut api.headers, section.field("headers"), |it| {
            self.fillings(it)
        });
        set(&mut api.include, section.field("include"), |it| it.words());
        set(&mut api.exclude, section.field("exclude"), |it| it.words());
        set(&mut api.deferred, section.field("deferred"), |it| {
            it.boolean()
        });
        limits(&mut section, &mut api.timeout, &mut api.max_bytes);
        section.finish();
        Some(api)
    }

    /// Texts and secrets by name. Only what is `${NAME}` or `file:PATH` as a whole is a secret; what
    /// has one in its middle is a mistake, and never a text with a place.
    fn fillings(&self, field: &Field<'_>) -> Option<Vec<(String, Filling)>> {
        let filling = |it: &Field<'_>| {
            let text = it.text()?;
            match text.starts_with("file:") || text.contains("${") {
                true => self.secret(it).map(Filling::Secret),
                false => Some(Filling::Text(text.to_owned())),
            }
        };
        let entries = field.entries()?;
        let read = entries.filter_map(|(name, it)| Some((name.to_owned(), filling(&it)?)));
        Some(read.collect())
    }
}

/// JSON Schemas, by name.
pub(super) fn schemas(field: &Field<'_>) -> Option<Map<String, Value>> {
    let entries = field.entries()?;
    let read = entries.filter_map(|(name, it)| Some((name.to_owned(), it.json()?)));
    Some(read.collect())
}

/// What statuses mean.
fn statuses(field: &Field<'_>) -> Option<Vec<(String, String)>> {
    let entries = field.entries()?;
    let read = entries.filter_map(|(status, it)| {
        let is_one = matches!(status, "4xx" | "5xx" | "default")
            || status
                .parse::<u16>()
                .is_ok_and(|it| (300..600).contains(&it));
        match is_one {
            true => Some((status.to_owned(), it.word()?)),
            false => it.wrong("must be under a status from 300 to 599, `4xx`, `5xx` or `default`"),
        }
    });
    Some(read.collect())
}

fn limits(
    section: &mut Section<'_>,
    timeout: &mut Option<Duration>,
    max_bytes: &mut Option<usize>,
) {
    set_some(timeout, section.field("timeout_seconds"), |it| {
        it.seconds(1..=DAY)
    });
    set_some(max_bytes, section.field("max_bytes"), |it| {
        it.count(1..=64 * MIB)
    });
}
