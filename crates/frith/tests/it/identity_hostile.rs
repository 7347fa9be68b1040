//! `frith id` and `manifest` with files that mean harm, or were meant well.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Stdio;

use serde_json::json;

use crate::identity::{User, outcome};

/// Threat 137, on the screen: nothing that a manifest or a file name says reaches the terminal raw.
#[test]
fn threat_137_nothing_from_elsewhere_steers_the_terminal() {
    let user = User::new();
    user.ok(&["id", "new"]);
    user.ok(&["manifest", "init"]);
    let mut manifest = user.read("agent-manifest.json");
    let hostile = "\u{1b}]0;owned\u{7}\u{9b}2J\u{202e}\r";
    manifest["endpoints"][0]["type"] = json!(hostile);
    manifest["capabilities"] = json!([hostile]);
    manifest["public_keys"][0]["status"] = json!(hostile);
    let name = "\u{1b}[31mm\nx.json: valid";
    user.write(name, &manifest);
    let mut foreign = manifest.clone();
    foreign["agent_did"] = json!("did:web:\u{1b}[31m");
    user.write("foreign.json", &foreign);
    for arguments in [
        ["manifest", "show", name],
        ["manifest", "verify", name],
        ["manifest", "show", "foreign.json"],
        ["manifest", "sign", "foreign.json"],
        ["manifest", "verify", "missing\u{1b}.json"],
        ["resolve", name, "--json"],
        ["endorse", name, "--json"],
    ] {
        let (_, out, error) = user.run(&arguments);
        let both = out + &error;
        let raw = |letter: char| letter.is_control() && letter != '\n' || letter == '\u{202e}';
        assert!(!both.contains(raw), "{arguments:?}: {both:?}");
        assert!(!both.contains("\nx.json"), "{arguments:?}: {both:?}");
    }
}

/// What is too long is not read to its end.
#[test]
fn endless_files_are_refused() {
    let user = User::new();
    user.ok(&["id", "new"]);
    for (arguments, why) in [
        (
            vec!["manifest", "verify", "/dev/zero"],
            "more than the limit",
        ),
        (vec!["manifest", "show", "/dev/zero"], "more than the limit"),
        (vec!["resolve", "/dev/zero"], "more than the limit"),
        (vec!["endorse", "/dev/zero"], "more than the limit"),
        (
            vec!["id", "import", "/dev/zero", "other"],
            "it is no key and no passphrase",
        ),
    ] {
        let (status, out, error) = user.run(&arguments);
        assert_eq!(status, 1, "{arguments:?}");
        assert!((out + &error).contains(why), "{arguments:?}");
    }
}

/// A file that stands where ours is to be written for a moment is not written through.
#[test]
fn a_link_in_the_way_is_not_followed() {
    let user = User::new();
    user.ok(&["id", "new"]);
    fs::write(user.path("precious"), "precious").unwrap();
    let mut command = user.command(&["manifest", "init"]);
    let script = "ln -s precious agent-manifest.json.$$.tmp && exec \"$0\" \"$@\"";
    let mut shell = std::process::Command::new("sh");
    shell
        .args(["-c", script])
        .arg(command.get_program())
        .args(command.get_args())
        .current_dir(user.path(""))
        .env("FRITH_DATA", user.path("data"));
    assert_eq!(outcome(&mut shell).0, 0);
    assert_eq!(
        fs::read_to_string(user.path("precious")).unwrap(),
        "precious"
    );
    assert_eq!(outcome(command.arg("--force")).0, 0);
}

