//! Profile §6, threats 85 to 89: who vouches for whom, and whose word counts.

use std::collections::BTreeMap;

use a2a_identity::{
    Anchor, Decision, Did, Issuer, Key, KeySet, KeyStatus, Outcome, RootKeys, TrustLevel, Verdict,
    VerifiedManifest, Why, decide, endorse,
};
use a2a_wire::{EndorsementPayload, Nullable, UnixSeconds, Write as _};
use serde_json::{Value, json};

use crate::{
    NOW, did_key, draft, jwk, key, kid, section, set, signed, signed_at, verify, verify_with,
};

/// An endorsement by the did:key of a seed.
pub(crate) struct Entry {
    issuer: u8,
    payload: EndorsementPayload,
}

pub(crate) fn entry(issuer: u8, subject: &Did, level: &str) -> Entry {
    Entry {
        issuer,
        payload: EndorsementPayload {
            issuer: did_key(issuer).to_text().unwrap(),
            issued_at: NOW.plus(-100),
            expires_at: Some(Nullable(Some(NOW.plus(1000)))),
            trust_level: level.parse().unwrap(),
            subject: subject.to_text().unwrap(),
            subject_keys: None,
            capabilities: None,
        },
    }
}

impl Entry {
    pub(crate) fn with(mut self, change: impl FnOnce(&mut EndorsementPayload)) -> Self {
        change(&mut self.payload);
        self
    }

    pub(crate) fn json(&self) -> Value {
        let entry = endorse(&self.payload, &kid("k"), &key(self.issuer)).unwrap();
        serde_json::to_value(entry.write()).unwrap()
    }
}

/// The verified manifest of the did:key of a seed, with these entries.
pub(crate) fn agent(seed: u8, entries: &[Value]) -> VerifiedManifest {
    let mut draft = draft(seed);
    draft["trust_chain"] = json!(entries);
    verify(&signed(&draft, seed), seed).unwrap()
}

pub(crate) fn anchor(seed: u8) -> Anchor {
    Anchor {
        did: did_key(seed),
        public_key: None,
        min_trust_level: TrustLevel::Own,
    }
}

pub(crate) fn decided(
    subject: &VerifiedManifest,
    anchors: &[Anchor],
    issuers: &[Issuer],
) -> Decision {
    decided_at(subject, anchors, issuers, NOW)
}

fn decided_at(
    subject: &VerifiedManifest,
    anchors: &[Anchor],
    issuers: &[Issuer],
    now: UnixSeconds,
) -> Decision {
    let known = issuers.iter().filter_map(|issuer| match issuer {
        Issuer::Known { manifest, .. } => Some((manifest.did().to_string(), issuer.clone())),
        Issuer::Failed => None,
    });
    let Outcome::Decided(decision) = decide(subject, anchors, &known.collect(), now) else {
        panic!("someone is missing");
    };
    decision
}

pub(crate) fn known(manifest: VerifiedManifest) -> Issuer {
    let Did::Key(key) = manifest.did() else {
        panic!("{} is no did:key", manifest.did());
    };
    known_by(&RootKeys::DidKey(key.key().clone()), manifest)
}

fn known_by(root: &RootKeys, manifest: VerifiedManifest) -> Issuer {
    Issuer::resolved(root, Some(Box::new(manifest)))
}

/// What comes of one entry of agent 1, with 3 as anchor.
fn verdict(entry: &Value) -> Verdict {
    decided(&agent(1, std::slice::from_ref(entry)), &[anchor(3)], &[]).verdicts[0]
}

#[test]
fn the_vector_counts_and_only_under_an_anchor() {
    let entry = section("endorsement")["entry"].clone();
    let subject = agent(2, &[entry]);
    let decision = decided(&subject, &[anchor(3)], &[]);
    assert_eq!(
        (decision.level(), decision.is_partial()),
        (TrustLevel::Verified, false)
    );
    let decision = decided(&subject, &[], &[]);
    assert_eq!(
        (decision.level(), decision.is_partial()),
        (TrustLevel::Own, true)
    );
    assert_eq!(decision.verdicts, [Verdict::Ignored(Why::Stranger)]);
}

#[test]
fn without_entries_an_agent_is_itself() {
    let decision = decided(&agent(1, &[]), &[anchor(3)], &[]);
    assert_eq!(
        (decision.level(), decision.is_partial()),
        (TrustLevel::Own, false)
    );
}

