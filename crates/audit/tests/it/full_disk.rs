//! A log on a file system that is full, after a write has failed.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use audit::Log;
use rustix::process::{Resource, Rlimit, geteuid, getrlimit, setrlimit};

use crate::support::{Place, append, request};

const FOLDER: &str = "FRITH_TEST_FOLDER";

/// In a process of its own, with a small file system that only this process has.
#[test]
fn threat_138_a_failed_write_releases_no_reserved_space_on_a_full_disk() {
    let folder = tempfile::tempdir().unwrap();
    let script =
        "trap '' XFSZ; mount -t tmpfs -o size=4m tmpfs \"$FRITH_TEST_FOLDER\" && exec \"$@\"";
    let namespaces = if geteuid().is_root() { "-m" } else { "-Urm" };
    let mut writer = Command::new("unshare");
    writer
        .args([namespaces, "sh", "-c", script, "sh"])
        .arg(std::env::current_exe().unwrap())
        .args(["full_disk::writer", "--exact", "--ignored", "--nocapture"])
        .env(FOLDER, folder.path());
    let output = writer.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, error) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{out}{error}");
    assert!(out.contains("1 passed"), "{out}{error}");
}

#[test]
#[ignore = "started by another test in namespaces of its own"]
fn writer() {
    let folder = PathBuf::from(std::env::var_os(FOLDER).unwrap());
    let place = Place::at(folder.clone());
    let log = place.open();
    append(&log, "before");
    let permits: Vec<_> = (0..5).map(|_| log.reserve().unwrap()).collect();
    fail_once(&log, &place.segment(1));
    log.probe().wait().unwrap();
    fill(&folder.join("filler"));
    for permit in permits {
        permit.append(&request("let in")).unwrap().wait().unwrap();
    }
    // What is let in has its space; at some point nothing is let in any more.
    while let Ok(permit) = log.reserve() {
        permit.append(&request("more")).unwrap().wait().unwrap();
    }
    fs::remove_file(folder.join("filler")).unwrap();
    log.probe().wait().unwrap();
    append(&log, "after");
    log.close();
    place.intact();
    let text = place.lines().concat();
    assert_eq!(text.matches("\"let in\"").count(), 5);
    assert!(!text.contains("\"lost\"") && text.contains("\"after\""));
}

/// Has a record fail in the middle of its line.
fn fail_once(log: &Log, segment: &Path) {
    let before = getrlimit(Resource::Fsize);
    let length = fs::metadata(segment).unwrap().len();
    let limit = Rlimit {
        current: Some(length + 100),
        ..before
    };
    setrlimit(Resource::Fsize, limit).unwrap();
    let failed = log.append(&request("lost")).unwrap().wait();
    setrlimit(Resource::Fsize, before).unwrap();
    assert!(failed.is_err());
}

fn fill(path: &Path) {
    let mut file = File::create(path).unwrap();
    while file.write_all(&[0; 4096]).is_ok() {}
}