#[test]
fn an_encrypted_key_is_followed_by_encrypted_keys() {
    let user = User::new();
    fs::write(user.path("pass"), "correct horse\n").unwrap();
    let pass = ["--passphrase-file", "pass"];
    user.ok(&[["id", "new", "--encrypt"].as_slice(), &pass].concat());
    let (status, _, error) = user.run(&["id", "rotate"]);
    assert_eq!(status, 1);
    assert!(error.contains("--passphrase-file FILE"), "{error}");
    user.ok(&[["id", "rotate"].as_slice(), &pass].concat());
    let folder = user.path("data/identity/default");
    let secrets = fs::read_dir(&folder).unwrap().flatten();
    let secrets: Vec<String> = secrets
        .filter(|file| file.path().extension().is_some_and(|end| end == "pem"))
        .map(|file| fs::read_to_string(file.path()).unwrap())
        .collect();
    assert_eq!(secrets.len(), 2);
    assert!(secrets.iter().all(|text| text.contains("ENCRYPTED")));
    // Nor does moving it to another place open it.
    fs::write(user.path("moved.pem"), &secrets[0]).unwrap();
    user.ok(&[["id", "import", "moved.pem", "moved"].as_slice(), &pass].concat());
    let kid = user.json(&["id", "show", "moved"])["keys"][0]["kid"].clone();
    let secret = user.ok(&["id", "export", "moved", "--secret", kid.as_str().unwrap()]);
    assert!(secret.contains("ENCRYPTED"));
    fs::write(user.path("empty"), "\n").unwrap();
    let empty = ["id", "new", "x", "--encrypt", "--passphrase-file", "empty"];
    let (status, _, error) = user.run(&empty);
    assert_eq!((status, error.contains("is empty")), (1, true), "{error}");
}

#[test]
fn damaged_secrets_are_named() {
    let user = User::new();
    user.ok(&["id", "new"]);
    let kid = user.json(&["id", "show"])["keys"][0]["kid"].clone();
    let file = user.path(&format!(
        "data/identity/default/{}.pem",
        kid.as_str().unwrap()
    ));
    let whole = fs::read_to_string(&file).unwrap();
    let cut = whole.lines().take(1).collect::<String>();
    let short = whole.replace("MC4CAQAw", "MC4CAQ");
    for (text, why) in [
        (cut.as_str(), "not a private key in PEM"),
        (short.as_str(), "not a private key in PEM"),
        ("", "not a private key in PEM"),
    ] {
        fs::write(&file, text).unwrap();
        let (status, _, error) = user.run(&["manifest", "init"]);
        assert_eq!(status, 1);
        assert!(error.contains(why), "{error}");
        assert!(error.contains(".pem"), "{error}");
    }
    // A link is as good as what it leads to.
    let elsewhere = user.path("elsewhere.pem");
    fs::write(&elsewhere, &whole).unwrap();
    fs::remove_file(&file).unwrap();
    symlink(&elsewhere, &file).unwrap();
    fs::set_permissions(&elsewhere, fs::Permissions::from_mode(0o644)).unwrap();
    let (status, _, error) = user.run(&["manifest", "init"]);
    assert_eq!((status, error.contains("chmod 600")), (1, true), "{error}");
    fs::set_permissions(&elsewhere, fs::Permissions::from_mode(0o600)).unwrap();
    user.ok(&["manifest", "init"]);
}

/// A copy kept beside the identities does not stand in the way of `list`.
#[test]
fn a_copy_is_no_identity() {
    let user = User::new();
    user.ok(&["id", "new"]);
    let folder = user.path("data/identity");
    fs::create_dir(folder.join("default.bak")).unwrap();
    let record = folder.join("default/identity.json");
    fs::copy(record, folder.join("default.bak/identity.json")).unwrap();
    let listed = user.json(&["id", "list"]);
    assert_eq!(listed.as_array().unwrap().len(), 1);
}

/// Of many that rotate at once one does, and its secret is the one on record.
#[test]
fn rotations_at_once_are_one() {
    let user = User::new();
    user.ok(&["id", "new"]);
    let children: Vec<_> = (0..8)
        .map(|_| {
            let mut command = user.command(&["id", "rotate"]);
            command.stdout(Stdio::null()).stderr(Stdio::null());
            command.spawn().unwrap()
        })
        .collect();
    let done = children
        .into_iter()
        .map(|mut child| child.wait().unwrap().success());
    assert_eq!(done.filter(|done| *done).count(), 1);
    let keys = user.json(&["id", "show"])["keys"].clone();
    assert_eq!(keys.as_array().unwrap().len(), 2);
    let kid = keys[1]["kid"].as_str().unwrap();
    let secret = user.ok(&["id", "export", "--secret", kid]);
    fs::write(user.path("new.pem"), secret).unwrap();
    let same = user.json(&["id", "import", "new.pem", "same"]);
    assert_eq!(same["keys"][0]["key"], keys[1]["key"]);
}
