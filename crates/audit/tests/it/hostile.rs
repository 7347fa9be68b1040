//! Files that no node writes, under names that it would: whoever can write the folder can put them
//! there. They may keep a log from being opened, with a word on which it is; nothing panics, and
//! nobody waits for ever.

use std::fs;
use std::path::{Path, PathBuf};

use audit::{Error, Follower, Stats, verify_folder};
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::support::{Place, append};

fn log_of_one() -> Place {
    let place = Place::new();
    let log = place.open();
    append(&log, "one");
    log.close();
    place
}

fn pipe(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
}

/// The highest number of a log is no log's, since another one must be able to follow it.
#[test]
fn a_log_of_the_highest_number() {
    let checkpoints = |number: u64| format!("checkpoints/log-{number}-0011223344556677.jsonl");
    let place = log_of_one();
    let hostile = place.folder().join(checkpoints(u64::MAX));
    fs::write(&hostile, "").unwrap();
    let error = place.open_with(place.parts()).unwrap_err();
    assert!(matches!(error, Error::LastNumber { .. }), "{error}");
    assert!(error.to_string().contains("move it away"), "{error}");
    fs::remove_file(hostile).unwrap();
    fs::write(place.folder().join(checkpoints(u64::MAX - 1)), "").unwrap();
    place.open().close();
    let alarms = place.alarms();
    let last = format!("The log log-{}-", u64::MAX);
    assert!(
        alarms[0].contains("missing_log") && alarms[0].contains(&last),
        "{alarms:?}"
    );
}

#[test]
fn a_segment_of_the_highest_number() {
    for text in ["", "no record\n"] {
        let place = log_of_one();
        let hostile = place.segment(u64::MAX);
        fs::write(&hostile, text).unwrap();
        let error = place.open_with(place.parts()).unwrap_err();
        assert!(
            error.to_string().contains(hostile.to_str().unwrap()),
            "{error}"
        );
        assert_eq!(fs::read_to_string(&hostile).unwrap(), text);
        fs::remove_file(hostile).unwrap();
        place.open().close();
        assert_eq!(place.intact().logs, 1);
    }
    let place = log_of_one();
    fs::write(place.segment(u64::MAX - 1), "").unwrap();
    let log = place.open();
    log.rotate().wait().unwrap();
    append(&log, "in the last one");
    let error = log.rotate().wait().unwrap_err();
    assert!(matches!(error, Error::LastNumber { .. }), "{error}");
    append(&log, "the old one goes on");
    log.close();
    place.intact();
}

/// Every name that is opened, as a pipe and as a folder.
#[test]
fn what_is_no_file_is_not_waited_for() {
    let names: [fn(&Place) -> PathBuf; 4] = [
        |place| place.segment(1),
        |place| place.segment(2),
        |place| place.checkpoint_file(),
        |place| place.folder().join("lock"),
    ];
    let kinds: [fn(&Path); 2] = [pipe, |path| fs::create_dir(path).unwrap()];
    for (name, kind) in names.iter().flat_map(|name| kinds.map(|kind| (name, kind))) {
        let place = log_of_one();
        let path = name(&place);
        let _ = fs::remove_file(&path);
        kind(&path);
        let error = place.open_with(place.parts()).unwrap_err().to_string();
        // The file and the reason, once each.
        assert_eq!(error.matches(path.to_str().unwrap()).count(), 1, "{error}");
        if path.ends_with("lock") {
            continue;
        }
        let error = verify_folder(&place.folder(), &place.keys).unwrap_err();
        assert!(
            error.to_string().starts_with(path.to_str().unwrap()),
            "{error}"
        );
        assert!(Stats::of(&place.folder()).is_err());
        if path.parent() == Some(&place.folder()) {
            assert!(Follower::new(&place.folder(), 100).is_err());
        }
    }
}

/// What a purge left behind goes; a folder of such a name is none of it.
#[test]
fn a_folder_with_the_name_of_a_leftover_stays() {
    let place = log_of_one();
    let (folder, file) = (place.folder().join("x.tmp"), place.folder().join("y.tmp"));
    fs::create_dir(&folder).unwrap();
    pipe(&file);
    place.open().close();
    assert!(folder.exists() && !file.exists());
    place.intact();
}

/// An error that is shown with its causes does not say them twice.
#[test]
fn an_error_says_its_cause_once() {
    let place = log_of_one();
    fs::create_dir(place.segment(2)).unwrap();
    let error = place.open_with(place.parts()).unwrap_err();
    assert!(std::error::Error::source(&error).is_none());
    let error = verify_folder(&place.folder(), &place.keys).unwrap_err();
    assert!(std::error::Error::source(&error).is_none());
}
