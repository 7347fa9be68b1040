//! What the operator has the node do with other agents.

use std::sync::Arc;
use std::time::Duration;

use a2a_identity::{Did, VerifiedManifest, Want, WebUrl};
use a2a_net::{
    CallError, CallOptions, Encrypt, FailedWork, Provisional, SessionState, SessionView, Speaker,
    manifest_url,
};
use a2a_session::{Binding, Freshness};
use a2e_runtime::operator::{News, Nothing, Operations};
use canonical::Value;
use tokio::sync::mpsc;

use super::agents::{Agents, named};
use crate::peer::asked::{
    Agreed, Answered, CALL, Call, Called, Failed, Incoming, LOOK, Look, PROBE, Part, Probe,
    SESSIONS, Said, Seen, SeenManifest, Session, Sessions, Setback, Shaken,
};
use crate::peer::endpoint;

/// Parts of an answer that wait to be told.
const PARTS: usize = 8;

/// Adds what can be asked about other agents.
pub(super) fn serve(operations: Operations, agents: &Arc<Agents>) -> Operations {
    let to = || Arc::clone(agents);
    let (probe, call, look, sessions) = (to(), to(), to(), to());
    operations
        .add(PROBE, move |asked: Probe| {
            let agents = Arc::clone(&probe);
            async move { agents.probe(&asked).await }
        })
        .add_telling(CALL, move |asked: Call, news| {
            let agents = Arc::clone(&call);
            async move { agents.call(asked, news).await }
        })
        // Nobody wants the answer of a call that was interrupted.
        .ending_with_operator(PROBE)
        .ending_with_operator(CALL)
        .add(LOOK, move |asked: Look| {
            let agents = Arc::clone(&look);
            async move { agents.look(&asked.at).await }
        })
        .add(SESSIONS, move |_: Nothing| {
            let agents = Arc::clone(&sessions);
            async move { Ok::<_, String>(agents.sessions().await) }
        })
}

/// Says that a node keeps to itself.
pub(super) fn serve_none(operations: Operations) -> Operations {
    let none = |_: serde_json::Map<String, serde_json::Value>| {
        let text = "this node does not speak with other agents; `a2a` in its configuration says so";
        std::future::ready(Err::<Nothing, _>(text.to_owned()))
    };
    let all = [PROBE, CALL, LOOK, SESSIONS];
    all.into_iter()
        .fold(operations, |operations, name| operations.add(name, none))
}

impl Agents {
    /// Shakes hands with whoever is meant, and shows it.
    async fn probe(&self, asked: &Probe) -> Result<Shaken, String> {
        let encrypt = match asked.encrypt {
            true => Encrypt::Required,
            false => Encrypt::AsAgreed,
        };
        let (did, introduced) = match asked.to.contains("://") {
            false => {
                let did = named(&self.book.books.pages(), &asked.to).map_err(text)?;
                self.check_blocked(&did)?;
                let introduced = self.client.introduce(&did, encrypt).await;
                (did, introduced)
            }
            true => {
                let did = self.manifest_at(&asked.to).await?.did().clone();
                self.check_blocked(&did)?;
                let url = endpoint(&asked.to);
                let introduced = self.client.introduce_at(&did, &url, encrypt).await;
                (did, introduced)
            }
        };
        let said = |said: Vec<a2a_net::Said>| said.into_iter().map(shown).collect();
        let did = did.to_string();
        Ok(match introduced {
            Ok(introduction) => Shaken {
                did,
                said: said(introduction.said),
                agreed: Some(Agreed {
                    url: introduction.route.handshake.clone(),
                    address: introduction.route.address.to_string(),
                    session: session(&introduction.session),
                    policy: json(&Value::Object(introduction.policy.to_tree())),
                }),
                failed: None,
            },
            Err((heard, error)) => Shaken {
                did,
                said: said(heard),
                agreed: None,
                failed: Some(failed(&error)),
            },
        })
    }

