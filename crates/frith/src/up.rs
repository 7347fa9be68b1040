//! `frith up`: the node.

use std::path::{Path, PathBuf};
use std::time::Duration;

use a2e_runtime::DataDir;
use a2e_runtime::config::{Config, listen_address};
use a2e_runtime::operator::News;
use anyhow::{Context, Result, anyhow};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::Outcome;
use crate::config::{Applied, Doing};
use crate::configured::ConfigArguments;
use crate::data::DataArguments;
use crate::hooks::Hook;
use crate::inbox::attend;
use crate::log::Log;
use crate::node::{Apply, Consent, Node};
use crate::notify::{self, State};
use crate::otlp::Collector;
use crate::watch::Watch;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Where to listen for HTTP, instead of 127.0.0.1:8765; port 0 takes any that is free
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = listen_address)]
    listen: Option<std::net::SocketAddr>,

    /// Where to listen for other agents, instead of 127.0.0.1:8443; port 0 takes any that is free
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = listen_address)]
    a2a_listen: Option<std::net::SocketAddr>,

    #[command(flatten)]
    config: ConfigArguments,

    #[command(flatten)]
    data: DataArguments,
}

pub(crate) fn run(arguments: &Arguments, as_json: bool) -> Result<Outcome> {
    let file = arguments.config.file()?;
    let config = arguments.load(file.as_deref())?;
    let mut log = Log::start(&config.telemetry)?;
    let exporter = log.take_exporter();
    raise_open_files();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start")?;
    let told = CancellationToken::new();
    let sending = exporter
        .zip(Collector::of(&config)?)
        .map(|(exporter, collector)| runtime.spawn(exporter.run(collector, told.clone())));
    let outcome = runtime.block_on(serve(arguments, &config, file.as_deref(), &log, as_json));
    told.cancel();
    if let Some(sending) = sending {
        // It has its own patience.
        let _ = runtime.block_on(sending);
    }
    // Whatever still runs was told to end and had its time.
    runtime.shutdown_background();
    outcome
}

async fn serve(
    arguments: &Arguments,
    config: &Config,
    file: Option<&Path>,
    log: &Log,
    as_json: bool,
) -> Result<Outcome> {
    let mut signals = Signals::new()?;
    // From the start: whoever knows that the node runs may change the file at once.
    let mut watch = Watch::new(file);
    let dir = arguments.data.dir()?;
    let hooks = Hook::all(config).context("`notify`")?;
    // A mounted host may be slow to answer; whoever has started this need not wait for it.
    let node = tokio::select! {
        node = Node::start(config, file, &dir) => node?,
        () = signals.stop_again() => return Ok(Outcome::Good),
    };
    announce(&node, config, file, as_json);
    notify::tell(State::Ready);
    let attending = Attending::start(&node, hooks, config, (!as_json).then_some(dir));
    let mut file = file.map(Path::to_owned);
    let mut keys = node.keys();
    let mut damage = None;
    loop {
        let (consent, wish) = tokio::select! {
            why = node.store_damaged() => {
                damage = Some(why);
                break;
            }
            told = signals.next() => match told {
                Told::Reload => (Consent::Missing, None),
                Told::Stop => break,
            },
            wish = node.told_to_apply() => (Consent::Given, Some(wish)),
            () = watch.changed() => (Consent::Missing, None),
            () = keys.due() => {
                node.renew(&mut keys);
                continue;
            }
        };
        // A node that began without a file goes by one that is there now.
        if let Ok(Some(found)) = arguments.file_again(file.as_deref()) {
            watch.follow(&found);
        }
        watch.reading();
        let news = wish.as_ref().map(|wish| &wish.news);
        let Some(applied) = read_again(
            arguments,
            (&node, log),
            (consent, news),
            &mut signals,
            &mut file,
        )
        .await
        else {
            break;
        };
        if let Some(Apply { answer, .. }) = wish {
            let _ = answer.send(applied);
        }
    }
    notify::tell(State::Stopping);
    attending.end().await;
    let patience = match &damage {
        None => {
            tracing::info!("stopping; again to stop at once");
            config.global_limits.drain + BEYOND_DRAIN
        }
        Some(why) => {
            tracing::error!("stopping at once: {why:#}");
            Duration::ZERO
        }
    };
    tokio::select! {
        () = node.stop(patience) => {}
        () = signals.stop_again() => tracing::warn!("stopped at once"),
    }
    node.clean_up();
    match damage {
        None => Ok(Outcome::Good),
        Some(why) => Err(why),
    }
}

