//! Profile §4: DIDs in their one spelling.

use a2a_identity::{Did, DidError, Peer, Resolution, SigningKey, Step, Want};

use crate::section;

#[test]
fn vectors() {
    let case = section("did");
    for valid in case["valid"].as_array().unwrap() {
        let text = valid.as_str().unwrap();
        assert_eq!(text.parse::<Did>().unwrap().to_string(), text);
    }
    for pair in case["normalise"].as_array().unwrap() {
        let did: Did = pair[0].as_str().unwrap().parse().unwrap();
        assert_eq!(did.to_string(), pair[1]);
    }
    for invalid in case["invalid"].as_array().unwrap() {
        let text = invalid[0].as_str().unwrap();
        assert!(text.parse::<Did>().is_err(), "{invalid}");
        assert!(Did::parse(text, Peer::Baseline).is_err(), "{invalid}");
    }
    for pair in case["baseline_only"].as_array().unwrap() {
        let text = pair[0].as_str().unwrap();
        assert!(text.parse::<Did>().is_err());
        assert_eq!(
            Did::parse(text, Peer::Baseline).unwrap().to_string(),
            pair[1]
        );
    }
}

#[test]
fn urls_of_the_vectors() {
    for pair in section("did")["urls"].as_array().unwrap() {
        let did: Did = pair[0].as_str().unwrap().parse().unwrap();
        let urls = match &did {
            Did::Web(web) => web.document_urls(),
            Did::Github(github) => vec![github.manifest_url()],
            Did::Key(_) => Vec::new(),
        };
        assert_eq!(serde_json::to_value(urls.clone()).unwrap(), pair[1]);
        let (_, step) = Resolution::begin(did, Want::Manifest, None);
        assert!(matches!(step, Step::Fetch(fetch) if fetch.url == urls[0]));
    }
}

/// The W3C did:key test suite, Ed25519: seeds and the DIDs they give.
/// Proves A-2-5.
#[test]
fn did_key_of_w3c() {
    for (seed, did) in [
        (
            0,
            "did:key:z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp",
        ),
        (
            1,
            "did:key:z6MkjchhfUsD6mmvni8mCdXHw216Xrm9bQe2mBH1P5RDjVJG",
        ),
        (
            2,
            "did:key:z6MknGc3ocHs3zdPiJbnaaqDi58NGb4pk1Sp9WxWufuXSdxf",
        ),
    ] {
        let mut bytes = [0; 32];
        bytes[31] = seed;
        let key = SigningKey::from_seed(&bytes).verifying_key();
        let parsed: Did = did.parse().unwrap();
        assert_eq!(parsed, Did::Key(a2a_identity::DidKey::new(key)));
        assert_eq!(parsed.to_string(), did);
    }
}

/// Threat 67, beyond the vectors.
#[test]
fn threat_67_other_spellings_of_a_key() {
    let good = "did:key:z6Mkon3Necd6NkkyfoGoHxid2znGc59LU3K7mubaRcFbLfLX";
    for wrong in [
        format!(" {good}"),
        format!("{good} "),
        format!("{good}?x=1"),
        format!("{good};x"),
        format!("{good}/"),
        format!("{good}1"),
        good.replace("did:", "DID:"),
        good.replace("key:", "KEY:"),
        good.replace("key:z", "key:Z"),
        good.replace("key:z", "key:zz"),
        good.replace('6', "0"),
        format!("did:key:z{}", "1".repeat(400)),
        format!("did:key:z{}", "z".repeat(400)),
        "did:key:".into(),
        "did:key:z".into(),
    ] {
        for peer in [Peer::Profile, Peer::Baseline] {
            assert!(Did::parse(&wrong, peer).is_err(), "{wrong}");
        }
    }
}

/// Threat 75: names that must never be fetched from.
#[test]
fn threat_75_hosts_of_did_web() {
    for host in [
        "127.0.0.1",
        "0177.0.0.1",
        "0x7f.0.0.1",
        "127.1",
        "2130706433",
        "0x7f000001",
        "1.2.3.0x4",
        "localhost",
        "foo.localhost",
        "printer.local",
        "metadata.internal",
        "x.invalid",
        "x.test",
        "x.example",
        "x.onion",
        "1.0.0.127.in-addr.arpa",
        "169.254.169.254",
        "[::1]",
        "%5B%3A%3A1%5D",
        "user@example.com",
        "user%40example.com",
        "example.com.",
        ".example.com",
        "example..com",
        "-a.example.com",
        "a-.example.com",
        "exa_mple.com",
        "example",
        "",
        "exämple.com",
        "example.com%3A0",
        "example.com%3A",
        "example.com%3A99999",
        "example.com%3A0443",
        "example.com%3A+443",
        "example.com%2Fx",
        "a.b%00.com",
        "a b.com",
        "xn--.c%6Fm",
    ] {
        let did = format!("did:web:{host}");
        assert!(did.parse::<Did>().is_err(), "{did}");
    }
    let long = format!("{}.com", "a".repeat(64));
    assert!(format!("did:web:{long}").parse::<Did>().is_err());
    let label = "a".repeat(63);
    assert!(format!("did:web:{label}.com").parse::<Did>().is_ok());
    let name = |labels: usize| vec![label.as_str(); labels].join(".");
    assert!(
        format!("did:web:{}.{}", name(3), "b".repeat(61))
            .parse::<Did>()
            .is_ok(),
        "253"
    );
    assert!(
        format!("did:web:{}.{}", name(3), "b".repeat(62))
            .parse::<Did>()
            .is_err(),
        "254"
    );
    for good in [
        "xn--exmple-cua.com",
        "a.b.c.d.e",
        "1.example.com",
        "EXAMPLE.COM",
        "a.0xg",
    ] {
        assert!(format!("did:web:{good}").parse::<Did>().is_ok(), "{good}");
    }
}

