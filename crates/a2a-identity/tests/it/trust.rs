//! Profile §6, threats 85 to 89: who vouches for whom, and whose word counts.

use std::collections::BTreeMap;

use a2a_identity::{
    Anchor, Decision, Did, Issuer, Outcome, RootKeys, TrustLevel, Verdict, VerifiedManifest, Why,
    decide, endorse,
};
use a2a_wire::{EndorsementPayload, Nullable, UnixSeconds, Write as _};
use serde_json::{Value, json};

use crate::{
    NOW, did_key, draft, jwk, key, kid, section, set, signed, signed_at, verify, verify_with,
};

/// An endorsement by the did:key of a seed.
struct Entry {
    issuer: u8,
    payload: EndorsementPayload,
}

fn entry(issuer: u8, subject: &Did, level: &str) -> Entry {
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
    fn with(mut self, change: impl FnOnce(&mut EndorsementPayload)) -> Self {
        change(&mut self.payload);
        self
    }

    fn json(&self) -> Value {
        let entry = endorse(&self.payload, &kid("k"), &key(self.issuer)).unwrap();
        serde_json::to_value(entry.write()).unwrap()
    }
}

/// The verified manifest of the did:key of a seed, with these entries.
fn agent(seed: u8, entries: &[Value]) -> VerifiedManifest {
    let mut draft = draft(seed);
    draft["trust_chain"] = json!(entries);
    verify(&signed(&draft, seed), seed).unwrap()
}

fn anchor(seed: u8) -> Anchor {
    Anchor {
        did: did_key(seed),
        public_key: None,
        min_trust_level: TrustLevel::Own,
    }
}

fn decided(subject: &VerifiedManifest, anchors: &[Anchor], issuers: &[Issuer]) -> Decision {
    decided_at(subject, anchors, issuers, NOW)
}

fn decided_at(
    subject: &VerifiedManifest,
    anchors: &[Anchor],
    issuers: &[Issuer],
    now: UnixSeconds,
) -> Decision {
    let known = issuers.iter().filter_map(|issuer| match issuer {
        Issuer::Known(manifest) => Some((manifest.did().to_string(), issuer.clone())),
        Issuer::Failed => None,
    });
    let Outcome::Decided(decision) = decide(subject, anchors, &known.collect(), now) else {
        panic!("someone is missing");
    };
    decision
}

