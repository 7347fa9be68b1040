//! A writer that is killed in the middle of bulks and refinements loses nothing that it was told is
//! kept, and leaves nothing half done.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use store::{Component, Learning, Options, Refinement, Sample, SampleKind, Sqlite, Store};

use crate::contract::newest;
use crate::subject::{ada, folder};

/// How often the writer is killed.
const KILLS: u64 = 25;

/// Samples that are recorded at once.
const BULK: usize = 400;

const PATH: &str = "FRITH_TEST_LEARNING";

fn learning(path: &Path) -> (Store, Arc<dyn Learning>) {
    let store = Store::new(Sqlite::open(&Options::new(path)).unwrap());
    let learning = store.for_agent(&ada()).learning();
    (store, learning)
}

/// How many refinements there are, by the state; each counts one up.
fn number(bytes: Option<Vec<u8>>) -> u64 {
    let text = bytes.map(|bytes| String::from_utf8(bytes).unwrap());
    text.map_or(0, |text| text.trim_start_matches('x').parse().unwrap())
}

/// All samples there are, page by page.
fn count(learning: &dyn Learning) -> usize {
    let (mut after, mut count) = (0, 0);
    loop {
        let page = learning
            .samples(SampleKind::Experience, after, 5000)
            .wait()
            .unwrap();
        let Some((last, _)) = page.last() else {
            return count;
        };
        (after, count) = (*last, count + page.len());
    }
}

/// The writer that the test below starts and kills.
#[test]
#[ignore = "started by another test as a process of its own"]
fn writer() {
    let path = std::env::var(PATH).unwrap();
    let (_store, learning) = learning(Path::new(&path));
    let mut out = std::io::stdout().lock();
    let mut samples = count(&*learning);
    let mut refinements = number(learning.state().wait().unwrap());
    loop {
        let sample = Sample {
            kind: SampleKind::Experience,
            body: vec![b'x'; 300],
        };
        samples += BULK;
        let known = Component {
            name: "all".to_owned(),
            known: samples.to_string().into_bytes(),
        };
        learning
            .record(vec![sample; BULK], vec![known])
            .wait()
            .unwrap();
        writeln!(out, "samples {samples}").unwrap();
        let before = learning.state().wait().unwrap();
        refinements += 1;
        // Of many pages, so that there is a middle to be killed in.
        let state = format!("{}{refinements}", "x".repeat(100_000)).into_bytes();
        let refinement = Refinement {
            id: refinements.to_string(),
            entry: refinements.to_string().into_bytes(),
            state: Some(state),
            snapshot: Some(before.unwrap_or_default()),
            spends: false,
        };
        learning.refine(refinement).wait().unwrap();
        writeln!(out, "refinements {refinements}").unwrap();
    }
}

fn start(path: &Path) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([
        "learning_kill::writer",
        "--exact",
        "--ignored",
        "--nocapture",
    ]);
    command
        .env(PATH, path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

fn acknowledged(line: &str, what: &str) -> Option<usize> {
    line.split_once(what)?.1.trim().parse().ok()
}

#[test]
fn bulks_and_refinements_are_whole_or_not_there() {
    let folder = folder();
    let path = folder.path().join("store.db");
    let mut spin = 0x5eed_u64;
    for round in 0..KILLS {
        let mut child = start(&path);
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut told: Vec<String> = Vec::new();
        let wanted = usize::try_from(round % 7).unwrap();
        while told.iter().filter(|it| it.contains("samples ")).count() < wanted {
            told.push(lines.next().unwrap().unwrap());
        }
        spin = spin.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        for _ in 0..(spin >> 40) % 200_000 {
            std::hint::spin_loop();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        told.extend(lines.map_while(Result::ok));
        let last = |what: &str| told.iter().rev().find_map(|line| acknowledged(line, what));
        let (_store, learning) = learning(&path);
        let samples = count(&*learning);
        assert!(samples >= last("samples ").unwrap_or_default());
        assert_eq!(samples % BULK, 0, "half of a bulk is there");
        let known = learning.components().wait().unwrap();
        let known = known.first().map_or(0, |it| {
            String::from_utf8_lossy(&it.known).parse::<usize>().unwrap()
        });
        assert_eq!(known, samples, "samples came without what is known of them");
        let state = learning.state().wait().unwrap();
        let refinements = number(state);
        let newest = newest(&*learning, 1).into_iter().next();
        assert_eq!(
            number(newest),
            refinements,
            "a state came without its refinement"
        );
        assert!(refinements >= last("refinements ").unwrap_or_default() as u64);
        let before = learning.snapshot(&refinements.to_string()).wait().unwrap();
        let before = before.filter(|bytes| !bytes.is_empty());
        assert_eq!(number(before), refinements.saturating_sub(1));
    }
}
