//! `proc/resize/req`, a type of our own: the terminal of a process gets another size.

use a2e_runtime::{Context, Failure, Plugin};
use a2e_wire::{Namespace, ProcId};
use sandbox::Size;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::table::Table;
use crate::own_type::{OwnType, fields, own_type};

/// The plugin; it goes with [`Procs`](super::Procs).
#[derive(Debug, Clone, Copy, Default)]
pub struct Resize;

/// Which process, and how large its terminal is to be.
#[derive(Debug, Deserialize)]
pub(crate) struct Wanted {
    proc_id: String,
    rows: u16,
    cols: u16,
}

impl OwnType for Resize {
    const NAME: &'static str = "proc_resize";
    const REQUEST: &'static str = "proc/resize/req";
    const RESPONSE: &'static str = "proc/resize/resp";
    const NAMESPACE: Namespace = Namespace::Proc;
    const NEEDS: &'static str = "`proc_id`, `rows` and `cols`";
    type Wanted = Wanted;

    async fn answer(
        &self,
        wanted: Wanted,
        context: &Context,
    ) -> Result<Map<String, Value>, Failure> {
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
        let is_resized = resized.is_ok();
        let error = resized.err().unwrap_or_default();
        Ok(fields! {"proc_id": wanted.proc_id, "ok": is_resized, "error": error})
    }
}

impl Plugin for Resize {
    own_type!();
}