    /// Calls a peer; parts of its answer are told as they come.
    async fn call(&self, asked: Call, news: News) -> Result<Called, String> {
        let did = named(&self.book.books.pages(), &asked.to).map_err(text)?;
        self.check_blocked(&did)?;
        let intent = Value::from_serialize(&asked.intent).map_err(text)?;
        let (chunks, mut parts) = mpsc::channel::<Provisional>(PARTS);
        let (setbacks, mut setback) = mpsc::channel::<a2a_net::Setback>(PARTS);
        let options = CallOptions {
            timeout: Duration::from_millis(asked.timeout_ms),
            encrypt: match asked.encrypt {
                true => Encrypt::Required,
                false => Encrypt::AsAgreed,
            },
            chunks: asked.stream.then_some(chunks),
            // What was begun and failed may have done something; whoever asked decides.
            failed_work: FailedWork::Leave,
            setbacks: Some(setbacks),
            ..CallOptions::default()
        };
        let telling = async {
            while let Some(part) = parts.recv().await {
                let part = Part {
                    attempt: part.attempt,
                    index: part.index,
                    data: json(&part.data),
                };
                news.tell(&part).await;
            }
        };
        let complaining = async {
            while let Some(a2a_net::Setback { error, wait }) = setback.recv().await {
                let again_in_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
                let setback = error;
                news.tell(&Setback {
                    setback,
                    again_in_ms,
                })
                .await;
            }
        };
        let calling = async {
            let called = self.client.call(&did, intent, &options).await;
            // So that nobody waits for more to tell.
            drop(options);
            called
        };
        let (called, (), ()) = tokio::join!(calling, telling, complaining);
        Ok(match called {
            Ok(answered) => {
                let outcome = bridge::Outcome::of_result(&answered.result);
                Called {
                    answered: Some(Answered {
                        is_failure: outcome.is_failure(),
                        result: json(outcome.result()),
                        response_hash: answered.response_hash.to_string(),
                        attempts: answered.attempts,
                        session: session(&answered.session),
                    }),
                    failed: None,
                }
            }
            Err(error) => Called {
                answered: None,
                failed: Some(failed(&error)),
            },
        })
    }

    /// Who is blocked is not spoken to, in sessions that are open neither.
    fn check_blocked(&self, did: &Did) -> Result<(), String> {
        let pages = self.book.books.pages();
        if !pages.is_blocked(did) {
            return Ok(());
        }
        Err(
            match pages.configured.blocked().contains_key(&did.to_string()) {
                true => format!(
                    "{did} is blocked by `trust.blocked` of the configuration; without it there, \
                 `frith config apply` lets this node speak to it again"
                ),
                false => format!(
                    "{did} is blocked; `frith trust unblock {did}` lets this node speak to it again"
                ),
            },
        )
    }

    /// Whose manifest is at a URL, or what a DID leads to.
    async fn look(&self, at: &str) -> Result<Seen, String> {
        if at.contains("://") {
            let manifest = self.manifest_at(at).await?;
            return Ok(Seen {
                did: manifest.did().to_string(),
                manifest: Some(seen(&manifest)),
            });
        }
        let did = named(&self.book.books.pages(), at).map_err(text)?;
        let resolver = self.home.resolver();
        let facts = resolver.facts(&did, Want::Manifest, Freshness::Newer).await;
        let facts = facts.map_err(|error| format!("{}: {error}", error.code()))?;
        Ok(Seen {
            did: did.to_string(),
            manifest: facts.manifest.as_deref().map(seen),
        })
    }

    async fn manifest_at(&self, url: &str) -> Result<Box<VerifiedManifest>, String> {
        let url = WebUrl::parse(url).map_err(text)?;
        let url = manifest_url(&url);
        let found = self.home.resolver().manifest_at(&url).await;
        found.map_err(|error| format!("{}: {error}", error.code()))
    }

    async fn sessions(&self) -> Sessions {
        Sessions {
            outgoing: self.client.sessions().await.iter().map(session).collect(),
            incoming: self.server.sessions().iter().map(incoming).collect(),
        }
    }
}

fn shown(said: a2a_net::Said) -> Said {
    let text = || serde_json::Value::from(String::from_utf8_lossy(&said.message).as_ref());
    Said {
        ours: said.by == Speaker::Client,
        message: serde_json::from_slice(&said.message).unwrap_or_else(|_| text()),
    }
}

fn seen(manifest: &VerifiedManifest) -> SeenManifest {
    let content = manifest.manifest();
    SeenManifest {
        hash: manifest.hash().to_string(),
        signed_at: manifest.timestamp().0,
        agent_id: content
            .agent_id
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default(),
        endpoints: content
            .endpoints
            .iter()
            .map(|it| it.url.to_string())
            .collect(),
        capabilities: content
            .capabilities
            .iter()
            .flatten()
            .map(|it| it.name.to_string())
            .collect(),
    }
}

fn session(view: &SessionView) -> Session {
    Session {
        did: view.did.clone(),
        trust_level: view.trust_level.to_string(),
        binding: match view.binding {
            Binding::Profile => "profile".to_owned(),
            Binding::Baseline => "baseline".to_owned(),
        },
        encrypted: view.encrypted,
        transport: view.carrier.name().to_owned(),
        policy_hash: view.policy_hash.to_string(),
        expires_at: view.expires_at.0,
    }
}

fn incoming(state: &SessionState) -> Incoming {
    Incoming {
        did: state.peer.did.clone(),
        trust_level: state.peer.trust_level.to_string(),
        created_at: state.created_at.0,
        expires_at: state.expires_at.0,
        policy_hash: state.policy_hash.clone(),
        in_flight: state.in_flight,
    }
}

fn failed(error: &CallError) -> Failed {
    Failed {
        code: error.code().to_string(),
        error: error.to_string(),
    }
}

fn json(value: &Value<'_>) -> serde_json::Value {
    serde_json::to_value(value).unwrap_or_default()
}

fn text(error: impl std::fmt::Display) -> String {
    format!("{error:#}")
}
