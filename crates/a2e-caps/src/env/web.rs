//! The environment `http`: the web without a browser, one page at a time.
//!
//! Every request goes through the guarded client of the HTTP tools, each step of a redirect too: what
//! those may not reach, this may not.

mod address;
mod wish;

use std::collections::BTreeMap;
use std::sync::Arc;

use a2e_runtime::BoxFuture;
use a2e_wire::Object;
use hyper::{Method, header};
use serde::Deserialize;
use serde_json::json;

use super::environment::{
    Action, Change, EnvError, Environment, Opened, Opening, Spaces, World, state,
};
use super::html::{self, MAX_LINKS, MAX_TEXT, Page};
use crate::http::{Answer, Ask, Client, MAX_REQUEST_BODY, MAX_URL, Target, headers, uncompressed};
use crate::tool::ToolFailure;

use wish::{Wish, wish};

/// The environment.
#[derive(Debug)]
pub struct WebPages {
    client: Arc<Client>,
    spaces: Spaces,
}

/// Pages to which one can go back.
pub const MAX_BACK: usize = 100;
/// Redirects that one step follows.
const MAX_REDIRECTS: usize = 5;
/// Bytes of a page that are read.
const PAGE_BYTES: usize = 2 << 20;

#[derive(Deserialize, Default)]
struct Options {
    url: Option<String>,
    goal_url: Option<String>,
    goal_text: Option<String>,
}

/// What somebody reads.
#[derive(Debug)]
struct Reading {
    agent: Arc<str>,
    client: Arc<Client>,
    goal_url: Option<String>,
    goal_text: Option<String>,
    url: String,
    status: u16,
    page: Page,
    /// The pages before, the last one last.
    back: Vec<String>,
}

/// A request for a page.
struct Wanted {
    url: String,
    /// What is sent there, if something is.
    body: Option<String>,
}

impl WebPages {
    /// Pages that this client can reach.
    #[must_use]
    pub fn new(client: Arc<Client>) -> Self {
        let action = json!({
            "type": "object",
            "properties": {
                "action": {"type": "integer", "minimum": 0, "maximum": MAX_LINKS - 1,
                    "description": "Follows the link of that number"},
                "type": {"enum": ["open", "follow", "submit", "back"]},
                "url": {"type": "string", "maxLength": MAX_URL, "description": "For `open`"},
                "link": {"type": "integer", "description": "For `follow`: its number"},
                "form": {"type": "integer", "description": "For `submit`: its number"},
                "fields": {"type": "object", "additionalProperties": {"type": "string"},
                    "description": "For `submit`: values by name"},
            },
            "anyOf": [{"required": ["type"]}, {"required": ["action"]}],
        });
        let state = json!({
            "type": "object",
            "properties": {
                "url": {"type": "string", "maxLength": MAX_URL},
                "status": {"type": "integer", "minimum": 0, "maximum": 999},
                "title": {"type": "string", "maxLength": MAX_TEXT},
                "text": {"type": "string", "maxLength": MAX_TEXT},
                "links": {"type": "array", "items": {
                    "type": "object",
                    "properties": {
                        "link": {"type": "integer", "minimum": 0, "maximum": MAX_LINKS - 1},
                        "text": {"type": "string", "maxLength": MAX_TEXT},
                        "url": {"type": ["string", "null"], "description": "null: it leads to no page"},
                    },
                    "required": ["link", "text", "url"],
                }},
                "forms": {"type": "array", "items": {
                    "type": "object",
                    "properties": {
                        "form": {"type": "integer", "minimum": 0},
                        "method": {"enum": ["GET", "POST"]},
                        "fields": {"type": "object", "additionalProperties": {"type": "string"}},
                    },
                    "required": ["form", "method", "fields"],
                }},
            },
            "required": ["url", "status", "title", "text", "links", "forms"],
        });
        Self {
            client,
            spaces: Spaces::new(&action, &state),
        }
    }

    async fn begin(&self, opening: Opening) -> Result<Opened, EnvError> {
        let options: Options = opening.read()?;
        let mut reading = Reading {
            agent: opening.agent,
            client: Arc::clone(&self.client),
            goal_url: options.goal_url,
            goal_text: options.goal_text,
            url: String::new(),
            status: 0,
            page: Page::default(),
            back: Vec::new(),
        };
        if let Some(url) = options.url {
            reading.open(Wanted { url, body: None }).await?;
        }
        Ok(Opened {
            state: reading.state()?,
            world: Box::new(reading),
        })
    }
}

