//! `frith completions` and `frith man`: what shells and `man` want to know of the command line.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;

use crate::Outcome;
use crate::screen::shown;

/// To try it: `source <(frith completions bash)`.
#[derive(Debug, clap::Args)]
pub(crate) struct CompletionsArguments {
    /// The shell
    shell: Shell,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ManArguments {
    /// The command to print the page of, such as `chain run`; without one, the first page
    #[arg(value_name = "COMMAND", conflicts_with = "folder")]
    words: Vec<String>,

    /// Write the pages of all commands into a folder, such as /usr/local/share/man/man1
    #[arg(long, value_name = "FOLDER")]
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

pub(crate) fn man(arguments: &ManArguments, mut command: Command) -> Result<Outcome> {
    if let Some(folder) = &arguments.folder {
        pages(command, folder)?;
        tell!("wrote a page for each command into {}", shown(folder));
        return Ok(Outcome::Good);
    }
    command.build();
    let mut page = &command;
    for word in &arguments.words {
        let Some(below) = page.find_subcommand(word) else {
            let text = format!("there is no command `{word}`; `frith help` has them all");
            return Ok(Outcome::WrongArguments(text));
        };
        page = below;
    }
    let mut text = Vec::new();
    Man::new(page.clone()).render(&mut text)?;
    write(&text)
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
