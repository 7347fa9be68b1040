//! A node's keys, a clock that stands still, and randomness that does not surprise.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use a2a_identity::{Did, DidKey, JwsError, Key, KeySet, KeyStatus, Peer, Signed, SigningKey, sign};
use a2a_wire::{AuditPayload, Count, UnixSeconds};
use audit::{
    Alarm, Body, Check, Checkpoint, DidText, Error, Event, KeyCheck, Log, NoRandomness, NotSigned,
    Parts, PolicyChecks, Record, Refusal, Report, Settings, Signer, SyncWhen, UnixMillis, Verdict,
    verify_folder,
};
use canonical::base64url;
use tempfile::TempDir;

pub(crate) const NOW: i64 = 1_770_000_000_000;
pub(crate) const DAY: i64 = 24 * 3600 * 1000;

/// The key of a seed of equal bytes.
#[derive(Clone, Copy)]
pub(crate) struct Keys(pub(crate) u8);

impl Keys {
    fn key(self) -> SigningKey {
        SigningKey::from_seed(&[self.0; 32])
    }

    pub(crate) fn public(self) -> String {
        base64url::encode(&self.key().verifying_key().to_bytes())
    }

    pub(crate) fn kid(self) -> String {
        format!("sig-{}", self.0)
    }
}

impl Signer for Keys {
    fn sign(&self, checkpoint: &Checkpoint) -> Result<String, NotSigned> {
        let key = self.key();
        let payload = AuditPayload {
            issuer: Did::Key(DidKey::new(key.verifying_key()))
                .to_text()
                .unwrap(),
            timestamp: UnixSeconds(checkpoint.timestamp),
            log_id: checkpoint.log_id.parse().unwrap(),
            seq: Count::new(checkpoint.seq).unwrap(),
            head_hash: checkpoint.head_hash,
        };
        Ok(sign(&payload, &self.kid().parse().unwrap(), &key))
    }
}

impl KeyCheck for Keys {
    fn check(&self, jws: &str) -> Result<Checkpoint, Refusal> {
        check_with(&[(self.kid().as_str(), self.0)], jws)
    }
}

/// Checks a checkpoint with the keys of these names and seeds.
pub(crate) fn check_with(keys: &[(&str, u8)], jws: &str) -> Result<Checkpoint, Refusal> {
    let invalid = |error: JwsError| Refusal::Invalid(error.to_string());
    let text = jws.parse().map_err(|_| Refusal::Invalid("no JWS".into()))?;
    let signed = Signed::<AuditPayload>::parse(&text, Peer::Profile).map_err(invalid)?;
    let keys = keys.iter().map(|(kid, seed)| Key {
        kid: kid.parse().unwrap(),
        key: Keys(*seed).key().verifying_key(),
        status: KeyStatus::Active,
        expires_at: None,
    });
    let keys = KeySet::new(keys.collect()).unwrap();
    let claimed = signed.read_unverified();
    let of = |payload: &AuditPayload| Checkpoint {
        log_id: payload.log_id.as_str().to_owned(),
        seq: payload.seq.get(),
        head_hash: payload.head_hash,
        timestamp: payload.timestamp.0,
    };
    match signed.verify(&keys, UnixSeconds(0)) {
        Ok(verified) => Ok(of(verified.payload())),
        Err(JwsError::UnknownKey) => Err(match claimed {
            Ok(payload) => Refusal::UnknownKey(of(&payload)),
            Err(error) => Refusal::Invalid(error.to_string()),
        }),
        Err(error) => Err(invalid(error)),
    }
}

/// Bytes that look random and are the same in every run.
pub(crate) fn random(seed: u64) -> impl FnMut(&mut [u8]) -> Result<(), NoRandomness> + Send {
    let mut state = seed | 1;
    move |bytes: &mut [u8]| {
        for byte in bytes {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            *byte = (state >> 24) as u8;
        }
        Ok(())
    }
}

/// A folder with a log in it, and time that only a test moves.
pub(crate) struct Place {
    /// Removed with it.
    home: Option<TempDir>,
    folder: PathBuf,
    pub(crate) settings: Settings,
    pub(crate) keys: Keys,
    clock: Arc<AtomicI64>,
    alarms: Arc<Mutex<Vec<String>>>,
    cache: Cache,
}

/// Every source of randomness in a test is another one.
static SEEDS: AtomicU64 = AtomicU64::new(1);

/// What was found about checkpoints: tests that verify a log thousands of times need not verify
/// each signature as often.
#[derive(Default)]
struct Cache(Mutex<HashMap<(u8, String), Result<Checkpoint, Refusal>>>);

impl Place {
    fn keys_once(&self) -> impl KeyCheck + '_ {
        struct Once<'a>(&'a Place);
        impl KeyCheck for Once<'_> {
            fn check(&self, jws: &str) -> Result<Checkpoint, Refusal> {
                let Place { keys, cache, .. } = self.0;
                let mut cache = cache.0.lock().unwrap();
                let known = cache.entry((keys.0, jws.to_owned()));
                known.or_insert_with(|| keys.check(jws)).clone()
            }
        }
        Once(self)
    }
}

impl Place {
    pub(crate) fn new() -> Self {
        let home = TempDir::new().unwrap();
        Self {
            folder: home.path().join("audit"),
            home: Some(home),
            ..Self::at(PathBuf::new())
        }
    }

