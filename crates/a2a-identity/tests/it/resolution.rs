//! Profile §4: the order of fetches and what each answer means, without a network.

use a2a_identity::{
    Answer, Did, Document, GithubIds, Resolution, ResolveError, Resolved, RootKeys, Step, Want,
};
use a2a_wire::ErrorCode;
use serde_json::{Value, json};

use crate::{did_key, jwk, key};

/// Runs a resolution against answers by URL; returns what came of it and what was fetched.
fn run(
    did: &str,
    want: Want,
    pinned: Option<GithubIds>,
    answers: &[(&str, Answer)],
) -> (Result<Resolved, ResolveError>, Vec<String>) {
    let (mut resolution, mut step) = Resolution::begin(did.parse().unwrap(), want, pinned);
    let mut fetched = Vec::new();
    loop {
        let fetch = match step {
            Step::Done(resolved) => return (Ok(*resolved), fetched),
            Step::Failed(error) => return (Err(error), fetched),
            Step::Fetch(fetch) => fetch,
        };
        fetched.push(fetch.url.clone());
        let answer = answers.iter().find(|(url, _)| *url == fetch.url);
        let answer = answer.map_or(Answer::Status(404), |(_, answer)| answer.clone());
        step = resolution.answer(&fetch.url, answer);
    }
}

fn verified(
    resolved: &Resolved,
) -> Result<(RootKeys, Option<a2a_identity::VerifiedManifest>), a2a_identity::ManifestError> {
    resolved.verify(&a2a_identity::ManifestRules {
        now: crate::NOW,
        peer: a2a_identity::Peer::Profile,
        max_age: a2a_identity::MAX_AGE,
        last: None,
        pins: &a2a_identity::Pins::default(),
    })
}

fn document(did: &str) -> Answer {
    let document = json!({"agent_did": did, "public_keys": [jwk("k", 1)]});
    Answer::Body(document.to_string().into_bytes())
}

const WEB: &str = "did:web:a.example.com:x:y";
const WELL_KNOWN: &str = "https://a.example.com/.well-known/did.json";
const PATH: &str = "https://a.example.com/x/y/did.json";
const MANIFEST: &str = "https://a.example.com/.well-known/agent-manifest.json";

/// Proves A-4-3.
#[test]
fn did_key_needs_no_network() {
    let (resolved, fetched) = run(&did_key(1).to_string(), Want::Manifest, None, &[]);
    let root = RootKeys::DidKey(key(1).verifying_key());
    assert_eq!(verified(&resolved.unwrap()), Ok((root, None)));
    assert!(fetched.is_empty());
}

/// Proves A-4-4.
#[test]
fn did_web_in_order() {
    let body = Answer::Body(b"{}".to_vec());
    let answers = [(WELL_KNOWN, document(WEB)), (MANIFEST, body)];
    let (resolved, fetched) = run(WEB, Want::Manifest, None, &answers);
    assert_eq!(fetched, [WELL_KNOWN, MANIFEST]);
    assert_eq!(
        resolved.unwrap().manifest.as_deref(),
        Some(b"{}".as_slice())
    );
    let (resolved, fetched) = run(WEB, Want::Keys, None, &answers);
    assert_eq!((fetched.len(), resolved.unwrap().manifest), (1, None));
    // A document that is a signed manifest needs no other.
    let manifest =
        json!({"agent_did": WEB, "public_keys": [jwk("k", 1)], "manifest_signature": "a.b.c"});
    let manifest = Answer::Body(manifest.to_string().into_bytes());
    let (resolved, fetched) = run(WEB, Want::Manifest, None, &[(WELL_KNOWN, manifest)]);
    assert_eq!(fetched, [WELL_KNOWN]);
    assert!(resolved.unwrap().manifest.is_some());
}

#[test]
fn threat_78_the_second_place_only_after_a_clear_no() {
    for first in [
        Answer::Status(404),
        Answer::Status(410),
        document("did:web:a.example.com"),
    ] {
        let (resolved, fetched) = run(
            WEB,
            Want::Keys,
            None,
            &[(WELL_KNOWN, first), (PATH, document(WEB))],
        );
        assert!(resolved.is_ok());
        assert_eq!(fetched, [WELL_KNOWN, PATH]);
    }
    for (first, code) in [
        (Answer::Status(500), ErrorCode::UnverifiedAgent),
        (Answer::Status(403), ErrorCode::UnverifiedAgent),
        (Answer::Status(204), ErrorCode::UnverifiedAgent),
        (Answer::Redirect, ErrorCode::UnverifiedAgent),
        (Answer::Refused, ErrorCode::UnverifiedAgent),
        (Answer::Unreachable, ErrorCode::ServiceUnavailable),
        (Answer::Body(b"{".to_vec()), ErrorCode::UnverifiedAgent),
        (
            Answer::Body(b"{\"id\":\"did:web:b.example.com\"}".to_vec()),
            ErrorCode::UnverifiedAgent,
        ),
        (
            Answer::Body(vec![b' '; 65 * 1024]),
            ErrorCode::UnverifiedAgent,
        ),
    ] {
        let (resolved, fetched) = run(
            WEB,
            Want::Keys,
            None,
            &[(WELL_KNOWN, first), (PATH, document(WEB))],
        );
        assert_eq!(resolved.unwrap_err().code(), code);
        assert_eq!(fetched, [WELL_KNOWN], "no fallback on errors");
    }
    // Without segments there is no second place; and the second place is the last.
    let (resolved, fetched) = run("did:web:a.example.com", Want::Keys, None, &[]);
    assert!(matches!(resolved, Err(ResolveError::NotFound(_))) && fetched.len() == 1);
    let (resolved, _) = run(
        WEB,
        Want::Keys,
        None,
        &[(PATH, document("did:web:a.example.com"))],
    );
    assert!(matches!(resolved, Err(ResolveError::Document(_))));
}

