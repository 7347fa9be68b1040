//! What components may open: files and folders, and nothing that they could wait for.

use std::fs;
use std::os::unix::fs::{FileTypeExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use sandbox::wasm::{Access, Component, Folder, Grant};
use tempfile::TempDir;

use super::{call, load};

/// What the component gives when it has opened something, and what for some errors of WASI.
const OPENED: &str = "00";
const EXISTS: &str = "08";
const IS_A_FOLDER: &str = "15";
const NO_ENTRY: &str = "21";
const UNSUPPORTED: &str = "28";
const NOT_PERMITTED: &str = "32";

struct Opener {
    component: Component,
    folder: TempDir,
    grant: Grant,
}

impl Opener {
    fn new(access: Access) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/components/opens.wat");
        let folder = tempfile::tempdir().unwrap();
        let grant = Grant {
            folders: vec![Folder {
                path: folder.path().to_owned(),
                seen_as: "/".into(),
                access,
            }],
            // A test that would wait for good fails.
            wall_time: Duration::from_secs(20),
            ..Grant::default()
        };
        Self {
            component: load(&fs::read_to_string(path).unwrap()).unwrap(),
            folder,
            grant,
        }
    }

    async fn asks(&self, asked: &str) -> String {
        let (answer, _) = call(&self.component, asked, &self.grant).await;
        answer.unwrap().unwrap()
    }

    fn pipe(&self, name: &str) {
        let path = self.folder.path().join(name);
        mknodat(CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
    }
}

/// To be read, to be written, to be made, to be emptied; and by a link.
const WAYS: [&str; 6] = ["o@A", "o@B", "o@C", "oAB", "oHA", "tXX"];

#[tokio::test]
async fn what_can_be_waited_for_is_not_opened() {
    let opener = Opener::new(Access::Write);
    opener.pipe("pipe");
    symlink("pipe", opener.folder.path().join("link")).unwrap();
    let _socket = UnixListener::bind(opener.folder.path().join("socket")).unwrap();
    for name in ["pipe", "link", "socket"] {
        for way in WAYS {
            let got = opener.asks(&format!("{way}{name}")).await;
            assert_eq!(got, UNSUPPORTED, "{way} {name}");
        }
    }
}

#[tokio::test]
async fn a_device_is_not_opened() {
    let mut opener = Opener::new(Access::Read);
    if !fs::metadata("/dev/null").is_ok_and(|found| found.file_type().is_char_device()) {
        eprintln!("skipped: there is no device here");
        return;
    }
    opener.grant.folders[0].path = "/dev".into();
    assert_eq!(opener.asks("o@Anull").await, UNSUPPORTED);
}

#[tokio::test]
async fn files_and_folders_are_opened_as_before() {
    let opener = Opener::new(Access::Write);
    let file = opener.folder.path().join("file");
    assert_eq!(opener.asks("o@Afile").await, NO_ENTRY);
    assert_eq!(opener.asks("oABfile").await, OPENED);
    assert_eq!(opener.asks("oEBfile").await, EXISTS);
    fs::write(&file, "text").unwrap();
    for way in ["o@A", "o@B", "o@C", "oAB"] {
        assert_eq!(opener.asks(&format!("{way}file")).await, OPENED, "{way}");
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "text");
    assert_eq!(opener.asks("oHBfile").await, OPENED);
    assert_eq!(fs::read_to_string(&file).unwrap(), "");
    fs::create_dir(opener.folder.path().join("folder")).unwrap();
    assert_eq!(opener.asks("oBAfolder").await, OPENED);
    assert_eq!(opener.asks("o@Bfolder").await, IS_A_FOLDER);
    assert_eq!(opener.asks("oBAfile").await, "25");
    assert_eq!(opener.asks("o@A../file").await, NOT_PERMITTED);
    assert_eq!(opener.asks("o@A/etc/passwd").await, NOT_PERMITTED);
    assert_eq!(opener.asks("tXXfile").await, OPENED);
    let modified = fs::metadata(&file).unwrap().modified().unwrap();
    assert_eq!(modified, UNIX_EPOCH + Duration::from_secs(1000));
}

#[tokio::test]
async fn what_may_only_be_read_is_not_changed() {
    let opener = Opener::new(Access::Read);
    fs::write(opener.folder.path().join("file"), "text").unwrap();
    assert_eq!(opener.asks("o@Afile").await, OPENED);
    for way in ["o@B", "oAB", "oHA", "tXX"] {
        assert_eq!(opener.asks(&format!("{way}file")).await, NOT_PERMITTED);
    }
}

/// While somebody puts a pipe in the place of a file and back, as fast as may be.
#[tokio::test(flavor = "multi_thread")]
async fn a_pipe_that_takes_the_place_of_a_file_is_not_opened_either() {
    const ATTEMPTS: usize = 300;
    let opener = Opener::new(Access::Write);
    opener.pipe("pipe");
    let place = |name: &str| opener.folder.path().join(name);
    fs::write(place("file"), "text").unwrap();
    let (pipe, file, name) = (place("pipe"), place("file"), place("name"));
    fs::hard_link(&file, &name).unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let ends = Arc::clone(&over);
    let swaps = std::thread::spawn(move || {
        let between = name.with_extension("next");
        while !ends.load(Ordering::Relaxed) {
            for next in [&pipe, &file] {
                fs::hard_link(next, &between).unwrap();
                fs::rename(&between, &name).unwrap();
                // Two names of one file are not renamed to each other.
                let _ = fs::remove_file(&between);
            }
        }
    });
    for _ in 0..ATTEMPTS {
        let got = opener.asks("o@Bname").await;
        assert!([OPENED, UNSUPPORTED].contains(&&*got), "{got}");
    }
    over.store(true, Ordering::Relaxed);
    swaps.join().unwrap();
}
