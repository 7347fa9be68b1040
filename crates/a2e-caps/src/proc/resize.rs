//! `proc/resize/req`, a type of our own: the terminal of a process gets another size.

use a2e_runtime::{BoxFuture, Context, Failure, Outcome, Plugin, Serves};
use a2e_wire::{Body, Capability, ErrorCode, Message, Namespace, ProcId, Raw, Unknown};
use sandbox::Size;
use serde::Deserialize;
use serde_json::json;

use super::table::Table;

/// The plugin; it goes with [`Procs`](super::Procs).
#[derive(Debug, Clone, Copy, Default)]
pub struct Resize;

const REQUEST: &str = "proc/resize/req";
const RESPONSE: &str = "proc/resize/resp";

#[derive(Deserialize)]
struct Wanted {
    proc_id: String,
    rows: u16,
    cols: u16,
}

impl Plugin for Resize {
    fn name(&self) -> &str {
        "proc_resize"
    }

    fn capability(&self) -> Option<Capability<'static>> {
        None
    }

    fn serves(&self) -> Serves {
        Serves::Types(vec![REQUEST.to_owned()])
    }

    fn handle(
        &self,
        request: Message<'static>,
        context: Context,
    ) -> BoxFuture<'_, Result<Outcome, Failure>> {
        Box::pin(async move {
            let Body::Unknown(unknown) = &request.body else {
                return Ok(Outcome::Pass);
            };
            let wrong = |why: String| {
                let text = format!("`{REQUEST}` needs `proc_id`, `rows` and `cols`: {why}");
                Failure::new(ErrorCode::SchemaViolation, Namespace::Proc, text)
            };
            let wanted: Wanted = unknown
                .raw
                .deserialize()
                .map_err(|it| wrong(it.to_string()))?;
            let id = ProcId::from(wanted.proc_id.as_str());
            let size = Size {
                rows: wanted.rows,
                columns: wanted.cols,
            };
            let resized = match context.session().state::<Table>().find(&id) {
                _ if wanted.rows == 0 || wanted.cols == 0 => Err("a size is at least 1".into()),
                Some(process) => process.resize(size),
                None => Err("there is no such process in this session".into()),
            };
            let answer = json!({
                "type": RESPONSE,
                "req_id": request.envelope.id.as_str(),
                "proc_id": wanted.proc_id,
                "ok": resized.is_ok(),
                "error": resized.err().unwrap_or_default(),
            });
            let raw = Raw::from_serialize(&answer).map_err(|it| wrong(it.to_string()))?;
            Ok(Outcome::answer(Body::Unknown(Unknown {
                type_name: RESPONSE.into(),
                raw,
            })))
        })
    }
}