/// Threat 85: a second did:key of the same operator, or the agent itself.
#[test]
fn threat_85_self_endorsement() {
    let second = agent(4, &[]);
    let subject = agent(
        1,
        &[
            entry(4, &did_key(1), "verified").json(),
            entry(1, &did_key(1), "verified").json(),
        ],
    );
    let decision = decided(&subject, &[anchor(3)], &[known(second)]);
    assert_eq!(decision.level(), TrustLevel::Own);
    assert_eq!(
        decision.verdicts,
        [
            Verdict::Ignored(Why::Stranger),
            Verdict::Ignored(Why::Issuer)
        ]
    );
}

#[test]
fn threat_86_times_of_an_endorsement() {
    let with = |change: &dyn Fn(&mut EndorsementPayload)| {
        verdict(&entry(3, &did_key(1), "verified").with(|p| change(p)).json())
    };
    let counts = Verdict::Counts(TrustLevel::Verified);
    assert_eq!(with(&|_| {}), counts);
    assert_eq!(
        with(&|p| p.expires_at = Some(Nullable(Some(NOW)))),
        Verdict::Ignored(Why::Expired)
    );
    assert_eq!(
        with(&|p| p.expires_at = Some(Nullable(Some(NOW.plus(1))))),
        counts
    );
    assert_eq!(with(&|p| p.issued_at = NOW.plus(300)), counts);
    assert_eq!(
        with(&|p| p.issued_at = NOW.plus(301)),
        Verdict::Ignored(Why::NotYet)
    );
    let year = 365 * 24 * 3600;
    for end in [None, Some(Nullable(None))] {
        let since = |issued: UnixSeconds| {
            with(&|p| {
                p.expires_at = end;
                p.issued_at = issued;
            })
        };
        assert_eq!(since(NOW.plus(-year + 1)), counts, "a year without an end");
        assert_eq!(since(NOW.plus(-year)), Verdict::Ignored(Why::Expired));
    }
}

/// An anchor of did:web, whose keys come from its manifest.
fn web_anchor(change: impl FnOnce(&mut Value)) -> (Anchor, VerifiedManifest) {
    let did: Did = "did:web:anchor.example.com".parse().unwrap();
    let mut draft = draft(3);
    draft["agent_did"] = json!(did.to_string());
    draft["public_keys"] = json!([jwk("root", 9), jwk("k", 3)]);
    change(&mut draft);
    let manifest = signed_at(&draft, "root", 9, NOW);
    let root = RootKeys::Document(set(&[("root", 9)]));
    let manifest = verify_with(&manifest, &did, &root, |_| {}).unwrap();
    let anchor = Anchor {
        did,
        public_key: None,
        min_trust_level: TrustLevel::Own,
    };
    (anchor, manifest)
}

/// A key that the DID document of an issuer revokes cannot endorse, whatever the manifest says.
#[test]
fn threat_86_a_key_that_the_issuers_did_document_revokes_endorses_nobody() {
    let by_web = entry(3, &did_key(1), "verified")
        .with(|p| p.issuer = "did:web:anchor.example.com".parse().unwrap())
        .json();
    let subject = agent(1, &[by_web]);
    let (anchor, manifest) = web_anchor(|_| {});
    let revoked = Key {
        kid: kid("k"),
        key: key(3).verifying_key(),
        status: KeyStatus::Revoked,
        expires_at: None,
    };
    let mut keys: Vec<Key> = set(&[("root", 9)]).iter().cloned().collect();
    let verdicts = |keys: &[Key]| {
        let root = RootKeys::Document(KeySet::new(keys.to_vec()).unwrap());
        let issuers = [known_by(&root, manifest.clone())];
        decided_at(&subject, std::slice::from_ref(&anchor), &issuers, NOW).verdicts
    };
    assert_eq!(verdicts(&keys), [Verdict::Counts(TrustLevel::Verified)]);
    keys.push(revoked);
    assert_eq!(verdicts(&keys), [Verdict::Ignored(Why::Signature)]);
}

