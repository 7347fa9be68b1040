//! How a node logs in to an MCP server that wants OAuth: the keys of `oauth`.

use super::super::read::Field;
use super::super::sections::{Reader, set, set_some};
use crate::secret::Secret;

/// What a node says of itself where a server wants OAuth. A server that takes any client needs none of
/// it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct McpOAuth {
    /// How it comes by a token.
    pub grant: McpGrant,
    /// The client that the operator has registered; the node registers itself unless given.
    pub client_id: Option<String>,
    /// Who gives tokens for the server, as it names itself; without it, whom the server names.
    pub issuer: Option<String>,
    /// What that client proves itself with, to the issuer alone.
    pub client_secret: Option<Secret>,
    /// Where a document about the client is, for servers that take that for a registration.
    pub client_metadata_url: Option<String>,
    /// What to ask for; what the server names unless given.
    pub scopes: Vec<String>,
}

/// Who a token is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum McpGrant {
    /// The operator, who logs in with a browser.
    #[default]
    Login,
    /// The node itself, with `client_id` and `client_secret`.
    ClientCredentials,
}

impl Reader<'_> {
    pub(super) fn mcp_oauth(&self, field: &Field<'_>) -> Option<McpOAuth> {
        let mut section = field.section()?;
        let mut oauth = McpOAuth::default();
        set(&mut oauth.grant, section.field("grant"), |it| {
            it.choice(&[
                ("login", McpGrant::Login),
                ("client_credentials", McpGrant::ClientCredentials),
            ])
        });
        set_some(&mut oauth.client_id, section.field("client_id"), |it| {
            it.word()
        });
        set_some(&mut oauth.issuer, section.field("issuer"), |it| it.word());
        set_some(
            &mut oauth.client_secret,
            section.field("client_secret"),
            |it| self.secret(it),
        );
        set_some(
            &mut oauth.client_metadata_url,
            section.field("client_metadata_url"),
            |it| it.word(),
        );
        set(&mut oauth.scopes, section.field("scopes"), |it| it.words());
        section.finish();
        let is_whole = oauth.client_id.is_some() && oauth.client_secret.is_some();
        if oauth.grant == McpGrant::ClientCredentials && !is_whole {
            return field.wrong("needs `client_id` and `client_secret` for `client_credentials`");
        }
        if oauth.client_secret.is_some() && oauth.client_id.is_none() {
            return field.wrong("has a `client_secret` without its `client_id`");
        }
        if oauth.client_secret.is_some() && oauth.issuer.is_none() {
            return field.wrong(
                "has a `client_secret` without `issuer`: name who gives tokens for the server, or the \
                 secret would go to whomever the server names",
            );
        }
        Some(oauth)
    }
}
