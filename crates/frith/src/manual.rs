//! `frith completions` and `frith man`: what shells and `man` want to know of the command line.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;

use crate::Outcome;

/// To try it: `source <(frith completions bash)`.
#[derive(Debug, clap::Args)]
pub(crate) struct CompletionsArguments {
    /// The shell
    shell: Shell,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ManArguments {
    /// A folder that gets a page for each command, such as /usr/local/share/man/man1; without it, the
    /// first page is printed
    #[arg(value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

pub(crate) fn completions(
    arguments: &CompletionsArguments,
    mut command: Command,
) -> Result<Outcome> {
    let name = command.get_name().to_owned();
    let mut text = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, name, &mut text);
    write(&text)
}

pub(crate) fn man(arguments: &ManArguments, command: Command) -> Result<Outcome> {
    let Some(folder) = &arguments.folder else {
        let mut text = Vec::new();
        Man::new(command).render(&mut text)?;
        return write(&text);
    };
    pages(command, folder)?;
    Ok(Outcome::Good)
}

fn pages(command: Command, folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(command, folder))
        .with_context(|| format!("cannot write the pages into {}", folder.display()))
}

fn write(text: &[u8]) -> Result<Outcome> {
    std::io::stdout().lock().write_all(text)?;
    Ok(Outcome::Good)
}