#[test]
fn threat_86_keys_and_manifests_of_an_issuer() {
    let did: Did = "did:web:anchor.example.com".parse().unwrap();
    let by_web = entry(3, &did_key(1), "verified")
        .with(|p| p.issuer = did.to_text().unwrap())
        .json();
    let subject = agent(1, &[by_web]);
    let outcome = |change: &dyn Fn(&mut Value), now: UnixSeconds| {
        let (anchor, manifest) = web_anchor(change);
        let root = RootKeys::Document(set(&[("root", 9)]));
        decided_at(&subject, &[anchor], &[known_by(&root, manifest)], now).verdicts[0]
    };
    let counts = Verdict::Counts(TrustLevel::Verified);
    let signature = Verdict::Ignored(Why::Signature);
    assert_eq!(outcome(&|_| {}, NOW), counts);
    assert_eq!(
        outcome(&|d| d["expires_at"] = json!(NOW.0 + 10), NOW.plus(9)),
        counts
    );
    assert_eq!(
        outcome(&|d| d["expires_at"] = json!(NOW.0 + 10), NOW.plus(10)),
        Verdict::Ignored(Why::Unresolved),
        "the issuer's manifest ended"
    );
    let key = |changes: Value| {
        outcome(
            &|d| {
                for (name, value) in changes.as_object().unwrap() {
                    d["public_keys"][1][name] = value.clone();
                }
            },
            NOW,
        )
    };
    let day = 24 * 3600;
    assert_eq!(key(json!({"status": "revoked"})), signature);
    assert_eq!(key(json!({"expires_at": NOW.0})), signature);
    assert_eq!(
        key(json!({"status": "deprecated", "expires_at": NOW.0 + day})),
        counts,
        "deprecated after it signed"
    );
    assert_eq!(
        key(json!({"status": "deprecated", "expires_at": NOW.0 + day - 101})),
        signature,
        "deprecated before it signed"
    );
    assert_eq!(
        key(json!({"status": "deprecated", "expires_at": NOW.0})),
        signature
    );
    // An anchor that cannot be resolved counts for nothing; the first call asks for it.
    let (anchor, _) = web_anchor(|_| {});
    let ask = decide(
        &subject,
        std::slice::from_ref(&anchor),
        &BTreeMap::new(),
        NOW,
    );
    assert_eq!(ask, Outcome::Resolve(vec![did.clone()]));
    let failed = BTreeMap::from([(did.to_string(), Issuer::Failed)]);
    let Outcome::Decided(decision) = decide(&subject, std::slice::from_ref(&anchor), &failed, NOW)
    else {
        panic!("not decided");
    };
    assert_eq!(decision.verdicts, [Verdict::Ignored(Why::Unresolved)]);
    // With the anchor's key fixed nothing need be resolved, and only that key counts.
    let pinned = |seed: u8| Anchor {
        public_key: Some(crate::key(seed).verifying_key()),
        ..anchor.clone()
    };
    assert_eq!(decided(&subject, &[pinned(3)], &[]).verdicts, [counts]);
    assert_eq!(decided(&subject, &[pinned(9)], &[]).verdicts, [signature]);
}

#[test]
fn threat_87_what_is_written_and_what_was_signed() {
    let other = entry(3, &did_key(2), "verified").json();
    assert_eq!(
        verdict(&other),
        Verdict::Ignored(Why::OtherSubject),
        "copied from another subject"
    );
    let mut raised = entry(3, &did_key(1), "delegated").json();
    assert_eq!(verdict(&raised), Verdict::Counts(TrustLevel::Delegated));
    raised["trust_level"] = json!("verified");
    assert_eq!(verdict(&raised), Verdict::Ignored(Why::Mismatch));
    for (name, value) in [
        ("issued_at", json!(NOW.0 - 99)),
        ("expires_at", json!(NOW.0 + 1001)),
        ("expires_at", Value::Null),
    ] {
        let mut changed = entry(3, &did_key(1), "verified").json();
        changed[name] = value;
        assert_eq!(verdict(&changed), Verdict::Ignored(Why::Mismatch), "{name}");
    }
    let keys = |keys: Vec<a2a_wire::Digest>| {
        verdict(
            &entry(3, &did_key(1), "verified")
                .with(|p| p.subject_keys = Some(keys))
                .json(),
        )
    };
    assert_eq!(
        keys(vec![key(1).verifying_key().digest()]),
        Verdict::Counts(TrustLevel::Verified)
    );
    assert_eq!(
        keys(vec![key(2).verifying_key().digest()]),
        Verdict::Ignored(Why::Keys)
    );
    assert_eq!(keys(vec![]), Verdict::Ignored(Why::Keys));
    for level in ["self", "root", ""] {
        assert_eq!(
            verdict(&entry(3, &did_key(1), level).json()),
            Verdict::Ignored(Why::Level),
            "{level}"
        );
    }
    let mut forged = entry(3, &did_key(1), "verified").json();
    forged["signature"] = json!(entry(4, &did_key(1), "verified").json()["signature"]);
    assert_eq!(verdict(&forged), Verdict::Ignored(Why::Signature));
}

