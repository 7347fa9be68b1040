//! Attempts on files.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Outcome, all, must_fail, number, text};

/// Reading these files or folders.
pub(super) fn read(paths: &[OsString]) -> Outcome {
    all(paths.iter().map(|path| {
        let path = Path::new(path);
        must_fail(
            format!("reading {}", path.display()),
            match path.is_dir() {
                true => fs::read_dir(path).and_then(|mut all| match all.next() {
                    None => Err(std::io::Error::other("it is empty")),
                    Some(entry) => entry.map(drop),
                }),
                false => File::open(path).and_then(|mut file| match file.read(&mut [0])? {
                    0 => Err(std::io::Error::other("it is empty")),
                    _ => Ok(()),
                }),
            },
        )
    }))
}

/// Making or changing these files.
pub(super) fn write(paths: &[OsString]) -> Outcome {
    all(paths.iter().map(|path| {
        let path = Path::new(path);
        must_fail(
            format!("writing {}", path.display()),
            OpenOptions::new().append(true).create(true).open(path),
        )
    }))
}

/// In a folder that may be written (first argument), a name that is by turns a file and a link to
/// what must not be read (second argument), read all the while.
pub(super) fn swap_links(arguments: &[OsString]) -> Outcome {
    const TURNS: usize = 2000;
    let folder = Path::new(text(arguments, 0));
    let secret = Path::new(text(arguments, 1));
    let name = folder.join("swapped");
    let (file, link) = (folder.join("file"), folder.join("link"));
    let stop = AtomicBool::new(false);
    let swap = || {
        while !stop.load(Ordering::Relaxed) {
            let _ = fs::write(&file, "mine").and_then(|()| fs::rename(&file, &name));
            let _ = symlink(secret, &link).and_then(|()| fs::rename(&link, &name));
        }
    };
    let look = || {
        let mut opened = 0_usize;
        for _ in 0..TURNS {
            let mut text = String::new();
            let got = File::open(&name).and_then(|mut file| file.read_to_string(&mut text));
            if got.is_ok() {
                opened = opened.saturating_add(1);
            }
            if !text.is_empty() && text != "mine" {
                return Outcome::Broken(format!("read {} over a link", secret.display()));
            }
        }
        Outcome::Held(format!(
            "{opened} of {TURNS} reads saw the file, none the link's end"
        ))
    };
    std::thread::scope(|scope| {
        let swapper = scope.spawn(swap);
        let outcome = look();
        stop.store(true, Ordering::Relaxed);
        match swapper.join() {
            Ok(()) => outcome,
            Err(_) => Outcome::Broken("the swapping thread failed".into()),
        }
    })
}

/// Writing more than so many bytes (second argument) into a folder (first argument), in files of a
/// megabyte.
pub(super) fn fill(arguments: &[OsString]) -> Outcome {
    let folder = Path::new(text(arguments, 0));
    let most = number(arguments, 1);
    let chunk = vec![1; 1 << 20];
    let mut written = 0_u64;
    for index in 0_u64.. {
        let file = folder.join(format!("fill-{index}"));
        if let Err(why) = File::create(file).and_then(|mut file| file.write_all(&chunk)) {
            return Outcome::Held(format!("{written} bytes written, then: {why}"));
        }
        written = written.saturating_add(1 << 20);
        if written > most {
            break;
        }
    }
    Outcome::Broken(format!("{written} bytes written into {}", folder.display()))
}

/// Writing to a mount: all are read-only but devices, `/proc`, `/tmp` and these.
pub(super) fn mounts(writable: &[OsString]) -> Outcome {
    let Ok(mounts) = fs::read_to_string("/proc/self/mountinfo") else {
        return Outcome::Broken("there is no /proc".into());
    };
    let is_own = |path: &Path| {
        path == Path::new("/tmp") || path.starts_with("/dev") || path.starts_with("/proc")
    };
    for line in mounts.lines() {
        let mut fields = line.split(' ').skip(3);
        let mut field = || fields.next().unwrap_or_default();
        let (root, path, options) = (field(), Path::new(field()), field());
        // What is hidden is covered with the device that is always empty.
        let may_be_written = is_own(path)
            || root == "/null"
            || writable.iter().any(|folder| path.starts_with(folder));
        if !may_be_written && !options.split(',').any(|option| option == "ro") {
            return Outcome::Broken(format!("{} is mounted writable", path.display()));
        }
    }
    let count = mounts.lines().count();
    Outcome::Held(format!("of {count} mounts only these are writable"))
}

/// Opening more than so many files.
pub(super) fn open_files(arguments: &[OsString]) -> Outcome {
    let most = number(arguments, 0);
    let mut open = Vec::new();
    for count in 0..=most {
        match File::open("/dev/null") {
            Ok(file) => open.push(file),
            Err(why) => return Outcome::Held(format!("{count} opened, then: {why}")),
        }
    }
    Outcome::Broken(format!("{} files are open", open.len()))
}

/// Having a descriptor that nobody gave.
pub(super) fn descriptors(_: &[OsString]) -> Outcome {
    let Ok(entries) = fs::read_dir("/proc/self/fd") else {
        return Outcome::Broken("there is no /proc".into());
    };
    let numbers = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    // The folder being read has the next number.
    match numbers.filter(|number| *number > 3).min() {
        Some(number) => Outcome::Broken(format!("descriptor {number} is open")),
        None => Outcome::Held("only standard input, output and error are open".into()),
    }
}
