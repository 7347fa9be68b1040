//! `frith learn export`: samples of the agent, page by page, as what models are trained with.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use a2e_caps::learning::export::{Pairs, lived, rated};
use a2e_runtime::Client;
use a2e_wire::messages::learn::{LearnSampleKind, LearnSamplesRequest};
use anyhow::{Context, Result};
use serde_json::Value;

use super::Format;
use crate::screen::{count, shown};

/// Where lines go, and how many went there.
struct Lines {
    out: Box<dyn Write>,
    count: u64,
}

pub(super) async fn run(client: &Client, format: Format, output: Option<&Path>) -> Result<()> {
    let out: Box<dyn Write> = match output {
        Some(path) => {
            let file = File::create_new(path);
            let file = file.with_context(|| format!("cannot write {}", shown(path)))?;
            Box::new(BufWriter::new(file))
        }
        None => Box::new(BufWriter::new(std::io::stdout())),
    };
    let mut lines = Lines { out, count: 0 };
    match format {
        Format::Dpo => {
            let mut pairs = Pairs::default();
            each(client, LearnSampleKind::Feedback, |it| {
                lines.write(pairs.add(it))
            })
            .await?;
            pairs
                .finish()
                .try_for_each(|pair| lines.write(Some(pair)))?;
        }
        Format::Reward => {
            each(client, LearnSampleKind::Feedback, |it| {
                lines.write(rated(it))
            })
            .await?;
            each(client, LearnSampleKind::Experience, |it| {
                lines.write(lived(it))
            })
            .await?;
        }
    }
    lines.out.flush()?;
    if let Some(path) = output {
        let samples = count(lines.count, "sample", "samples");
        tell!("wrote {samples} to {}", shown(path));
    }
    Ok(())
}

/// Calls a function with every sample of a kind.
async fn each(
    client: &Client,
    kind: LearnSampleKind<'static>,
    mut take: impl FnMut(&Value) -> Result<()>,
) -> Result<()> {
    let mut after = 0;
    loop {
        let request = LearnSamplesRequest {
            after,
            ..LearnSamplesRequest::new(kind.clone())
        };
        let page = client.request(request).await;
        let page = page.context("cannot read the samples")?;
        for sample in &page.samples {
            take(&sample.raw().deserialize()?)?;
        }
        match page.next {
            Some(next) => after = next,
            None => return Ok(()),
        }
    }
}

impl Lines {
    fn write(&mut self, sample: Option<Value>) -> Result<()> {
        if let Some(sample) = sample {
            writeln!(self.out, "{sample}")?;
            self.count += 1;
        }
        Ok(())
    }
}