/// A did:web must have all its active keys named: who takes over the domain has other keys.
#[test]
fn threat_87_keys_of_a_did_web() {
    let did: Did = "did:web:agent.example.com".parse().unwrap();
    let subject = |entry: Value, keys: Value, seed: u8| {
        let mut draft = draft(1);
        draft["agent_did"] = json!(did.to_string());
        draft["public_keys"] = keys;
        draft["trust_chain"] = json!([entry]);
        let root = RootKeys::Document(set(&[("k", seed)]));
        verify_with(&signed_at(&draft, "k", seed, NOW), &did, &root, |_| {}).unwrap()
    };
    let named = |seeds: &[u8]| {
        let keys = seeds
            .iter()
            .map(|seed| key(*seed).verifying_key().digest())
            .collect();
        entry(3, &did, "verified")
            .with(|p| p.subject_keys = Some(keys))
            .json()
    };
    let level = |subject: VerifiedManifest| decided(&subject, &[anchor(3)], &[]).level();
    assert_eq!(
        level(subject(named(&[1]), json!([jwk("k", 1)]), 1)),
        TrustLevel::Verified
    );
    assert_eq!(
        level(subject(
            named(&[1, 2]),
            json!([jwk("k", 1), jwk("l", 2)]),
            1
        )),
        TrustLevel::Verified
    );
    assert_eq!(
        level(subject(named(&[1]), json!([jwk("k", 1), jwk("l", 2)]), 1)),
        TrustLevel::Own
    );
    assert_eq!(
        level(subject(named(&[1]), json!([jwk("k", 5)]), 5)),
        TrustLevel::Own,
        "the domain was taken over"
    );
    assert_eq!(
        level(subject(named(&[1]), json!([jwk("l", 1)]), 5)),
        TrustLevel::Own,
        "the old key listed, the new one signs"
    );
    let none = entry(3, &did, "verified").json();
    assert_eq!(
        level(subject(none, json!([jwk("k", 1)]), 1)),
        TrustLevel::Own
    );
}

/// The level of an agent stands as long as one of the anchors that give it does.
#[test]
fn a_level_stands_by_the_word_of_the_anchors_that_give_it() {
    let stands = |decision: &Decision, anchors: &[Anchor]| {
        let vouchers = decision.vouchers();
        vouchers.iter().any(|it| it.counts_with(anchors))
    };
    let subject = did_key(1);
    let by = |issuer: u8, level: &str| entry(issuer, &subject, level).json();
    let both = [by(3, "verified"), by(4, "delegated")];
    let decision = decided(&agent(1, &both), &[anchor(3), anchor(4)], &[]);
    assert!(stands(&decision, &[anchor(3)]));
    assert!(!stands(&decision, &[anchor(4)]), "that is another level");
    assert!(!stands(&decision, &[]));
    let pinned = Anchor {
        public_key: Some(key(3).verifying_key()),
        ..anchor(3)
    };
    assert!(!stands(&decision, &[pinned]));
    let strict = |seed: u8| Anchor {
        min_trust_level: TrustLevel::Verified,
        ..anchor(seed)
    };
    assert!(stands(&decision, &[strict(3)]));
    let decision = decided(&agent(1, &[by(4, "delegated")]), &[anchor(4)], &[]);
    assert!(!stands(&decision, &[strict(4)]));

    // By way of an issuer that two anchors have verified; one of them for some capabilities alone.
    let issuer = did_key(5);
    let some = entry(4, &issuer, "verified").with(|payload| {
        payload.capabilities = Some(vec!["a.b".parse().unwrap()]);
    });
    let words = [some.json(), entry(3, &issuer, "verified").json()];
    let issuers = [known(agent(5, &words))];
    let subject = agent(1, &[by(5, "verified")]);
    let decision = decided(&subject, &[anchor(3), anchor(4)], &issuers);
    assert_eq!(decision.level(), TrustLevel::Delegated);
    assert!(stands(&decision, &[anchor(3)]));
    assert!(!stands(&decision, &[anchor(4)]));
    let decision = decided(&subject, &[anchor(4)], &issuers);
    assert_eq!(decision.level(), TrustLevel::Own);
    assert_eq!(decision.level_for("a.b"), TrustLevel::Delegated);
    assert!(decision.vouchers().is_empty());
}