/// What tells people that calls wait for approval.
struct Attending {
    stop: CancellationToken,
    /// At the node's own terminal.
    task: Option<JoinHandle<()>>,
}

impl Attending {
    /// Begins; at the terminal only if there is somebody to be asked about the node in a data directory.
    fn start(node: &Node, hooks: Vec<Hook>, config: &Config, dir: Option<DataDir>) -> Self {
        for hook in hooks {
            tokio::spawn(hook.run(node.approval_requests(), config.host_id.clone()));
        }
        let stop = CancellationToken::new();
        let task = dir.map(|dir| attend(dir, node.approval_requests(), stop.clone()));
        Self {
            stop,
            task: task.map(tokio::spawn),
        }
    }

    /// Ends; the terminal is as it was afterwards.
    async fn end(self) {
        self.stop.cancel();
        if let Some(task) = self.task {
            let _ = task.await;
        }
    }
}

/// Prints where the node is. A reader that has gone away is no reason to end.
fn announce(node: &Node, config: &Config, file: Option<&Path>, as_json: bool) {
    if let Err(error) = node.announce(config, file, as_json) {
        tracing::warn!("cannot print where the node is; `frith status` shows it: {error:#}");
    }
}

/// Goes on with the configuration as it is now; says what came of it, or nothing if the node is to stop.
async fn read_again(
    arguments: &Arguments,
    (node, log): (&Node, &Log),
    (consent, news): (Consent, Option<&News>),
    signals: &mut Signals,
    file: &mut Option<PathBuf>,
) -> Option<Result<Applied, String>> {
    let tell = |doing: String| {
        tracing::info!("{doing}");
        if let Some(news) = news {
            news.try_tell(&Doing { doing });
        }
    };
    let config = arguments.file_again(file.as_deref()).and_then(|file| {
        let config = arguments.load(file.as_deref())?;
        Ok((config, file))
    });
    let reloaded = match &config {
        Ok((config, _)) => tokio::select! {
            reloaded = node.reload(config, consent, &tell) => reloaded,
            () = signals.stop_again() => return None,
        },
        Err(error) => Err(anyhow!("{error:#}")),
    };
    if let (Ok((config, found)), true) = (config, reloaded.is_ok()) {
        log.set(&config.telemetry);
        *file = found;
    }
    let reloaded = reloaded.map(|applied| Applied {
        file: file.as_ref().map(|file| file.display().to_string()),
        ..applied
    });
    Some(reloaded.map_err(|error| {
        tracing::error!("kept the old configuration: {error:#}");
        format!("nothing was changed: {error:#}")
    }))
}

impl Arguments {
    /// The configuration file of a node that has read this one. Without a file everything would be as
    /// it is built in, which no operator means who has one: one that is gone is an error.
    fn file_again(&self, known: Option<&Path>) -> Result<Option<PathBuf>> {
        let found = self.config.file()?;
        let Some(known) = known else {
            return Ok(found);
        };
        let is_gone = known.try_exists().is_ok_and(|is_there| !is_there);
        anyhow::ensure!(
            !is_gone,
            "{}, which the node goes by, is gone; put it back, or restart the node to go on without it",
            known.display()
        );
        Ok(Some(known.to_owned()))
    }

    fn load(&self, file: Option<&Path>) -> Result<Config> {
        let mut config = self.config.load(file)?;
        if let Some(listen) = self.listen {
            config.server.listen = listen;
        }
        if let Some(listen) = self.a2a_listen {
            config.a2a.listen = listen;
            config.a2a.enabled = true;
        }
        if self.listen.is_some() || self.a2a_listen.is_some() {
            config.validate()?;
        }
        Ok(config)
    }
}

/// Beyond the time for requests, sessions have this long to write their last messages.
const BEYOND_DRAIN: Duration = Duration::from_secs(3);

struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    Stop,
    Reload,
}

impl Signals {
    fn new() -> Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> Told {
        tokio::select! {
            _ = self.interrupt.recv() => Told::Stop,
            _ = self.terminate.recv() => Told::Stop,
            _ = self.hangup.recv() => Told::Reload,
        }
    }

    async fn stop_again(&mut self) {
        while self.next().await != Told::Stop {}
    }
}

/// Each session has a connection; take as many as the system lets this process have.
fn raise_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let most = Rlimit {
        current: maximum,
        maximum,
    };
    if let Err(error) = setrlimit(Resource::Nofile, most) {
        tracing::warn!(%error, "cannot raise the number of open files");
    }
}
