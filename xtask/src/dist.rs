//! `cargo xtask dist`: the program and all that belongs to it in one archive, and its size.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::step::{RELEASE, cargo, show, workspace};

/// Files of the repository that go along, and where they lie in the archive.
const FILES: [(&str, &str); 5] = [
    ("README.md", "README.md"),
    ("LICENSE-APACHE", "LICENSE-APACHE"),
    ("LICENSE-MIT", "LICENSE-MIT"),
    (
        "docs/frith.sample.yaml",
        "share/doc/frith/frith.sample.yaml",
    ),
    ("docs/frith.service", "lib/systemd/system/frith.service"),
];

/// What shells read, by where they look for it.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "share/bash-completion/completions/frith"),
    ("fish", "share/fish/vendor_completions.d/frith.fish"),
    ("zsh", "share/zsh/site-functions/_frith"),
];

/// What every glibc system has. A static program would need none of it, and crashes where names are
/// looked up by modules of another glibc (docs/decisions.md).
const LIBRARIES: [&str; 5] = [
    "ld-linux-aarch64.so.1",
    "ld-linux-x86-64.so.2",
    "libc.so.6",
    "libgcc_s.so.1",
    "libm.so.6",
];

/// The largest archive that is released, in bytes.
const MAX_ARCHIVE: u64 = 25 << 20;

/// What is done with an archive in a namespace that has nothing else.
const FIRST_CALL: &str = "sh /dist/install.sh && .local/bin/frith call echo '{\"text\": \"hi\"}'";

/// An archive.
pub(crate) struct Packed {
    program: PathBuf,
    archive: PathBuf,
}

/// Packs a program, or the release build, and tries the archive.
pub(crate) fn run(words: &[&str]) -> Result<(), String> {
    let packed = match words {
        [] => release()?,
        [program] => pack(Path::new(program))?,
        _ => return Err("usage: cargo xtask dist [PROGRAM]".to_owned()),
    };
    for file in [&packed.program, &packed.archive] {
        println!("{:>10.1} MiB  {}", mebibytes(size(file)?), file.display());
    }
    println!("needs {} or newer", needed(&packed.program)?);
    Ok(())
}

/// Builds and packs what is released: it is small enough, and packed again it is the same.
pub(crate) fn release() -> Result<Packed, String> {
    show(&mut cargo(RELEASE))?;
    let program = workspace().join("target/release/frith");
    let first = pack(&program)?;
    let bytes = read(&first.archive)?;
    let second = pack(&program)?;
    if read(&second.archive)? != bytes {
        return Err("the same program was packed into two different archives".to_owned());
    }
    match size(&second.archive)? {
        ..=MAX_ARCHIVE => Ok(second),
        size => Err(format!(
            "the archive has {:.1} MiB, more than 25",
            mebibytes(size)
        )),
    }
}

/// Packs the program that the tests have built, and tries the archive.
pub(crate) fn debug() -> Result<(), String> {
    pack(&workspace().join("target/debug/frith")).map(drop)
}

/// Makes an archive of a program, and tries it.
fn pack(program: &Path) -> Result<Packed, String> {
    needed(program)?;
    let version = said(Command::new(program).arg("--version"))?;
    let version = version.trim().replace(' ', "-");
    let name = format!("{version}-{}-linux", std::env::consts::ARCH);
    let dist = workspace().join("target/dist");
    let _ = fs::remove_dir_all(&dist);
    let folder = dist.join(&name);
    gather(program, &folder)?;
    let archive = format!("{name}.tar.gz");
    // The same files give the same archive, whoever packs them and when.
    let tar = "--sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 --mode=u=rwX,go=rX";
    said(
        Command::new("tar")
            .args(tar.split(' '))
            .arg("--use-compress-program=gzip -n")
            .args(["-cf", &archive, &name])
            .current_dir(&dist),
    )?;
    let sums = said(Command::new("sha256sum").arg(&archive).current_dir(&dist))?;
    write(&dist.join("SHA256SUMS"), sums.as_bytes())?;
    let script = read(&workspace().join("install.sh"))?;
    write(&dist.join("install.sh"), &script)?;
    let program = folder.join("bin/frith");
    looks_up_names(&program)?;
    try_out(&dist)?;
    refuses_another(&dist, &archive)?;
    Ok(Packed {
        program,
        archive: dist.join(archive),
    })
}

/// The glibc that the program needs; that it needs nothing else is checked.
fn needed(program: &Path) -> Result<String, String> {
    let headers = said(Command::new("objdump").arg("-p").arg(program))?;
    for line in headers.lines() {
        let mut words = line.split_whitespace();
        if let (Some("NEEDED"), Some(library)) = (words.next(), words.next())
            && !LIBRARIES.contains(&library)
        {
            return Err(format!(
                "{} needs {library}, which not every machine has",
                program.display()
            ));
        }
    }
    let newest = newest_glibc(&headers)?;
    let numbers: Vec<String> = newest.iter().map(u32::to_string).collect();
    Ok(format!("glibc {}", numbers.join(".")))
}