/// Proves A-2-6.
#[test]
fn paths_of_did_web() {
    for (text, canonical) in [
        ("did:web:a.com/x/y", "did:web:a.com:x:y"),
        ("did:web:a.com:x/y~z", "did:web:a.com:x:y~z"),
        ("did:web:A.com%3a8443/X", "did:web:a.com%3A8443:X"),
    ] {
        assert_eq!(text.parse::<Did>().unwrap().to_string(), canonical);
    }
    for wrong in [
        "a.com:",
        "a.com/",
        "a.com::x",
        "a.com:.:x",
        "a.com:x:..",
        "a.com:%2e",
        "a.com:a b",
        "a.com:x?y",
        "a.com:x#y",
        "a.com:é",
    ] {
        assert!(
            format!("did:web:{wrong}").parse::<Did>().is_err(),
            "{wrong}"
        );
    }
}

/// Threat 81: paths and names of did:github.
/// Proves A-2-7.
#[test]
fn threat_81_names_of_did_github() {
    for good in ["o/r", "o-1/r.x_y-z", "o/r/a.json", "o/r/a/b/c/d/e.json"] {
        assert!(
            format!("did:github:{good}").parse::<Did>().is_ok(),
            "{good}"
        );
    }
    let (owner, repository) = ("o".repeat(39), "r".repeat(100));
    assert!(
        format!("did:github:{owner}/{repository}")
            .parse::<Did>()
            .is_ok()
    );
    for wrong in [
        format!("{owner}o/r"),
        format!("o/{repository}r"),
        "o/..".into(),
        "o/.".into(),
        "../r".into(),
        "o_/r".into(),
        "o.o/r".into(),
        "o/r/".into(),
        "o/r/..".into(),
        "o/r/../x.json".into(),
        "o/r/x/./y.json".into(),
        "o/r//x.json".into(),
        "o/r/x".into(),
        "o/r/a/b/c/d/e/f.json".into(),
        "o/r/%2e%2e.json".into(),
        "o/r/x.json?y".into(),
        "o/r#x".into(),
        "/r".into(),
        "o/".into(),
        String::new(),
    ] {
        assert!(
            format!("did:github:{wrong}").parse::<Did>().is_err(),
            "{wrong}"
        );
    }
    assert_eq!("did:ion:x".parse::<Did>(), Err(DidError::UnsupportedMethod));
}

/// A did:key of another type is a DID, which its refusal says.
#[test]
fn key_types_other_than_ed25519_are_not_supported() {
    for (id, name) in [
        ("z6LSbysY2xFMRpGMhb7tFTLMpeuPRaqaWM1yECx2AtzE3KCc", "X25519"),
        (
            "zQ3shokFTS3brHcDQrn82RUDfCZESWL1ZdCEJwekUDPQiYBme",
            "secp256k1",
        ),
        ("zDnaerDaTF5BXEavCrfRZEk316dpbLsfPDZ3WJ5hRTPFU2169", "P-256"),
        (
            "z82Lm1MpAkeJcix9K8TMiLd5NMAhnwkjjCBeWHXyu3U4oT2MVJJKXkcVBgjGhnLBn2Kaau9",
            "P-384",
        ),
    ] {
        let refused = format!("did:key:{id}").parse::<Did>().unwrap_err();
        assert_eq!(refused, DidError::UnsupportedKeyType(name));
        let text = refused.to_string();
        assert!(
            text.contains("key type") && text.contains("is not supported"),
            "{text}"
        );
    }
    let damaged = "did:key:z6MkIIII".parse::<Did>().unwrap_err();
    assert!(matches!(damaged, DidError::Malformed(_)), "{damaged}");
}

#[test]
fn a_did_has_512_characters() {
    let segments = |total: usize| format!("did:web:a.com:{}", "x".repeat(total - 14));
    assert!(segments(512).parse::<Did>().is_ok());
    assert!(segments(513).parse::<Did>().is_err());
}
