//! Another configuration for a node that runs: all of it, or nothing.

use a2a_net::Identity;
use a2a_net::book::Book;
use a2e_runtime::config::Config;
use a2e_runtime::{HostBuilder, Policies, Tls};
use anyhow::{Context, Result, anyhow};

use super::access::DefaultCredential;
use super::agents;
use super::doors::keep_doors;
use super::joined::{self, Plan};
use super::later::take_later;
use super::manifest::Own;
use super::{Consent, Node, builder, guard};
use crate::book;
use crate::capabilities::Described;
use crate::config::Applied;

/// All that a configuration changes, ready to be used.
struct Ready {
    builder: HostBuilder,
    described: Described,
    /// None if those there are stay.
    policies: Option<Policies>,
    book: Book,
    plan: Plan,
    /// What is asked of other agents.
    agents: agents::Policies,
    /// What other agents are told about the node, if it speaks with any.
    identity: Option<Identity>,
    credential: DefaultCredential,
}

impl Node {
    /// Goes on with another configuration; says what of it needs the operator's word and was left as
    /// it is. Sessions keep what they began with, but for the rules: those are new for all.
    ///
    /// # Errors
    /// If something in it cannot be used; then nothing has changed.
    pub(crate) async fn reload(
        &self,
        config: &Config,
        consent: Consent,
        tell: &(dyn Fn(String) + Send + Sync),
    ) -> Result<Applied> {
        let mut config = config.clone();
        let later = take_later(&mut config, &self.current());
        let mut kept = match consent {
            Consent::Given => Vec::new(),
            Consent::Missing => keep_doors(&mut config, &self.current()),
        };
        // What takes long comes first.
        let made = builder(&config, &self.shared, tell).await?;
        let ready = self.prepare(made, &config, consent, &mut kept)?;
        let credential = ready.credential;
        self.take(ready, config, consent);
        // Also when the new configuration says nothing of them: what it no longer says may be what let
        // them in.
        if let Err(error) = self.access.end(credential).await {
            tracing::error!(%error, "old sessions of revoked agents stay on record");
        }
        for kept in &kept {
            tracing::error!("{kept}");
        }
        tracing::info!("read the configuration again");
        if !later.is_empty() {
            tracing::warn!("these change at the next start: {}", later.join(", "));
        }
        Ok(Applied {
            kept,
            later,
            file: None,
        })
    }

    /// Everything else that can fail.
    fn prepare(
        &self,
        (builder, described): (HostBuilder, Described),
        config: &Config,
        consent: Consent,
        kept: &mut Vec<String>,
    ) -> Result<Ready> {
        let policies = Policies::compile(&config.policy);
        // The configuration was checked when it was read.
        let policies = policies.map_err(|errors| {
            let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
            anyhow!(errors.join("; "))
        })?;
        // Compared with what is in force: what was last read may have been refused.
        let in_force = self.host.policies();
        let looser = policies.tighten(&in_force).err();
        let policies = match looser.filter(|_| consent == Consent::Missing) {
            None => (policies != *in_force).then_some(policies),
            Some(looser) => {
                kept.push(format!(
                    "kept the old rules, since the new ones allow more ({looser}); \
                     `frith config apply` applies them"
                ));
                None
            }
        };
        let book = book::configured(&config.trust).context("`trust`")?;
        let plan = Plan::of(config)?;
        let agents = agents::Policies::read(&config.a2a)?;
        let identity = self.identity(config)?;
        // Last, since these two take at once what is good. A certificate is read from the same files.
        let tls = self.tls.as_ref().map(Tls::reload).transpose();
        tls.context("the certificate")?;
        let token = self.tokens.configure(config.auth_token.as_ref());
        let is_other_token = token.context("`auth_token`")?;
        let was_open = self.current().server.allow_unauthenticated;
        let is_closed = was_open && !config.server.allow_unauthenticated;
        Ok(Ready {
            builder,
            described,
            policies,
            book,
            plan,
            agents,
            identity,
            credential: match is_other_token || is_closed {
                true => DefaultCredential::Changed,
                false => DefaultCredential::Same,
            },
        })
    }

    /// Who the node is to others. Its keys are read again: one that was rotated is shown from then on.
    pub(super) fn identity(&self, config: &Config) -> Result<Option<Identity>> {
        let Some(agents) = &self.agents else {
            return Ok(None);
        };
        let own = Own {
            config,
            data: self.claim.dir(),
            identity: &self.who.open()?,
            identities: &self.who.store,
        };
        agents.identity(own).map(Some)
    }

    /// Nothing here can fail.
    fn take(&self, mut ready: Ready, config: Config, consent: Consent) {
        self.shared.capabilities.take(ready.described);
        self.host.reload(ready.builder);
        if let Some(policies) = ready.policies {
            self.host.set_policies(policies);
            self.record_policy(consent);
        }
        self.http.set_guard(guard(&config));
        let places = std::mem::take(&mut ready.plan.places);
        self.access.book.configure(ready.book, |pages| {
            if let Some(agents) = &self.agents {
                agents.configure(pages, ready.agents, places);
            }
        });
        joined::take(ready.plan, &self.access.names, self.joined.as_ref());
        if let (Some(agents), Some(identity)) = (&self.agents, ready.identity) {
            agents.server.set_identity(identity);
        }
        *self.current() = config;
    }

    /// Puts on record that other rules hold from now on.
    fn record_policy(&self, consent: Consent) {
        let record = audit::Record {
            event: audit::Event::PolicyChange,
            body: audit::Body {
                reason: Some(match consent {
                    Consent::Given => "applied by the operator",
                    Consent::Missing => "read again, and no looser",
                }),
                ..audit::Body::default()
            },
        };
        let appended = self.shared.audit.as_ref().map(|log| log.append(&record));
        if let Some(Err(error)) = appended {
            tracing::error!(%error, "a change of the rules is not on record");
        }
    }
}
