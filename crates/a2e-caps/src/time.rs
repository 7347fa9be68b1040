//! The tool `current_time`.

use std::sync::Arc;

use a2e_runtime::BoxFuture;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use serde::Deserialize;
use serde_json::json;

use crate::tool::{Call, Definition, DefinitionError, Output, Tool, ToolFailure};

/// The tool.
struct CurrentTime {
    definition: Definition,
}

#[derive(Deserialize)]
struct Asked {
    timezone: Option<String>,
}

/// The tools that tell the time.
///
/// # Errors
/// If a definition cannot be used, which nothing can bring about.
pub fn tools() -> Result<Vec<Arc<dyn Tool>>, DefinitionError> {
    let schema = json!({
        "type": "object", "additionalProperties": false,
        "properties": {
            "timezone": {"type": "string",
                "description": "Such as `Europe/Rome`; UTC unless given"},
        },
    });
    let definition = Definition::own("current_time", "Tells the date and time", &schema)?;
    let definition = definition.read_only().volatile().tags(["time"]);
    Ok(vec![Arc::new(CurrentTime { definition })])
}

impl Tool for CurrentTime {
    fn definition(&self) -> &Definition {
        &self.definition
    }

    fn call(&self, call: Call) -> BoxFuture<'_, Result<Output, ToolFailure>> {
        Box::pin(async move {
            let asked: Asked = call.arguments.read()?;
            let zone = match asked.timezone.as_deref() {
                None | Some("UTC") => TimeZone::UTC,
                Some(name) => TimeZone::get(name).map_err(|_| {
                    let name: String = name.chars().take(64).collect();
                    ToolFailure::new(format!(
                        "this machine knows no time zone `{name}`; names are such as `Europe/Rome`"
                    ))
                })?,
            };
            Output::new(&told(&Timestamp::now().to_zoned(zone)))
        })
    }
}

fn told(now: &Zoned) -> serde_json::Value {
    json!({
        "unix_seconds": now.timestamp().as_second(),
        "utc": now.timestamp().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        "local": now.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string(),
        "timezone": now.time_zone().iana_name().unwrap_or("UTC"),
        "weekday": now.strftime("%A").to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_told_in_several_ways() {
        let now = Timestamp::from_second(1_716_123_456).unwrap();
        let told = told(&now.to_zoned(TimeZone::UTC));
        assert_eq!(told["utc"], "2024-05-19T12:57:36Z");
        assert_eq!(told["local"], "2024-05-19T12:57:36+00:00");
        assert_eq!(told["weekday"], "Sunday");
    }
}
