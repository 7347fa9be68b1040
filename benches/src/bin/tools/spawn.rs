//! Starting `/bin/true` and waiting for its end: plainly, in our sandbox, and in bubblewrap's.

use std::error::Error;
use std::process::{Command, Stdio};

use benches::{Contestant, Effort, compare};
use sandbox::{Launcher, Profile, Settings};

const TRUE: &str = "/bin/true";

pub(crate) fn report(effort: Effort) -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    let launcher = Launcher::new(Settings::default())?;
    let (command, profile) = (sandbox::Command::new(TRUE), Profile::default());
    let ours = || {
        let exit = runtime.block_on(async {
            let mut child = launcher.spawn(&command, &profile).await?;
            Ok::<_, sandbox::Error>(child.wait().await)
        });
        assert!(exit.is_ok_and(|exit| exit.is_success()));
    };
    let plain = || run(Command::new(TRUE));
    let mut contestants = vec![
        Contestant::new("plain", plain),
        Contestant::new("sandbox", ours),
    ];
    if bubblewrap() {
        contestants.push(Contestant::new("bwrap --unshare-all", || {
            let mut command = Command::new("bwrap");
            command.args(["--unshare-all", "--ro-bind", "/", "/", TRUE]);
            run(command);
        }));
    } else {
        println!("without bubblewrap: run `apt-get install bubblewrap`");
    }
    let times = compare(&mut contestants, effort);
    let base = times.first().copied().unwrap_or_default();
    println!("start of {TRUE}, to its end");
    println!("{:22} {:>10} {:>9}", "", "ms", "to plain");
    for (contestant, time) in contestants.iter().zip(times) {
        let ratio = time / base;
        println!("{:22} {:>10.2} {ratio:>8.2}x", contestant.name, time * 1e3);
    }
    Ok(())
}

fn run(mut command: Command) {
    let status = command.stdin(Stdio::null()).status();
    assert!(status.is_ok_and(|status| status.success()));
}

fn bubblewrap() -> bool {
    let mut asked = Command::new("bwrap");
    asked.arg("--version").stdout(Stdio::null());
    asked.status().is_ok_and(|status| status.success())
}
