use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::data_dir::DataDir;

fn claim() -> (tempfile::TempDir, Claim) {
    let folder = tempfile::tempdir().unwrap();
    let claim = DataDir::new(folder.path().join("data")).claim().unwrap();
    (folder, claim)
}

fn open(claim: &Claim) -> TokenStore {
    TokenStore::open(claim, None).unwrap()
}

fn agent(store: &TokenStore, token: &str) -> Option<String> {
    store.current().agent_of(token)
}

fn text(path: PathBuf) -> String {
    fs::read_to_string(path).unwrap()
}

#[test]
fn the_first_start_makes_a_token_and_the_next_uses_it() {
    let (_folder, claim) = claim();
    let store = open(&claim);
    let line = text(claim.dir().token());
    let token = line.trim();
    assert!(
        token.starts_with("frith_") && token.len() == 6 + 43,
        "{token}"
    );
    assert_eq!(agent(&store, token).as_deref(), Some("default"));
    let again = open(&claim);
    assert_eq!(agent(&again, token).as_deref(), Some("default"));
    assert_eq!(text(claim.dir().token()), line);
    for wrong in ["", "frith_", &token[1..], &format!("{token} ")] {
        assert_eq!(agent(&store, wrong), None, "{wrong}");
    }
}

#[test]
fn a_token_is_shown_once_and_outlives_the_process() {
    let (_folder, claim) = claim();
    let store = open(&claim);
    let one = store.create("ada", "laptop").unwrap();
    let two = store.create("ada", "").unwrap();
    let other = store.create("did:key:z6Mk", "").unwrap();
    let made = [&one, &two, &other].map(|new| new.token.reveal().to_owned());
    let kept = text(claim.dir().agents());
    let shown = format!("{kept}{store:?}{one:?}{:?}", store.list());
    assert!(made.iter().all(|token| !shown.contains(token)));
    assert!(!format!("{:?}", store.list()).contains("sha256"));
    let mode = fs::metadata(claim.dir().agents())
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    for store in [&store, &open(&claim)] {
        let names = made.each_ref().map(|token| agent(store, token).unwrap());
        assert_eq!(names, ["ada", "ada", "did:key:z6Mk"]);
        let list = store.list();
        assert_eq!(list.len(), 4);
        assert_eq!(
            (list[1].id.as_str(), list[1].label.as_str()),
            (one.id.as_str(), "laptop")
        );
        assert!(list.iter().all(|info| info.created.is_some()));
    }
}

#[test]
fn revoked_tokens_are_good_no_longer() {
    let (_folder, claim) = claim();
    let store = open(&claim);
    let [one, two, other] = ["ada", "ada", "bob"].map(|name| store.create(name, "").unwrap());
    let revoked = store.revoke(&one.id).unwrap();
    assert_eq!((revoked.ids, revoked.renewed), (vec![one.id], None));
    assert_eq!(agent(&store, one.token.reveal()), None);
    assert!(agent(&store, two.token.reveal()).is_some());
    store.create("ada", "").unwrap();
    assert_eq!(store.revoke("ada").unwrap().ids.len(), 2);
    for store in [&store, &open(&claim)] {
        assert_eq!(agent(store, two.token.reveal()), None);
        assert!(agent(store, other.token.reveal()).is_some());
    }
    for unknown in ["ada", "tok_none", ""] {
        let error = store.revoke(unknown).unwrap_err().to_string();
        assert!(error.contains("`frith token list` shows"), "{error}");
    }
}

#[test]
fn the_default_agent_gets_another_token_instead() {
    let (_folder, claim) = claim();
    let store = open(&claim);
    for name in ["default", FILE_ID] {
        let further = store.create("default", "").unwrap();
        let old = text(claim.dir().token());
        let revoked = store.revoke(name).unwrap();
        assert_eq!(revoked.renewed, Some(claim.dir().token()));
        assert!(revoked.ids.iter().any(|id| id == FILE_ID));
        let further_is_good = agent(&store, further.token.reveal()).is_some();
        assert_eq!(further_is_good, name == FILE_ID);
        assert_eq!(agent(&store, old.trim()), None);
        let new = text(claim.dir().token());
        assert_eq!(agent(&store, new.trim()).as_deref(), Some("default"));
    }
}

#[test]
fn a_configured_token_stands_instead_of_the_file() {
    let (_folder, claim) = claim();
    let secret = Secret::new("open sesame");
    let store = TokenStore::open(&claim, Some(&secret)).unwrap();
    assert_eq!(agent(&store, "open sesame").as_deref(), Some("default"));
    assert!(!claim.dir().token().exists());
    for name in ["default", CONFIGURED_ID] {
        assert!(matches!(store.revoke(name), Err(TokenError::Configured)));
    }
    // The configuration is read again, and says nothing, and another one.
    store.configure(None).unwrap();
    let file = text(claim.dir().token());
    assert!(agent(&store, file.trim()).is_some() && agent(&store, "open sesame").is_none());
    store.configure(Some(&Secret::new("other"))).unwrap();
    assert!(agent(&store, file.trim()).is_none() && agent(&store, "other").is_some());
    assert!(store.configure(Some(&Secret::new(""))).is_err());
    assert!(agent(&store, "other").is_some());
    let memory = TokenStore::in_memory(&secret).unwrap();
    let made = memory.create("ada", "").unwrap();
    assert_eq!(agent(&memory, made.token.reveal()).as_deref(), Some("ada"));
    memory.revoke("ada").unwrap();
    assert_eq!(agent(&memory, made.token.reveal()), None);
}

