//! A file system in an image file: what of it survives a power cut, and how it is full.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A mounted file system. Nothing of it is written to its image before somebody asks for that: neither by
/// the journal of the file system nor, within half a minute, by the kernel.
pub(super) struct Disk {
    image: PathBuf,
    mount_point: PathBuf,
}

/// The size of an image.
const SIZE: u64 = 64 << 20;

impl Disk {
    /// Makes a file system and mounts it, for its owner alone.
    pub(super) fn mount(folder: &Path, mount_point: &Path) -> Self {
        let disk = Self {
            image: folder.join("disk.img"),
            mount_point: mount_point.to_owned(),
        };
        fs::File::create(&disk.image)
            .unwrap()
            .set_len(SIZE)
            .unwrap();
        run(Command::new("mkfs.ext4").arg("-q").arg(&disk.image));
        fs::create_dir(mount_point).unwrap();
        disk.attach();
        fs::remove_dir(mount_point.join("lost+found")).unwrap();
        let mode = fs::Permissions::from_mode(0o700);
        fs::set_permissions(mount_point, mode).unwrap();
        run(Command::new("sync").arg("--file-system").arg(mount_point));
        disk
    }

    fn attach(&self) {
        let options = "loop,noatime,commit=3600";
        let mut mount = Command::new("mount");
        mount.args(["-o", options]).arg(&self.image);
        run(mount.arg(&self.mount_point));
    }

    fn detach(&self) {
        // A sandbox may still have it.
        run(Command::new("umount").arg("--lazy").arg(&self.mount_point));
    }

    /// A copy of the image as it is: what was synced, and nothing else. No process may write meanwhile.
    pub(super) fn found_after_power_cut(&self) -> PathBuf {
        let copy = self.image.with_extension("copy");
        loop {
            let mut cp = Command::new("cp");
            cp.args(["--sparse=always", "--reflink=never"]);
            run(cp.arg(&self.image).arg(&copy));
            // A sync may have been under way.
            let mut compare = Command::new("cmp");
            compare.arg("--silent").arg(&self.image).arg(&copy);
            if compare.status().unwrap().success() {
                return copy;
            }
        }
    }

    /// Whether this text was written to the image.
    pub(super) fn has(&self, text: &str) -> bool {
        let mut grep = Command::new("grep");
        grep.args(["--quiet", "--text", "--fixed-strings", text]);
        grep.arg(&self.image).status().unwrap().success()
    }

    /// Fills it.
    pub(super) fn fill(&self) {
        let mut file = fs::File::create(self.filler()).unwrap();
        let block = vec![0; 1 << 16];
        let mut size = block.len();
        // Whole blocks, and then what is left.
        while size > 0 {
            match file.write(&block[..size]) {
                Ok(written) if written > 0 => {}
                Ok(_) | Err(_) => size /= 2,
            }
        }
    }

    /// Gives back what it was filled with.
    pub(super) fn free(&self) {
        fs::remove_file(self.filler()).unwrap();
    }

    fn filler(&self) -> PathBuf {
        self.mount_point.join("filler")
    }

    /// Goes on with another image.
    pub(super) fn replace(&self, image: &Path) {
        self.detach();
        fs::remove_file(&self.image).unwrap();
        fs::rename(image, &self.image).unwrap();
        self.attach();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.detach();
    }
}

/// Runs a program of the system.
pub(super) fn run(command: &mut Command) {
    let output = command.output();
    let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    let hint = "these tests mount file systems, as root";
    assert!(output.status.success(), "{command:?}: {error} ({hint})");
}

#[test]
fn only_what_was_synced_survives_a_power_cut() {
    let folder = tempfile::tempdir().unwrap();
    let mount_point = folder.path().join("mnt");
    let disk = Disk::mount(folder.path(), &mount_point);
    let write = |name: &str| fs::write(mount_point.join(name), name).unwrap();
    write("synced");
    let file = fs::File::open(mount_point.join("synced")).unwrap();
    file.sync_all().unwrap();
    write("written");
    let found = disk.found_after_power_cut();
    disk.replace(&found);
    assert_eq!(fs::read(mount_point.join("synced")).unwrap(), b"synced");
    assert!(!mount_point.join("written").exists());
}
