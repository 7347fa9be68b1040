//! What ignore files leave out.
//!
//! The `ignore` crate reads the patterns and matches them. It does not open the files: a
//! `.gitignore` that is a pipe, or leads to `/dev/zero`, would keep it busy for ever.

use std::fs::File;
use std::io::Read;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rustix::fs::{FileType, Mode, OFlags};

use super::roots::READ;

/// The patterns of a folder and of those around it.
#[derive(Debug)]
pub(super) struct Ignored {
    own: Gitignore,
    outer: Option<Arc<Self>>,
}

/// Where patterns stand; of two that disagree, the later counts.
pub(super) const NAMES: [&str; 2] = [".gitignore", ".ignore"];

/// The largest such file, in bytes; what is larger does not count.
const MAX_FILE: u64 = 64 * 1024;

impl Ignored {
    /// The patterns of a folder that has files of these [`NAMES`], within those around it.
    pub(super) fn read(
        folder: BorrowedFd<'_>,
        path: &Path,
        names: impl IntoIterator<Item = &'static str>,
        outer: Option<Arc<Self>>,
    ) -> Option<Arc<Self>> {
        let texts = names.into_iter().filter_map(|name| text(folder, name));
        let texts: Vec<String> = texts.collect();
        if texts.is_empty() {
            return outer;
        }
        let mut builder = GitignoreBuilder::new(path);
        for line in texts.iter().flat_map(|text| text.lines()) {
            // A line that is no pattern is left out, as git does.
            let _ = builder.add_line(None, line);
        }
        match builder.build() {
            Ok(own) if !own.is_empty() => Some(Arc::new(Self { own, outer })),
            _ => outer,
        }
    }

    /// Whether a path is left out: the innermost pattern that fits decides.
    pub(super) fn has(&self, path: &Path, is_folder: bool) -> bool {
        match self.own.matched(path, is_folder) {
            Match::Ignore(_) => true,
            Match::Whitelist(_) => false,
            Match::None => {
                let outer = self.outer.as_ref();
                outer.is_some_and(|outer| outer.has(path, is_folder))
            }
        }
    }
}

fn text(folder: BorrowedFd<'_>, name: &str) -> Option<String> {
    let flags = READ | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::openat(folder, name, flags, Mode::empty()).ok()?;
    let stat = rustix::fs::fstat(&file).ok()?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return None;
    }
    let mut bytes = Vec::new();
    let most = MAX_FILE.saturating_add(1);
    let size = File::from(file).take(most).read_to_end(&mut bytes).ok()?;
    let is_small = u64::try_from(size).is_ok_and(|size| size <= MAX_FILE);
    is_small.then(|| String::from_utf8_lossy(&bytes).into_owned())
}