#[test]
fn a_credential_has_a_limit() {
    let at = |length| TokenStore::in_memory(&Secret::new("x".repeat(length)));
    let store = at(MAX_TOKEN).unwrap();
    assert!(agent(&store, &"x".repeat(MAX_TOKEN)).is_some());
    for length in [0, MAX_TOKEN + 1] {
        assert!(matches!(at(length), Err(TokenError::BadToken)));
        assert_eq!(agent(&store, &"x".repeat(length)), None);
    }
}

#[test]
fn the_number_of_tokens_has_a_limit() {
    let store = TokenStore::in_memory(&Secret::new("x")).unwrap();
    let first = store.create("ada", "").unwrap();
    let mut tokens = (*store.current()).clone();
    tokens.made.resize(MAX_TOKENS - 1, tokens.made[0].clone());
    store.replace(tokens);
    assert!(agent(&store, first.token.reveal()).is_some());
    store.create("ada", "").unwrap();
    assert!(matches!(store.create("ada", ""), Err(TokenError::TooMany)));
}

#[test]
fn names_and_labels_can_be_shown_in_a_list() {
    let store = TokenStore::in_memory(&Secret::new("x")).unwrap();
    let long = "a".repeat(128);
    for good in ["a", "ada@example.org", "did:web:a.b", &long] {
        store.create(good, &"é".repeat(200)).unwrap();
    }
    let longer = "a".repeat(129);
    for bad in ["", "a b", "a\n", "-a", ".a", "tok_a", "é", &longer] {
        let error = store.create(bad, "").unwrap_err();
        assert!(matches!(error, TokenError::BadName(_)), "{bad}");
    }
    for bad in ["a\nb", &"é".repeat(201)] {
        assert!(matches!(store.create("a", bad), Err(TokenError::BadLabel)));
    }
}

#[test]
fn a_damaged_file_is_an_error_that_says_what_to_do() {
    let (_folder, claim) = claim();
    let store = open(&claim);
    store.create("ada", "").unwrap();
    let good = text(claim.dir().agents());
    let entry = &good[good.find('[').unwrap() + 1..good.rfind(']').unwrap()];
    for (bad, what) in [
        ("", "at byte 0"),
        (&good[..good.len() / 2], "not JSON"),
        ("{}", "not of version 1"),
        (
            &good.replace("\"version\": 1", "\"version\": 2"),
            "not of version 1",
        ),
        (&good.replace("sha256:", "sha25:"), "lacks a part"),
        (&good.replace("label", "lable"), "lacks a part"),
        (&good.replace("\"ada\"", "\"a da\""), "impossible name"),
        (
            &good.replace(entry, &format!("{entry},{entry}")),
            "two with one id",
        ),
    ] {
        claim
            .write_private(&claim.dir().agents(), bad.as_bytes())
            .unwrap();
        let error = TokenStore::open(&claim, None).unwrap_err().to_string();
        assert!(
            error.contains(what) && error.contains("put back a copy"),
            "{error}"
        );
        assert!(!error.contains("sha25"), "{error}");
    }
    fs::remove_file(claim.dir().agents()).unwrap();
    for bad in ["", "\n", "two words", "a\0b", &"x".repeat(MAX_TOKEN + 1)] {
        claim
            .write_private(&claim.dir().token(), bad.as_bytes())
            .unwrap();
        let error = TokenStore::open(&claim, None).unwrap_err().to_string();
        assert!(
            error.contains("delete it to have a new token made"),
            "{error}"
        );
    }
}

/// Only what was made here is good however often others have failed: a word that somebody chose could
/// be found by trying.
#[test]
fn what_nobody_can_guess() {
    let (_folder, claim) = claim();
    fs::write(claim.dir().token(), "hunter2\n").unwrap();
    fs::set_permissions(claim.dir().token(), fs::Permissions::from_mode(0o600)).unwrap();
    let store = open(&claim);
    let made = store.create("ada", "").unwrap();
    let knows = |token: &str| {
        let login = Login {
            agent_id: a2e_wire::AgentId::default(),
            auth_token: token.to_owned(),
            resume: None,
        };
        store.recognise(&login).map(|identity| identity.agent)
    };
    assert_eq!(agent(&store, "hunter2").as_deref(), Some("default"));
    assert_eq!(knows("hunter2"), None);
    assert_eq!(knows(made.token.reveal()).as_deref(), Some("ada"));
    assert_eq!(knows(random_token().unwrap().reveal()), None);
}
