//! The command line of benchmarks that start programs.

use std::io;
use std::path::PathBuf;

/// What is to be measured, and with what.
#[derive(Debug)]
pub struct Arguments {
    /// Only whether it runs.
    pub smoke: bool,
    /// The one transport to measure.
    pub only: Option<String>,
    /// Where reports go.
    pub out: Option<PathBuf>,
    /// What is measured.
    pub programs: Programs,
}

/// Where the programs are.
#[derive(Debug)]
pub struct Programs {
    /// Ours, and bare limits that are built with the benchmark: where the benchmark is.
    pub own: PathBuf,
    /// Bare limits, and SDKs in Rust.
    pub peers: Option<PathBuf>,
    /// SDKs in Python: an interpreter, and the script or the folder of scripts.
    pub python: Option<(PathBuf, PathBuf)>,
}

impl Arguments {
    /// Those of this process.
    ///
    /// # Errors
    /// If they are wrong, or our program is not where it should be.
    pub fn read(name: &str) -> io::Result<Self> {
        let program = std::env::current_exe()?;
        let folder = program.parent().map(PathBuf::from).unwrap_or_default();
        let mut arguments = Self {
            smoke: false,
            programs: Programs {
                own: folder,
                peers: None,
                python: None,
            },
            only: None,
            out: None,
        };
        let mut words = std::env::args().skip(1);
        let wrong = || {
            io::Error::other(format!(
                "usage: {name} [--smoke] [--only TRANSPORT] [--out FOLDER] [--peers FOLDER] [--python PROGRAM SCRIPTS]"
            ))
        };
        while let Some(word) = words.next() {
            let mut next = || words.next().ok_or_else(wrong);
            match word.as_str() {
                "--smoke" => arguments.smoke = true,
                "--only" => arguments.only = Some(next()?),
                "--out" => arguments.out = Some(next()?.into()),
                "--peers" => arguments.programs.peers = Some(next()?.into()),
                "--python" => arguments.programs.python = Some((next()?.into(), next()?.into())),
                _ => return Err(wrong()),
            }
        }
        if !arguments.programs.own.join("frith").exists() {
            let folder = arguments.programs.own.display();
            return Err(io::Error::other(format!(
                "there is no frith in {folder}; run `cargo build --package frith` in the same profile"
            )));
        }
        Ok(arguments)
    }
}