fn known(manifest: VerifiedManifest) -> Issuer {
    Issuer::Known(Box::new(manifest))
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

#[test]
fn threat_86_keys_and_manifests_of_an_issuer() {
    let did: Did = "did:web:anchor.example.com".parse().unwrap();
    let by_web = entry(3, &did_key(1), "verified")
        .with(|p| p.issuer = did.to_text().unwrap())
        .json();
    let subject = agent(1, &[by_web]);
    let outcome = |change: &dyn Fn(&mut Value), now: UnixSeconds| {
        let (anchor, manifest) = web_anchor(change);
        decided_at(&subject, &[anchor], &[known(manifest)], now).verdicts[0]
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

/// An issuer that is verified by the anchor 3.
fn verified_issuer(seed: u8) -> VerifiedManifest {
    agent(seed, &[entry(3, &did_key(seed), "verified").json()])
}

#[test]
fn an_issuer_verified_by_an_anchor_delegates() {
    let subject = agent(1, &[entry(4, &did_key(1), "verified").json()]);
    let ask = decide(&subject, &[anchor(3)], &BTreeMap::new(), NOW);
    assert_eq!(ask, Outcome::Resolve(vec![did_key(4)]));
    let decision = decided(&subject, &[anchor(3)], &[known(verified_issuer(4))]);
    assert_eq!(decision.level(), TrustLevel::Delegated, "never more");
    let delegated = agent(4, &[entry(3, &did_key(4), "delegated").json()]);
    let decision = decided(&subject, &[anchor(3)], &[known(delegated)]);
    assert_eq!(
        decision.level(),
        TrustLevel::Own,
        "delegated issuers vouch for nobody"
    );
}

#[test]
fn threat_88_depth_and_cycles() {
    // 1 ← 4 ← 5 ← anchor: one step too many.
    let four = agent(4, &[entry(5, &did_key(4), "verified").json()]);
    let subject = agent(1, &[entry(4, &did_key(1), "verified").json()]);
    let issuers = [known(four), known(verified_issuer(5))];
    assert_eq!(
        decided(&subject, &[anchor(3)], &issuers).level(),
        TrustLevel::Own
    );
    // 1 ↔ 4.
    let four = agent(4, &[entry(1, &did_key(4), "verified").json()]);
    let decision = decided(
        &subject,
        &[anchor(3)],
        &[known(four), known(subject.clone())],
    );
    assert_eq!(decision.level(), TrustLevel::Own);
    assert!(decision.is_partial());
}

#[test]
fn threat_88_as_many_entries_as_fit() {
    let by = |n: u32| {
        let did: Did = format!("did:web:i{n}.example.com").parse().unwrap();
        entry(4, &did_key(1), "verified")
            .with(|p| p.issuer = did.to_text().unwrap())
            .json()
    };
    let entries: Vec<Value> = (0..45).map(by).collect();
    let subject = agent(1, &entries);
    let Outcome::Resolve(asked) = decide(&subject, &[anchor(3)], &BTreeMap::new(), NOW) else {
        panic!("nothing to resolve");
    };
    assert_eq!(asked.len(), 4);
    let failed: BTreeMap<String, Issuer> = asked
        .iter()
        .map(|did| (did.to_string(), Issuer::Failed))
        .collect();
    let Outcome::Decided(decision) = decide(&subject, &[anchor(3)], &failed, NOW) else {
        panic!("more than four");
    };
    assert_eq!(decision.level(), TrustLevel::Own);
    assert_eq!(decision.verdicts[7], Verdict::Ignored(Why::Unresolved));
    assert_eq!(decision.verdicts[8], Verdict::Ignored(Why::TooMany));
    // The ninth entry does not count however good it is, the eighth does.
    let good = entry(3, &did_key(1), "verified").json();
    let junk = entry(1, &did_key(1), "verified").json();
    let at = |position: usize| {
        let mut entries = vec![junk.clone(); 9];
        entries[position] = good.clone();
        decided(&agent(1, &entries), &[anchor(3)], &[]).level()
    };
    assert_eq!((at(7), at(8)), (TrustLevel::Verified, TrustLevel::Own));
}

/// Threat 89: a decision can be compared with what an operator demands.
#[test]
fn threat_89_levels_have_an_order() {
    assert!(
        TrustLevel::Own < TrustLevel::Delegated && TrustLevel::Delegated < TrustLevel::Verified
    );
    assert!(decided(&agent(1, &[]), &[anchor(3)], &[]).level() < TrustLevel::Verified);
    for level in [TrustLevel::Own, TrustLevel::Delegated, TrustLevel::Verified] {
        assert_eq!(TrustLevel::named(level.as_str()), Some(level));
    }
}

#[test]
fn an_anchor_may_demand_a_level() {
    let strict = Anchor {
        min_trust_level: TrustLevel::Verified,
        ..anchor(3)
    };
    let subject = |level: &str| agent(1, &[entry(3, &did_key(1), level).json()]);
    assert_eq!(
        decided(&subject("verified"), std::slice::from_ref(&strict), &[]).level(),
        TrustLevel::Verified
    );
    assert_eq!(
        decided(&subject("delegated"), &[strict], &[]).verdicts,
        [Verdict::Ignored(Why::BelowAnchor)]
    );
}

/// An endorsement for some capabilities raises nothing else, and nobody passes on more than that.
#[test]
fn scopes_do_not_widen() {
    let only = |names: &[&str]| {
        let names: Vec<a2a_wire::Word> = names.iter().map(|name| name.parse().unwrap()).collect();
        move |p: &mut EndorsementPayload| p.capabilities = Some(names)
    };
    let subject = agent(
        1,
        &[entry(3, &did_key(1), "verified")
            .with(only(&["nlp.a.v1"]))
            .json()],
    );
    let decision = decided(&subject, &[anchor(3)], &[]);
    assert_eq!(decision.level(), TrustLevel::Own);
    assert_eq!(decision.level_for("nlp.a.v1"), TrustLevel::Verified);
    assert_eq!(decision.level_for("nlp.b.v1"), TrustLevel::Own);
    let issuer = agent(
        4,
        &[entry(3, &did_key(4), "verified")
            .with(only(&["nlp.a.v1", "nlp.c.v1"]))
            .json()],
    );
    for (entry, a, b, c) in [
        (
            entry(4, &did_key(1), "verified"),
            TrustLevel::Delegated,
            TrustLevel::Own,
            TrustLevel::Delegated,
        ),
        (
            entry(4, &did_key(1), "verified").with(only(&["nlp.a.v1", "nlp.b.v1"])),
            TrustLevel::Delegated,
            TrustLevel::Own,
            TrustLevel::Own,
        ),
    ] {
        let decision = decided(
            &agent(1, &[entry.json()]),
            &[anchor(3)],
            &[known(issuer.clone())],
        );
        assert_eq!(decision.level(), TrustLevel::Own);
        assert_eq!(decision.level_for("nlp.a.v1"), a);
        assert_eq!(decision.level_for("nlp.b.v1"), b);
        assert_eq!(decision.level_for("nlp.c.v1"), c);
    }
    let nothing = agent(
        1,
        &[entry(3, &did_key(1), "verified").with(only(&[])).json()],
    );
    assert_eq!(
        decided(&nothing, &[anchor(3)], &[]).level_for("nlp.a.v1"),
        TrustLevel::Own
    );
}