    /// One in a folder that is there.
    pub(crate) fn at(folder: PathBuf) -> Self {
        Self {
            home: None,
            folder,
            settings: Settings {
                sync: SyncWhen::Never,
                checkpoint_records: 5,
                queue_bytes: 64 * 1024,
                name: "test".into(),
                ..Settings::default()
            },
            keys: Keys(1),
            clock: Arc::new(AtomicI64::new(NOW)),
            alarms: Arc::default(),
            cache: Cache::default(),
        }
    }

    pub(crate) fn home(&self) -> &Path {
        self.home.as_ref().unwrap().path()
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self.folder.clone()
    }

    pub(crate) fn parts(&self) -> Parts {
        let (clock, alarms) = (Arc::clone(&self.clock), Arc::clone(&self.alarms));
        let seed = SEEDS.fetch_add(1, Ordering::Relaxed);
        Parts {
            signer: Box::new(self.keys),
            keys: Box::new(self.keys),
            random: Box::new(random(seed * 0x9e37_79b9)),
            clock: Box::new(move || UnixMillis(clock.load(Ordering::Relaxed))),
            alarm: Box::new(move |alarm: &Alarm| alarms.lock().unwrap().push(alarm.to_string())),
        }
    }

    pub(crate) fn open(&self) -> Log {
        self.open_with(self.parts()).unwrap()
    }

    pub(crate) fn open_with(&self, parts: Parts) -> Result<Log, Error> {
        Log::open(&self.folder(), self.settings.clone(), parts)
    }

    pub(crate) fn pass(&self, millis: i64) {
        self.clock.fetch_add(millis, Ordering::Relaxed);
    }

    pub(crate) fn now(&self) -> UnixMillis {
        UnixMillis(self.clock.load(Ordering::Relaxed))
    }

    /// What the operator was told since this was last asked.
    pub(crate) fn alarms(&self) -> Vec<String> {
        std::mem::take(&mut self.alarms.lock().unwrap())
    }

    pub(crate) fn verify(&self) -> Report {
        verify_folder(&self.folder(), &self.keys_once()).unwrap()
    }

    /// Verifies what must be intact.
    pub(crate) fn intact(&self) -> Report {
        let report = self.verify();
        assert!(report.is_intact(), "{:#?}", report.faults);
        report
    }

    /// Whether verification names anything.
    pub(crate) fn is_damaged(&self) -> bool {
        let report = self.verify();
        !report.is_intact() || !report.unfinished.is_empty()
    }

    /// Verifies what must not be; returns what is wrong, in words.
    pub(crate) fn faults(&self) -> Vec<String> {
        let faults = self.verify().faults;
        assert!(!faults.is_empty(), "nothing was found");
        faults.iter().map(ToString::to_string).collect()
    }

    /// The files of the log that hold anything, from its folder on.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let folders = [self.folder(), self.folder().join("checkpoints")];
        let entries = folders.iter().flat_map(|path| fs::read_dir(path).unwrap());
        let mut files: Vec<PathBuf> = entries
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|ending| ending == "jsonl"))
            .collect();
        files.sort();
        files
    }

    pub(crate) fn segment(&self, number: u64) -> PathBuf {
        self.folder().join(format!("audit-{number:08}.jsonl"))
    }

    /// All lines of the log, in their order.
    pub(crate) fn lines(&self) -> Vec<String> {
        let segments = audit::segments(&self.folder()).unwrap();
        let texts = segments
            .iter()
            .map(|one| fs::read_to_string(&one.path).unwrap());
        texts
            .flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>())
            .collect()
    }

    pub(crate) fn checkpoint_file(&self) -> PathBuf {
        let mut files = self.files().into_iter();
        files
            .find(|path| path.parent() != Some(&self.folder()))
            .unwrap()
    }
}

/// A request as A2E has it.
pub(crate) fn request(name: &str) -> Record<'_> {
    Record {
        event: Event::Request,
        body: Body {
            agent: Some("default"),
            session_id: Some("sha256:0000"),
            request_id: Some("r-1"),
            correlation_id: Some("c-1"),
            message_type: Some("tool/call/req"),
            capability: Some("tools"),
            name: Some(name),
            rule: Some("default"),
            policy_checks: Some(PolicyChecks {
                rate_limit: Some(Check::Passed),
                rule_allowed: Some(Check::Passed),
                ..PolicyChecks::default()
            }),
            result: Some(Verdict::Approved),
            response_status: Some("success"),
            processing_time_ms: Some(7),
            input_bytes: Some(120),
            output_bytes: Some(80),
            remote_ip: Some([192, 0, 2, 7].into()),
            ..Body::default()
        },
    }
}

/// A request as A2A has it.
pub(crate) fn intent(goal: &str) -> Record<'_> {
    Record {
        event: Event::Request,
        body: Body {
            remote_agent_did: Some(DidText(
                "did:key:z6Mkon3Necd6NkkyfoGoHxid2znGc59LU3K7mubaRcFbLfLX",
            )),
            session_id: Some("QEFCQ0RFRkdISUpLTE1OT1BRUlNUVVZXWFlaW1xdXl8"),
            intent_goal: Some(goal),
            result: Some(Verdict::Rejected),
            response_status: Some("POLICY_VIOLATION"),
            ..Body::default()
        },
    }
}

pub(crate) fn append(log: &Log, name: &str) -> u64 {
    log.append(&request(name)).unwrap().wait().unwrap().seq
}
