//! Endorsements by agents that are endorsed themselves: how far trust is passed on.

use std::collections::BTreeMap;

use a2a_identity::{
    Anchor, Did, Issuer, Outcome, TrustLevel, Verdict, VerifiedManifest, Why, decide,
};
use a2a_wire::EndorsementPayload;
use serde_json::Value;

use crate::{NOW, did_key};

use crate::trust::{agent, anchor, decided, entry, known};

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

/// Two anchors' words on an issuer count together, in whatever order they stand.
#[test]
fn scopes_of_several_vouchers_add_up() {
    let only = |names: &[&str]| {
        let names: Vec<a2a_wire::Word> = names.iter().map(|name| name.parse().unwrap()).collect();
        move |p: &mut EndorsementPayload| p.capabilities = Some(names)
    };
    let voucher = |names: &[&str]| entry(3, &did_key(4), "verified").with(only(names)).json();
    let everything = entry(3, &did_key(4), "verified").json();
    let subject = agent(1, &[entry(4, &did_key(1), "verified").json()]);
    let level = |vouchers: &[Value], capability: &str| {
        let issuers = [known(agent(4, vouchers))];
        decided(&subject, &[anchor(3)], &issuers).level_for(capability)
    };
    let both = [voucher(&["nlp.a.v1"]), voucher(&["nlp.b.v1"])];
    assert_eq!(level(&both, "nlp.a.v1"), TrustLevel::Delegated);
    assert_eq!(level(&both, "nlp.b.v1"), TrustLevel::Delegated);
    assert_eq!(level(&both, "nlp.c.v1"), TrustLevel::Own);
    let wide = [voucher(&["nlp.a.v1"]), everything];
    assert_eq!(level(&wide, "nlp.c.v1"), TrustLevel::Delegated);
}