impl Environment for WebPages {
    fn name(&self) -> &str {
        "http"
    }

    fn description(&self) -> &str {
        "Web pages as text, links and forms: open, follow, submit, back"
    }

    fn spaces(&self) -> &Spaces {
        &self.spaces
    }

    fn open(&self, opening: Opening) -> BoxFuture<'_, Result<Opened, EnvError>> {
        Box::pin(self.begin(opening))
    }
}

impl Reading {
    async fn act(&mut self, action: &Action) -> Result<Change, EnvError> {
        let before = self.url.clone();
        match wish(action)? {
            Wish::Open(url) => self.open(Wanted { url, body: None }).await?,
            Wish::Follow(link) => self.follow(link).await?,
            Wish::Submit(form, fields) => self.submit(form, &fields).await?,
            Wish::Back => {
                let url = self.back.last().cloned();
                let url = url.ok_or_else(|| wrong("there is no page before this one"))?;
                self.open(Wanted { url, body: None }).await?;
                self.back.pop();
                return self.change();
            }
        }
        if !before.is_empty() {
            self.back.push(before);
        }
        if self.back.len() > MAX_BACK {
            self.back.remove(0);
        }
        self.change()
    }

    async fn follow(&mut self, link: usize) -> Result<(), EnvError> {
        let link = self.page.links.get(link);
        let href = &link
            .ok_or_else(|| wrong("there is no link of that number"))?
            .href;
        let url = address::resolve(&self.url, href)
            .ok_or_else(|| wrong("that link does not lead to a page"))?;
        self.open(Wanted { url, body: None }).await
    }

    async fn submit(
        &mut self,
        form: usize,
        given: &BTreeMap<String, String>,
    ) -> Result<(), EnvError> {
        let form = self.page.forms.get(form);
        let form = form.ok_or_else(|| wrong("there is no form of that number"))?;
        let unknown = given
            .keys()
            .find(|name| form.fields.iter().all(|(known, _)| known != *name));
        if let Some(name) = unknown {
            let name: String = name.chars().take(64).collect();
            return Err(wrong(&format!("the form has no field `{name}`")));
        }
        let fields = form.fields.iter().map(|(name, value)| {
            let value = given.get(name).unwrap_or(value);
            format!("{}={}", address::encoded(name), address::encoded(value))
        });
        let fields = fields.collect::<Vec<_>>().join("&");
        let url = address::resolve(&self.url, &form.action)
            .ok_or_else(|| wrong("that form does not lead to a page"))?;
        let wanted = match form.is_post {
            true => Wanted {
                url,
                body: Some(fields),
            },
            false => Wanted {
                url: format!(
                    "{}?{fields}",
                    url.split(['?', '#']).next().unwrap_or_default()
                ),
                body: None,
            },
        };
        self.open(wanted).await
    }

    /// Goes to a page, along redirects. What fails leaves the page as it was.
    async fn open(&mut self, mut wanted: Wanted) -> Result<(), EnvError> {
        for _ in 0..=MAX_REDIRECTS {
            let asked = self.client.ask(&self.agent, self.ask(&wanted)?).await;
            let answer = asked.map_err(failed)?;
            let location = answer.headers.get(header::LOCATION);
            let to = location.filter(|_| answer.status.is_redirection());
            let Some(to) = to.and_then(|to| to.to_str().ok()) else {
                return self.show(wanted.url, answer);
            };
            let url = address::resolve(&wanted.url, to)
                .ok_or_else(|| EnvError::Failed("it redirects to no page".to_owned()))?;
            // As browsers do: what was sent is sent once, unless the answer says to send it again.
            let again = matches!(answer.status.as_u16(), 307 | 308);
            let body = wanted.body.filter(|_| again);
            wanted = Wanted { url, body };
        }
        let text = format!("it redirects more than {MAX_REDIRECTS} times");
        Err(EnvError::Failed(text))
    }