/// Threats 77 and 80: redirects and dripping or oversized answers come as they are named here.
#[test]
fn threats_77_80_answers_that_are_none() {
    for (manifest, ok) in [
        (Answer::Status(404), true),
        (Answer::Redirect, false),
        (Answer::Refused, false),
        (Answer::Unreachable, false),
        (Answer::Status(500), false),
    ] {
        let (resolved, _) = run(
            WEB,
            Want::Manifest,
            None,
            &[(WELL_KNOWN, document(WEB)), (MANIFEST, manifest)],
        );
        assert_eq!(resolved.is_ok(), ok);
    }
}

const REPO: &str = "did:github:Owner/Repo";
const RAW: &str =
    "https://raw.githubusercontent.com/owner/repo/main/.well-known/agent-manifest.json";
const API: &str = "https://api.github.com/repos/owner/repo";

fn repository(change: impl FnOnce(&mut Value)) -> Answer {
    let mut repository = json!({"id": 7, "full_name": "Owner/Repo", "disabled": false,
        "owner": {"login": "Owner", "id": 3}, "size": 1.5});
    change(&mut repository);
    Answer::Body(repository.to_string().into_bytes())
}

fn github(answer: Answer, pinned: Option<GithubIds>) -> Result<Resolved, ResolveError> {
    let manifest = Answer::Body(b"{}".to_vec());
    run(
        REPO,
        Want::Manifest,
        pinned,
        &[(RAW, manifest), (API, answer)],
    )
    .0
}

/// Proves A-4-6.
#[test]
fn did_github_in_order() {
    let ids = GithubIds {
        repository: 7,
        owner: 3,
    };
    let resolved = github(repository(|_| {}), None).unwrap();
    assert_eq!(resolved.github, Some(ids));
    assert!(
        verified(&resolved).is_err(),
        "its keys are those of its manifest, and `{{}}` is none"
    );
    assert!(github(repository(|_| {}), Some(ids)).is_ok());
    let (resolved, fetched) = run(REPO, Want::Manifest, None, &[]);
    assert!(resolved.is_err());
    assert_eq!(fetched, [RAW], "without a manifest GitHub is not asked");
}

/// Proves A-4-7.
#[test]
fn threat_81_github_must_confirm() {
    let unverified = |answer: Answer| {
        assert_eq!(
            github(answer, None).unwrap_err().code(),
            ErrorCode::UnverifiedAgent
        )
    };
    unverified(Answer::Redirect);
    unverified(Answer::Status(404));
    unverified(Answer::Refused);
    unverified(repository(|r| r["full_name"] = json!("Owner/Renamed")));
    unverified(repository(|r| r["owner"]["login"] = json!("Someone")));
    unverified(repository(|r| r["disabled"] = json!(true)));
    unverified(repository(|r| r["disabled"] = json!("no")));
    unverified(repository(|r| r["id"] = json!("7")));
    unverified(repository(|r| r["owner"] = json!(null)));
    unverified(Answer::Body(b"[]".to_vec()));
    for status in [403, 429] {
        let error = github(Answer::Status(status), None).unwrap_err();
        assert_eq!(error.code(), ErrorCode::ServiceUnavailable);
    }
    for changed in [
        GithubIds {
            repository: 7,
            owner: 4,
        },
        GithubIds {
            repository: 8,
            owner: 3,
        },
    ] {
        assert_eq!(
            github(repository(|_| {}), Some(changed)),
            Err(ResolveError::GithubChanged)
        );
    }
}

/// Only GitHub's own API may see a token, and only its raw host may say `text/plain`.
#[test]
fn threat_81_which_fetch_is_which() {
    let (mut resolution, step) =
        Resolution::begin(REPO.parse::<Did>().unwrap(), Want::Manifest, None);
    let Step::Fetch(first) = step else {
        panic!("{step:?}")
    };
    assert_eq!(first.what, Document::RawManifest);
    assert!(first.what.may_be_plain_text());
    let step = resolution.answer(&first.url, Answer::Body(b"{}".to_vec()));
    let Step::Fetch(second) = step else {
        panic!("{step:?}")
    };
    assert_eq!(second.what, Document::Ownership);
    assert!(second.url.starts_with("https://api.github.com/") && !second.what.may_be_plain_text());
    for what in [
        Document::DidDocument,
        Document::Manifest,
        Document::RawManifest,
        Document::Ownership,
    ] {
        assert_eq!(what.limit(), 64 * 1024);
    }
}

#[test]
fn a_resolution_that_is_over_stays_over() {
    let (mut resolution, _) = Resolution::begin(WEB.parse().unwrap(), Want::Keys, None);
    assert!(matches!(
        resolution.answer(WELL_KNOWN, Answer::Redirect),
        Step::Failed(_)
    ));
    assert_eq!(
        resolution.answer(WELL_KNOWN, document(WEB)),
        Step::Failed(ResolveError::Over)
    );
}
