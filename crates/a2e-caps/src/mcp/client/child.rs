//! Servers that are programs: they run in the sandbox, and end with their connection.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use a2e_runtime::Access;
use a2e_runtime::config::{McpCommand, Network};
use rmcp::RoleClient;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use sandbox::{Child, Command, Exit, Input, Profile, Why};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::said::Said;
use super::server::Owner;
use super::streams::{Direct, Streams};
use crate::shares::Share;
use crate::workplace::Workplace;

/// A program and its two streams.
pub(super) struct ChildTransport {
    streams: Streams,
    child: Option<Child>,
    said: Arc<Said>,
    /// Where it is told how it has ended.
    exit: Option<oneshot::Sender<Exit>>,
    /// It is one of the programs of its agent, if it has one.
    _share: Option<Share>,
    /// That of its agent, which it acts for until it has ended.
    access: Option<Access>,
}

/// How long a program may take to end when its input has.
const ENDING: Duration = Duration::from_secs(5);

/// How long it may take until it is known how a program has ended that says nothing any more.
const EXITING: Duration = Duration::from_secs(1);

impl ChildTransport {
    /// Starts a program; what it says on its standard error is heard until that ends.
    ///
    /// # Errors
    /// In words, why it cannot be started.
    pub(super) async fn start(
        told: &McpCommand,
        owner: Option<&Owner>,
        workplace: &Workplace,
        said: &Arc<Said>,
    ) -> Result<(Self, LastWords), String> {
        let share = owner.map(|owner| workplace.commands.take(&owner.agent));
        let share = share.transpose().map_err(|busy| busy.to_string())?;
        let [program, args @ ..] = told.words.as_slice() else {
            return Err("its command is empty".to_owned());
        };
        let command = Command {
            program: program.into(),
            args: args.iter().map(Into::into).collect(),
            cwd: folder(told, &workplace.profile, &workplace.folder),
            env: told
                .env
                .iter()
                .map(|(name, value)| (name.into(), value.reveal().into()))
                .collect(),
            stdin: Input::Pipe,
        };
        let mut profile = workplace.profile.clone();
        profile.readable.extend(told.readable.iter().cloned());
        profile.writable.extend(told.writable.iter().cloned());
        match told.network {
            Network::None => {}
            Network::Loopback => profile.network = sandbox::Network::Loopback,
            Network::All => profile.network = sandbox::Network::All,
        }
        // It lives as long as it is of use, and what it says is counted message by message.
        profile.limits.wall_time = Duration::MAX;
        profile.limits.cpu_seconds = u64::MAX;
        profile.limits.output_bytes = u64::MAX;
        if let Some(memory) = told.memory {
            profile.limits.memory = memory;
        }
        let spawned = workplace.launcher.spawn(&command, &profile).await;
        let mut child = spawned.map_err(|error| error.to_string())?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("it has no input or no output".to_owned());
        };
        let (stderr, hearing) = (child.stderr.take(), Arc::clone(said));
        let heard = tokio::spawn(async move {
            if let Some(stderr) = stderr {
                hearing.hear(stderr).await;
            }
        });
        let (exit, exited) = oneshot::channel();
        let started = Self {
            streams: Streams::new(stdout, stdin),
            child: Some(child),
            said: Arc::clone(said),
            exit: Some(exit),
            _share: share,
            access: owner.map(|owner| owner.access.clone()),
        };
        Ok((started, LastWords { heard, exited }))
    }
}

/// The folder a program starts in: as told, or beside the file that names it, which its words may be
/// about, if the sandbox shows it that.
fn folder(told: &McpCommand, profile: &Profile, workspace: &Path) -> PathBuf {
    let shown = [&profile.readable, &profile.writable];
    let own = [&told.readable, &told.writable];
    let mut shown = shown.into_iter().chain(own).flatten();
    let beside = told.beside.as_deref();
    let beside = beside.filter(|beside| shown.any(|shown| beside.starts_with(shown)));
    let folder = told.cwd.as_deref().or(beside);
    folder.unwrap_or(workspace).to_owned()
}

impl ChildTransport {
    /// The streams, for calls of tools.
    pub(super) fn direct(&self) -> Arc<Direct> {
        Arc::clone(self.streams.direct())
    }

    /// It has ended.
    fn tell(&mut self, exit: Exit) {
        if let Some(told) = self.exit.take() {
            self.said.note(&format!("it {exit}"));
            let _ = told.send(exit);
        }
    }
}

/// Ends the program, with all it has started. How it ended by itself, if it had, is known a moment later.
impl Drop for ChildTransport {
    fn drop(&mut self) {
        let (Some(mut child), Some(exit)) = (self.child.take(), self.exit.take()) else {
            return;
        };
        child.kill_tree();
        let said = Arc::clone(&self.said);
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move {
                let ended = child.wait().await;
                said.note(&format!("it {ended}"));
                let _ = exit.send(ended);
            });
        }
    }
}

/// What a program says last.
pub(super) struct LastWords {
    heard: JoinHandle<()>,
    exited: oneshot::Receiver<Exit>,
}

impl LastWords {
    /// Waits until all that it has said is heard; says how it ended, if it did by itself.
    pub(super) async fn exit(self) -> Option<Exit> {
        let _ = self.heard.await;
        let exit = self.exited.await.ok()?;
        (exit.why != Some(Why::Killed)).then_some(exit)
    }
}

impl Transport<RoleClient> for ChildTransport {
    type Error = std::io::Error;

    fn name() -> Cow<'static, str> {
        Cow::Borrowed("a program")
    }

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), std::io::Error>> + Send + 'static {
        self.streams.send(&item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        if let Some(message) = self.streams.receive().await {
            return Some(message);
        }
        // So that it is known by whoever is told that it is over.
        if let Some(child) = &mut self.child
            && let Ok(exit) = tokio::time::timeout(EXITING, child.wait()).await
        {
            self.tell(exit);
        }
        None
    }

    async fn close(&mut self) -> Result<(), std::io::Error> {
        // Dropping it ends it, with all it has started. One of a revoked agent has no time left.
        let revoked = async {
            match &self.access {
                Some(access) => access.revoked().cancelled().await,
                None => std::future::pending().await,
            }
        };
        let ended = async {
            // A call may be writing what a program that hangs does not read: its input has no end then.
            self.streams.close().await;
            match &mut self.child {
                Some(child) => Some(child.wait().await),
                None => None,
            }
        };
        let exit = tokio::select! {
            () = revoked => None,
            ended = tokio::time::timeout(ENDING, ended) => ended.ok().flatten(),
        };
        if let Some(exit) = exit {
            self.tell(exit);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_starts_beside_the_file_that_names_it_if_it_sees_that() {
        let mut profile = Profile::default();
        let mut told = McpCommand::new(vec!["python3".into(), "server.py".into()]);
        told.beside = Some("/home/me/project".into());
        let folder_of = |told: &McpCommand, profile: &Profile| {
            folder(told, profile, Path::new("/work"))
                .display()
                .to_string()
        };
        assert_eq!(folder_of(&told, &profile), "/work");
        profile.readable.push("/home/me/project".into());
        assert_eq!(folder_of(&told, &profile), "/home/me/project");
        told.cwd = Some("/elsewhere".into());
        assert_eq!(folder_of(&told, &profile), "/elsewhere");
    }
}
