//! How foreign code runs: behind every guard that Linux has, as root and as a plain user.
//!
//! A [`Launcher`] starts a [`Command`] under a [`Profile`], which says what it may read, write,
//! reach and use up. It runs in namespaces of its own, sees a file tree with nothing in it but what
//! its profile names, has no rights, and is watched by Landlock, seccomp and limits. It ends with all
//! that it has started: when it is done, on time, when the [`Child`] is dropped, and when the host is
//! killed. A guard that the machine does not have is an error that names it, unless
//! [`Launcher::none`] says that there are to be none. [`doctor`] tries to get past each.
//!
//! No code here is `unsafe`, so nothing happens between fork and exec: the program starts itself again
//! instead, once outside the new namespaces as *supervisor*, once inside as their first process
//! ([`enter_if_asked`]).
//!
//! It is deliberately without protocol types and without opinions: who may run what is for others to
//! say. Without a cgroup memory is counted for each process; a quota exists for `/tmp`, while for
//! other writable folders only the size of each file is limited.
//!
//! Reading order: `profile`, `command`, `settings`, `guard` (what is asked for), `launcher`, `layout`,
//! `plan` (what is to be done), `supervisor`, `warm`, `stage` and below it (what is done), `child`,
//! `streams`, `exit`; `attempt` and [`doctor`]. With the feature `wasm` there is a second way, without processes: `wasm`.
//!
//! ```no_run
//! use sandbox::{Command, Launcher, Profile, Settings};
//! use tokio::io::AsyncReadExt;
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     sandbox::enter_if_asked();
//!     let launcher = Launcher::new(Settings::default())?;
//!     let runtime = tokio::runtime::Runtime::new()?;
//!     runtime.block_on(async {
//!         let command = Command::new("cat").arg("/etc/shadow");
//!         let mut child = launcher.spawn(&command, &Profile::default()).await?;
//!         let mut errors = String::new();
//!         if let Some(mut stderr) = child.stderr.take() {
//!             stderr.read_to_string(&mut errors).await?;
//!         }
//!         assert!(errors.contains("No such file"));
//!         assert!(!child.wait().await.is_success());
//!         Ok(())
//!     })
//! }
//! ```

#![warn(clippy::indexing_slicing)]

mod attempt;
mod cgroup;
mod channel;
mod child;
mod codec;
mod command;
pub mod doctor;
mod error;
mod exit;
mod guard;
mod keeper;
mod launcher;
mod layout;
mod plan;
mod profile;
mod report;
mod settings;
mod stage;
mod streams;
mod supervisor;
mod thread;
mod uids;
mod warm;
#[cfg(feature = "wasm")]
pub mod wasm;

pub use child::{Child, Handle};
pub use command::{Command, Input, Size};
pub use error::Error;
pub use exit::{Exit, Status, Why};
pub use guard::Guard;
pub use launcher::{Launcher, PATH};
pub use profile::{Limits, MIN_MEMORY, MIN_OPEN_FILES, Network, Profile};
pub use settings::{MemoryLevel, Settings};
pub use stage::enter_if_asked;
pub use streams::{Output, Stdin};
