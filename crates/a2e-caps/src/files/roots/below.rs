//! What others make of roots: more roots below them, and files that they open by a path.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Access, Root, Roots, RootsError, check_name, real_path};
use crate::tool::ToolFailure;

impl Roots {
    /// Several roots by their names that lie below these, with no more rights than these have. Their
    /// paths are resolved as those of files are.
    ///
    /// # Errors
    /// If there are none, names do not do, or one is no folder below these.
    pub fn below<'r>(
        &self,
        roots: impl IntoIterator<Item = (&'r str, &'r str, Access)>,
    ) -> Result<Arc<Self>, RootsError> {
        let mut opened: Vec<Root> = Vec::new();
        for (name, path, access) in roots {
            check_name(&opened, name)?;
            let failed = |failure: ToolFailure| RootsError::NotBelow {
                name: name.to_owned(),
                why: failure.to_string(),
            };
            let place = self.locate(path).map_err(failed)?;
            let folder = place.folder().map_err(failed)?;
            opened.push(Root {
                name: name.to_owned(),
                path: real_path(&folder).map_err(|errno| failed(place.explain(errno)))?,
                folder,
                access: match place.root.access {
                    Access::ReadOnly => Access::ReadOnly,
                    Access::ReadWrite => access,
                },
            });
        }
        if opened.is_empty() {
            return Err(RootsError::None);
        }
        Ok(Arc::new(Self {
            roots: opened,
            renaming: Arc::clone(&self.renaming),
            editing: self.editing.clone(),
        }))
    }

    /// Where a regular file is now, for those who cannot be given a descriptor; and its folder, in which
    /// they must be kept, since the file may be elsewhere by then.
    pub(crate) fn real_file(
        &self,
        path: &str,
        access: Access,
    ) -> Result<(PathBuf, OwnedFd), ToolFailure> {
        let place = self.locate(path)?;
        if access == Access::ReadWrite {
            place.is_writable()?;
        }
        let (file, _) = place.file()?;
        let path = real_path(&file).map_err(|errno| place.explain(errno))?;
        let inner = path.strip_prefix(&place.root.path).ok();
        let inner = inner
            .and_then(Path::parent)
            .unwrap_or_else(|| Path::new(""));
        let inner = match inner.as_os_str().is_empty() {
            true => Path::new("."),
            false => inner,
        };
        let folder = place.root.place(inner).folder()?;
        Ok((path, folder))
    }
}
