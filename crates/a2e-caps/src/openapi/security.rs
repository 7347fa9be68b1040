//! How requests say who asks.

use a2e_runtime::Secret;
use a2e_runtime::config::Login;
use serde_json::Value;

use super::document::Document;
use super::operation::Operation;
use crate::endpoints::authorization;
use crate::http::Hidden;

/// What a request carries, and where.
#[derive(Clone)]
pub(super) struct Credential {
    pub(super) place: Carrier,
    pub(super) name: String,
    pub(super) value: String,
}

/// Where a credential goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Carrier {
    Header,
    Query,
    Cookie,
}

/// Whether all credentials are for schemes that there are.
pub(super) fn check_names(document: &Document, auth: &[(String, Secret)]) -> Result<(), String> {
    let schemes = document.member(&["components", "securitySchemes"]);
    let schemes = schemes.and_then(Value::as_object);
    for (name, _) in auth {
        if !schemes.is_some_and(|schemes| schemes.contains_key(name)) {
            let known = schemes.into_iter().flatten().map(|(name, _)| name.as_str());
            let known: Vec<&str> = known.take(20).collect();
            return Err(format!(
                "`auth` names `{name}`, but its security schemes are: {}",
                known.join(", ")
            ));
        }
    }
    Ok(())
}

/// The credentials of an operation: those of the first alternative that there are all for.
pub(super) fn credentials(
    document: &Document,
    operation: &Operation<'_>,
    auth: &[(String, Secret)],
    hidden: &mut Hidden,
) -> Result<Vec<Credential>, String> {
    let own = operation.value.get("security");
    let wanted = own.or_else(|| document.root.get("security"));
    let wanted = wanted.and_then(Value::as_array);
    let Some(wanted) = wanted.filter(|wanted| !wanted.is_empty()) else {
        return Ok(Vec::new());
    };
    let secret = |name: &String| auth.iter().find(|(known, _)| known == name);
    let names = |one: &Value| -> Vec<String> {
        let names = one.as_object().into_iter().flatten();
        names.map(|(name, _)| name.clone()).collect()
    };
    let alternatives: Vec<Vec<String>> = wanted.iter().map(names).collect();
    // One that asks for nothing is the last choice.
    let (free, bound): (Vec<_>, Vec<_>) = alternatives.iter().partition(|it| it.is_empty());
    let known = |names: &&&Vec<String>| names.iter().all(|name| secret(name).is_some());
    let Some(chosen) = bound.iter().find(known) else {
        return match free.is_empty() {
            false => Ok(Vec::new()),
            true => {
                let needed: Vec<String> = bound.iter().map(|names| names.join(" and ")).collect();
                Err(format!("`auth` needs {}", needed.join(", or ")))
            }
        };
    };
    let found = chosen.iter().filter_map(secret);
    let made = found.map(|(name, secret)| credential(document, name, secret, hidden));
    made.collect()
}

fn credential(
    document: &Document,
    name: &str,
    secret: &Secret,
    hidden: &mut Hidden,
) -> Result<Credential, String> {
    let scheme = document.member(&["components", "securitySchemes", name]);
    let scheme = document.resolve(scheme.ok_or("a security scheme is not there")?)?;
    let text = |key: &str| scheme.get(key).and_then(Value::as_str).unwrap_or_default();
    let kind = text("scheme").to_ascii_lowercase();
    let login = match (text("type"), kind.as_str()) {
        ("http", "basic") => Login::Basic(secret.clone()),
        // How such a token is come by is the operator's business.
        ("http", "bearer") | ("oauth2" | "openIdConnect", _) => Login::Bearer(secret.clone()),
        ("apiKey", _) => {
            hidden.add(secret.reveal());
            let place = match text("in") {
                "header" => Carrier::Header,
                "query" => Carrier::Query,
                "cookie" => Carrier::Cookie,
                _ => return Err(format!("the `in` of the security scheme `{name}` is none")),
            };
            return Ok(Credential {
                place,
                name: text("name").to_owned(),
                value: secret.reveal().to_owned(),
            });
        }
        _ => {
            return Err(format!(
                "the security scheme `{name}` is none of bearer, basic, apiKey, oauth2 and \
                 openIdConnect"
            ));
        }
    };
    Ok(Credential {
        place: Carrier::Header,
        name: "authorization".to_owned(),
        value: authorization(&login, hidden),
    })
}