    fn ask(&self, wanted: &Wanted) -> Result<Ask, EnvError> {
        let mut all = BTreeMap::from([("accept".to_owned(), "text/html, text/*;q=0.9".to_owned())]);
        if wanted.body.is_some() {
            let form = "application/x-www-form-urlencoded";
            all.insert("content-type".to_owned(), form.to_owned());
        }
        let body = wanted.body.clone().unwrap_or_default().into_bytes();
        if body.len() > MAX_REQUEST_BODY {
            return Err(wrong(&format!(
                "a form has at most {MAX_REQUEST_BODY} bytes"
            )));
        }
        let url = wanted.url.split('#').next().unwrap_or_default();
        Ok(Ask {
            target: Target::parse(url).map_err(failed)?,
            method: match wanted.body {
                Some(_) => Method::POST,
                None => Method::GET,
            },
            headers: headers(&all).map_err(EnvError::Failed)?,
            body,
            time: None,
            reach: self.client.reach(),
            body_bytes: PAGE_BYTES,
        })
    }

    fn show(&mut self, url: String, answer: Answer) -> Result<(), EnvError> {
        uncompressed(&answer.headers, &answer.body).map_err(failed)?;
        let kind = answer.headers.get(header::CONTENT_TYPE);
        let kind = kind
            .and_then(|kind| kind.to_str().ok())
            .unwrap_or_default()
            .to_owned();
        let text = String::from_utf8_lossy(&answer.body);
        let page = match kind.split(';').next().unwrap_or_default().trim() {
            "text/html" | "application/xhtml+xml" | "" => html::read(&text),
            kind if kind.starts_with("text/") || kind == "application/json" => Page {
                text: text.chars().take(MAX_TEXT / 4).collect(),
                ..Page::default()
            },
            kind => {
                let kind: String = kind.chars().take(64).collect();
                return Err(EnvError::Failed(format!("`{kind}` is nothing to read")));
            }
        };
        (self.url, self.status, self.page) = (url, answer.status.as_u16(), page);
        Ok(())
    }

    fn change(&self) -> Result<Change, EnvError> {
        let (url, text) = (self.goal_url.as_ref(), self.goal_text.as_ref());
        let is_there = url.is_none_or(|goal| *goal == self.url);
        let is_said = text.is_none_or(|goal| self.page.text.contains(goal));
        let done = (url.is_some() || text.is_some()) && is_there && is_said;
        Ok(Change {
            state: self.state()?,
            reward: f64::from(u8::from(done)),
            done,
        })
    }

    fn state(&self) -> Result<Object<'static>, EnvError> {
        let links = self.page.links.iter().enumerate().map(|(number, link)| {
            let url = address::resolve(&self.url, &link.href);
            json!({"link": number, "text": link.text, "url": url})
        });
        let forms = self.page.forms.iter().enumerate().map(|(number, form)| {
            let fields: BTreeMap<_, _> = form.fields.iter().map(|(name, value)| (name, value)).collect();
            json!({"form": number, "method": if form.is_post { "POST" } else { "GET" }, "fields": fields})
        });
        let state = json!({
            "url": self.url,
            "status": self.status,
            "title": self.page.title,
            "text": self.page.text,
            "links": links.collect::<Vec<_>>(),
            "forms": forms.collect::<Vec<_>>(),
        });
        Object::from_serialize(&state).map_err(|error| EnvError::Failed(error.to_string()))
    }
}

impl World for Reading {
    fn step<'a>(&'a mut self, action: &'a Action) -> BoxFuture<'a, Result<Change, EnvError>> {
        Box::pin(self.act(action))
    }

    fn text(&self) -> Option<String> {
        let Page {
            title, text, links, ..
        } = &self.page;
        let links = links
            .iter()
            .enumerate()
            .map(|(number, link)| format!("[{number}] {}", link.text));
        let links = links.collect::<Vec<_>>().join("\n");
        Some(format!(
            "{title}\n{} ({})\n\n{text}\n\n{links}",
            self.url, self.status
        ))
    }

    /// The links, as far as anybody would want to try them all.
    fn plan(&self, _state: Option<&Object<'_>>) -> Vec<Object<'static>> {
        let links = 0..self.page.links.len().min(20);
        links
            .map(|link| state(format!("{{\"type\":\"follow\",\"link\":{link}}}")))
            .collect()
    }
}

fn wrong(text: &str) -> EnvError {
    EnvError::Wrong(text.to_owned())
}

fn failed(failure: ToolFailure) -> EnvError {
    EnvError::Failed(failure.to_string())
}