/// The newest version that is asked for.
fn newest_glibc(headers: &str) -> Result<Vec<u32>, String> {
    // Packed relocations are asked for by their name.
    let headers = headers.replace("GLIBC_ABI_DT_RELR", "GLIBC_2.36");
    if let Some((_, name)) = headers.split_once("GLIBC_ABI_") {
        let name = name.split_whitespace().next().unwrap_or_default();
        return Err(format!("which glibc has GLIBC_ABI_{name} is not known"));
    }
    let versions = headers.split("GLIBC_").skip(1).filter_map(|rest| {
        let is_number = |letter: char| letter.is_ascii_digit() || letter == '.';
        let end = rest.find(|letter| !is_number(letter)).unwrap_or(rest.len());
        let numbers = rest.get(..end)?.split('.').map(str::parse);
        numbers.collect::<Result<Vec<u32>, _>>().ok()
    });
    let newest = versions.max();
    newest.ok_or_else(|| "the program names no glibc".to_owned())
}

/// Puts everything where it belongs.
fn gather(program: &Path, folder: &Path) -> Result<(), String> {
    let put = |name: &str, bytes: &[u8]| write(&folder.join(name), bytes);
    for (from, to) in FILES {
        put(to, &read(&workspace().join(from))?)?;
    }
    for (shell, to) in COMPLETIONS {
        let text = said(Command::new(program).args(["completions", shell]))?;
        put(to, text.as_bytes())?;
    }
    let pages = folder.join("share/man/man1");
    said(Command::new(program).args(["man", "--folder"]).arg(&pages))?;
    put("bin/frith", &[])?;
    let to = folder.join("bin/frith");
    // Names of functions stay, for reports of crashes; what debuggers want does not.
    show(
        Command::new("strip")
            .arg("--strip-debug")
            .arg("-o")
            .arg(&to)
            .arg(program),
    )
}

/// Installs the archive where nothing else is, and calls a tool.
fn try_out(dist: &Path) -> Result<(), String> {
    let root = dist.join("root");
    fs::create_dir(&root).map_err(|error| cannot(&root, &error))?;
    let clean = workspace().join("xtask/src/dist/clean.sh");
    let start = Instant::now();
    let unshare = "--user --map-root-user --mount --net --pid --fork sh";
    let found = said(
        Command::new("unshare")
            .args(unshare.split(' '))
            .arg(clean)
            .args([dist, &root])
            .arg(FIRST_CALL),
    )?;
    fs::remove_dir(&root).map_err(|error| cannot(&root, &error))?;
    match found.contains("\"text\": \"hi\"") {
        true => println!(
            "the first result after {:.1} s",
            start.elapsed().as_secs_f64()
        ),
        false => return Err(format!("the installed program answered {found}")),
    }
    Ok(())
}

/// An archive that is not the one in the list is not installed.
fn refuses_another(dist: &Path, archive: &str) -> Result<(), String> {
    let other = dist.join("other");
    let made = fs::create_dir(&other);
    made.map_err(|error| cannot(&other, &error))?;
    write(&other.join("SHA256SUMS"), &read(&dist.join("SHA256SUMS"))?)?;
    write(&other.join(archive), b"another")?;
    let mut install = Command::new("sh");
    install
        .arg(dist.join("install.sh"))
        .arg("--from")
        .arg(&other);
    install.arg("--prefix").arg(other.join("prefix"));
    let refused = said(&mut install);
    let is_there = other.join("prefix").exists();
    fs::remove_dir_all(&other).map_err(|error| cannot(&other, &error))?;
    match refused {
        Err(why) if why.contains("nothing was installed") && !is_there => Ok(()),
        other => Err(format!("an archive that was changed: {other:?}")),
    }
}

/// Looking a name up is where a program that is linked in another way would crash, or find nothing. Nobody
/// answers at the port, and that is found out only by who knows the address.
fn looks_up_names(program: &Path) -> Result<(), String> {
    let mut ping = Command::new(program);
    ping.args(["ping", "--host", "http://localhost:1"]);
    let output = ping
        .output()
        .map_err(|error| format!("{ping:?}: {error}"))?;
    let text = String::from_utf8_lossy(&output.stderr);
    match output.status.code() {
        Some(1) if text.contains("onnection refused") => Ok(()),
        code => Err(format!("{ping:?} ended with {code:?}: {text}")),
    }
}

/// What a command prints.
fn said(command: &mut Command) -> Result<String, String> {
    let output = command.output();
    let output = output.map_err(|error| format!("{command:?}: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!(
            "{command:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        )),
    }
}

fn read(file: &Path) -> Result<Vec<u8>, String> {
    fs::read(file).map_err(|error| cannot(file, &error))
}

/// Writes a file, in a folder that is made if there is none.
fn write(file: &Path, bytes: &[u8]) -> Result<(), String> {
    let made = file.parent().map_or(Ok(()), fs::create_dir_all);
    made.and_then(|()| fs::write(file, bytes))
        .map_err(|error| cannot(file, &error))
}

fn size(file: &Path) -> Result<u64, String> {
    let metadata = fs::metadata(file).map_err(|error| cannot(file, &error))?;
    Ok(metadata.len())
}

fn cannot(file: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", file.display())
}

#[expect(clippy::cast_precision_loss, reason = "it is shown with one digit")]
fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_is_found_by_number() {
        let table = "0x1 0x00 09 GLIBC_2.9\n0x2 0x00 05 GLIBC_2.34\n0x3 0x00 06 GLIBC_PRIVATE\n";
        assert_eq!(newest_glibc(table), Ok(vec![2, 34]));
        let packed = format!("{table}0x4 0x00 07 GLIBC_ABI_DT_RELR\n");
        assert_eq!(newest_glibc(&packed), Ok(vec![2, 36]));
        assert!(newest_glibc("").is_err());
        assert!(newest_glibc(&packed.replace("RELR", "OTHER")).is_err());
    }
}
