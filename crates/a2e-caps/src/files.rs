//! Tools for files: `read_file`, `write_file`, `edit_file`, `list_dir`, `glob` and `grep`.
//!
//! They reach what is below their [`Roots`] and nothing else: every path is resolved by the kernel
//! from the descriptor of a root (`openat2` with `RESOLVE_BENEATH`), and trees are walked from
//! descriptor to descriptor, so neither `..` nor a symbolic link that is swapped at the right moment
//! leads out.

mod edit;
mod glob;
mod grep;
mod ignored;
mod list;
mod read;
mod replace;
mod roots;
mod walk;
mod write;

use std::sync::Arc;

use a2e_runtime::BoxFuture;

use crate::tool::{Call, Definition, DefinitionError, Output, Tool, ToolFailure, blocking};

pub use edit::MAX_EDITED;
pub use grep::{MAX_MATCHES, MAX_SEARCHED_LINE, MAX_TOLD_BYTES};
pub use list::MAX_LISTED;
pub use read::{MAX_LINE_BYTES, MAX_READ_BYTES, MAX_READ_LINES};
pub use roots::{Access, MAX_PATH, Roots, RootsError};
pub use walk::MAX_DEPTH;

/// The tools for these roots.
///
/// # Errors
/// If a definition cannot be used, which no roots can bring about.
pub fn tools(roots: Arc<Roots>) -> Result<Vec<Arc<dyn Tool>>, DefinitionError> {
    let mut tools: Vec<Arc<dyn Tool>> = vec![Arc::new(read::ReadFile::new(Arc::clone(&roots))?)];
    let mut add = |definition, run| {
        let roots = Arc::clone(&roots);
        tools.push(Arc::new(FileTool {
            definition,
            roots,
            run,
        }));
    };
    add(list::definition()?, list::run);
    add(glob::definition()?, glob::run);
    add(grep::definition()?, grep::run);
    if roots.is_writable() {
        add(write::definition()?, write::run);
        add(edit::definition()?, edit::run);
    }
    Ok(tools)
}

/// A tool that waits for the disk.
struct FileTool {
    definition: Definition,
    roots: Arc<Roots>,
    run: fn(&Roots, &Call) -> Result<Output, ToolFailure>,
}

impl Tool for FileTool {
    fn definition(&self) -> &Definition {
        &self.definition
    }

    fn call(&self, call: Call) -> BoxFuture<'_, Result<Output, ToolFailure>> {
        let (roots, run) = (Arc::clone(&self.roots), self.run);
        Box::pin(blocking(move || run(&roots, &call)))
    }
}

/// What stops a long work when nobody waits for it.
fn cancelled() -> ToolFailure {
    ToolFailure::new("nobody waits for this any more")
}

/// Where a path leads to; for the fuzz target.
pub(crate) fn resolve_for_fuzzing(
    roots: &Roots,
    path: &str,
    flags: rustix::fs::OFlags,
) -> Option<std::path::PathBuf> {
    let place = roots.locate(path).ok()?;
    let found = place.root.resolve(&place.path, flags).ok()?;
    roots::real_path(found).ok()
}
