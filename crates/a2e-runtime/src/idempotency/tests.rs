use super::*;
use crate::snapshot::MemoryStore;

const SECOND: Duration = Duration::from_secs(1);

fn request(text: &str) -> Vec<u8> {
    format!(r#"{{"a2e":"1.0","ts":1,"type":"tool/call/req","id":"1","arguments":{text}}}"#).into()
}

fn begin(cache: &Arc<IdempotencyCache>, now: Duration, id: &str, line: Vec<u8>) -> Begun {
    cache.begin(now, &id.to_owned().into(), line.into())
}

#[track_caller]
fn new(cache: &Arc<IdempotencyCache>, now: Duration, id: &str) -> Key {
    let Begun::New(key) = begin(cache, now, id, request("{}")) else {
        panic!("{id}")
    };
    key
}

#[track_caller]
fn again(cache: &Arc<IdempotencyCache>, now: Duration, id: &str) -> Follow {
    let Begun::Again(follow) = begin(cache, now, id, request("{}")) else {
        panic!("{id}")
    };
    follow
}

fn response(text: &[u8]) -> Option<Piece> {
    Some(Piece::Outcome(Outcome::Response(Line::new(text))))
}

fn event(text: &[u8]) -> Option<Piece> {
    Some(Piece::Event(Line::new(text)))
}

/// The caches of one process after another, with one store.
fn stored() -> (Arc<MemoryStore>, impl Fn() -> IdempotencyCaches) {
    let store = Arc::new(MemoryStore::default());
    let recorded: Arc<dyn SnapshotStore> = Arc::<MemoryStore>::clone(&store);
    let start = move || IdempotencyCaches::new(Some(Arc::clone(&recorded)));
    (store, start)
}

/// Begins a request whose effect outlives the process.
async fn executed(cache: &Arc<IdempotencyCache>, now: Duration, id: &str) -> Key {
    let key = new(cache, now, id);
    cache.note_effect(&key);
    assert!(Arc::clone(cache).record_begun(key.clone()).await.unwrap());
    key
}

#[tokio::test]
async fn retry_gets_the_events_and_the_response() {
    let cache = Arc::new(IdempotencyCache::default());
    let key = new(&cache, SECOND, "1");
    cache.event(&key, b"event");
    cache.end(SECOND, &key, Ending::Responded, b"response");
    let mut follow = again(&cache, SECOND, "1");
    assert_eq!(follow.next().await, event(b"event"));
    assert_eq!(follow.next().await, response(b"response"));
}

#[tokio::test]
async fn retry_of_a_running_request_follows_it() {
    let cache = Arc::new(IdempotencyCache::default());
    let key = new(&cache, SECOND, "1");
    let mut follow = again(&cache, SECOND, "1");
    let (piece, ()) = tokio::join!(follow.next(), async { cache.event(&key, b"event") });
    assert_eq!(piece, event(b"event"));
    cache.end(SECOND, &key, Ending::RetryAllowed, b"");
    assert_eq!(follow.next().await, None, "it may be sent again");
    // Another request under this id is not what it followed.
    let other = new(&cache, SECOND, "1");
    cache.end(SECOND, &other, Ending::Responded, b"response");
    assert_eq!(follow.next().await, None);
}

/// Each way of ending, with and without a possible effect: what a retry gets.
#[tokio::test]
async fn ending_decides_what_a_retry_gets() {
    for (ending, has_effect, expected) in [
        (Ending::Responded, true, response(b"r")),
        (Ending::Responded, false, response(b"r")),
        (Ending::RetryAllowed, true, None),
        (Ending::RetryAllowed, false, None),
        (
            Ending::Interrupted,
            true,
            Some(Piece::Outcome(Outcome::Interrupted)),
        ),
        (Ending::Interrupted, false, None),
    ] {
        let cache = Arc::new(IdempotencyCache::default());
        let key = new(&cache, SECOND, "1");
        if has_effect {
            cache.note_effect(&key);
        }
        let mut waiting = again(&cache, SECOND, "1");
        let (piece, ()) = tokio::join!(waiting.next(), async {
            cache.end(SECOND, &key, ending, b"r");
        });
        assert_eq!(piece, expected, "{ending:?} {has_effect}");
        if expected.is_some() {
            assert_eq!(again(&cache, SECOND, "1").next().await, expected);
        } else {
            new(&cache, SECOND, "1");
        }
    }
}

#[test]
fn members_that_each_sending_changes_do_not_count() {
    let cache = Arc::new(IdempotencyCache::default());
    begin(&cache, SECOND, "1", request(r#"{"a":1,"b":[2.0]}"#));
    let same = br#"{"ts":2,"session_id":"x","arguments":{"b":[2],"a":1e0},"id":"1","type":"tool/call/req"}"#;
    let begun = begin(&cache, SECOND, "1", same.to_vec());
    assert!(matches!(begun, Begun::Again(_)));
    for other in [
        r#"{"a":2,"b":[2]}"#,
        r#"{"a":1}"#,
        r#"{"a":1,"b":[2],"c":0}"#,
    ] {
        let begun = begin(&cache, SECOND, "1", request(other));
        assert!(matches!(begun, Begun::Reused), "{other}");
    }
    new(&cache, SECOND, "2");
}

/// They are the same as doubles.
#[test]
fn great_numbers_are_not_mistaken_for_one_another() {
    let cache = Arc::new(IdempotencyCache::default());
    begin(&cache, SECOND, "1", request("{\"n\":9007199254740992}"));
    let other = request("{\"n\":9007199254740993}");
    assert!(matches!(begin(&cache, SECOND, "1", other), Begun::Reused));
    let same = request("{\"n\":9007199254740992}");
    assert!(matches!(begin(&cache, SECOND, "1", same), Begun::Again(_)));
}

/// However long it ran.
#[test]
fn request_is_retained_for_ten_minutes_after_its_end() {
    let cache = Arc::new(IdempotencyCache::default());
    let key = new(&cache, SECOND, "1");
    let end = SECOND * 5000;
    again(&cache, end, "1");
    cache.end(end, &key, Ending::Responded, b"response");
    again(&cache, end + RETENTION - Duration::from_nanos(1), "1");
    new(&cache, end + RETENTION, "1");
}

#[test]
fn oldest_of_ten_thousand_requests_makes_room() {
    let cache = Arc::new(IdempotencyCache::default());
    let running = new(&cache, SECOND, "running");
    for number in 0..=MAX_ENTRIES {
        let key = new(&cache, SECOND, &number.to_string());
        cache.end(SECOND, &key, Ending::Responded, b"");
    }
    assert_eq!(cache.lock().ended.len(), MAX_ENTRIES);
    new(&cache, SECOND, "0");
    again(&cache, SECOND, "1");
    again(&cache, SECOND, "running");
    cache.end(SECOND, &running, Ending::Responded, b"");
    again(&cache, SECOND, "running");
    new(&cache, SECOND, "1");
}

#[test]
fn oldest_of_64_mib_make_room() {
    let cache = Arc::new(IdempotencyCache::default());
    let half = vec![b'x'; MAX_BYTES / 2 - request("{}").len()];
    for id in ["a", "b"] {
        let key = new(&cache, SECOND, id);
        cache.end(SECOND, &key, Ending::Responded, &half);
    }
    assert_eq!(cache.lock().budget.used(), MAX_BYTES);
    let key = new(&cache, SECOND, "c");
    cache.end(SECOND, &key, Ending::Responded, b"");
    new(&cache, SECOND, "a");
    again(&cache, SECOND, "b");
    again(&cache, SECOND, "c");
    // One that is larger than that is retained too, alone.
    let key = new(&cache, SECOND, "d");
    cache.end(SECOND, &key, Ending::Responded, &vec![b'x'; MAX_BYTES + 1]);
    again(&cache, SECOND, "d");
    assert_eq!(cache.lock().ended.len(), 1);
    assert_eq!(cache.lock().budget.used(), MAX_BYTES);
}

/// A stream without an end is not retained to its end; its response is.
#[tokio::test]
async fn events_beyond_the_limit_are_not_sent_again() {
    let cache = Arc::new(IdempotencyCache::default());
    let key = new(&cache, SECOND, "1");
    let part = vec![b'e'; MAX_ENTRY / 4];
    for _ in 0..10 {
        cache.event(&key, &part);
    }
    cache.end(SECOND, &key, Ending::Responded, b"response");
    let mut follow = again(&cache, SECOND, "1");
    for _ in 0..3 {
        assert_eq!(follow.next().await, event(&part));
    }
    assert_eq!(follow.next().await, response(b"response"));
    assert!(cache.lock().budget.used() <= MAX_ENTRY + 10);
}

#[test]
fn agents_and_sessions_have_caches_of_their_own() {
    let caches = IdempotencyCaches::new(None);
    new(&caches.of_agent("a"), SECOND, "1");
    again(&caches.of_agent("a"), SECOND, "1");
    new(&caches.of_agent("b"), SECOND, "1");
    new(&caches.of_session("a"), SECOND, "1");
}

/// As many agents as there may be entries of one: none of their caches goes before its time.
#[test]
fn caches_of_ten_thousand_agents_are_retained() {
    let caches = IdempotencyCaches::new(None);
    for agent in 0..=MAX_ENTRIES {
        let cache = caches.of_agent(&agent.to_string());
        let key = new(&cache, SECOND, "1");
        cache.end(SECOND, &key, Ending::Responded, b"response");
    }
    caches.remove_expired(RETENTION).unwrap();
    for agent in 0..=MAX_ENTRIES {
        again(&caches.of_agent(&agent.to_string()), RETENTION, "1");
    }
    caches.remove_expired(SECOND + RETENTION).unwrap();
    assert!(caches.lock().is_empty());
}

/// What each request came to is known to the next process, and to the one after that.
#[tokio::test]
async fn next_process_knows_what_was_executed() {
    let (_, start) = stored();
    let cache = start().of_agent("a");
    for (id, ending) in [
        ("responded", Ending::Responded),
        ("interrupted", Ending::Interrupted),
        ("retry allowed", Ending::RetryAllowed),
    ] {
        let key = executed(&cache, SECOND, id).await;
        cache.end(SECOND, &key, ending, "\"quoted\"\n".as_bytes());
    }
    executed(&cache, SECOND, "running \"1\"\n").await;
    new(&cache, SECOND, "without effect");
    for _ in 0..2 {
        let cache = start().of_agent("a");
        for (id, expected) in [
            ("responded", Outcome::Response(Line::new(b"\"quoted\"\n"))),
            ("interrupted", Outcome::Interrupted),
            ("running \"1\"\n", Outcome::Interrupted),
        ] {
            let expected = Some(Piece::Outcome(expected));
            assert_eq!(again(&cache, SECOND, id).next().await, expected, "{id}");
            let other = begin(&cache, SECOND, id, request(r#"{"n":2}"#));
            assert!(matches!(other, Begun::Reused), "{id}");
        }
        let key = new(&cache, SECOND, "retry allowed");
        cache.end(SECOND, &key, Ending::RetryAllowed, b"");
        let key = new(&cache, SECOND, "without effect");
        cache.end(SECOND, &key, Ending::RetryAllowed, b"");
        // A change of this process replaces the record.
        let key = executed(&cache, SECOND, "other").await;
        cache.end(SECOND, &key, Ending::RetryAllowed, b"");
    }
}

/// It would be executed without a record, after its session has given it up.
#[tokio::test]
async fn request_that_is_interrupted_before_it_is_recorded_is_not_executed() {
    let (_, start) = stored();
    let cache = start().of_agent("a");
    let key = new(&cache, SECOND, "1");
    cache.note_effect(&key);
    cache.end(SECOND, &key, Ending::Interrupted, b"");
    assert!(!cache.record_begun(key).await.unwrap());
}

/// A request without a canonical form is recognised if it is the very same.
#[tokio::test]
async fn request_without_canonical_form_is_recognised_after_a_restart() {
    let (_, start) = stored();
    let cache = start().of_agent("a");
    let odd = request(r#"{"n":1e999}"#);
    let Begun::New(key) = begin(&cache, SECOND, "1", odd.clone()) else {
        panic!()
    };
    Arc::clone(&cache).record_begun(key).await.unwrap();
    let next = start().of_agent("a");
    assert!(matches!(begin(&next, SECOND, "1", odd), Begun::Again(_)));
}

/// However many others come and go meanwhile: what runs is never forgotten.
#[tokio::test]
async fn long_request_is_known_to_the_next_process() {
    let (_, start) = stored();
    let cache = start().of_agent("a");
    executed(&cache, SECOND, "long").await;
    for number in 0..MAX_ENTRIES + 10 {
        let key = executed(&cache, RETENTION * 3, &number.to_string()).await;
        cache.end(RETENTION * 3, &key, Ending::Responded, b"");
    }
    let next = start().of_agent("a");
    let expected = Some(Piece::Outcome(Outcome::Interrupted));
    assert_eq!(again(&next, SECOND, "long").next().await, expected);
    // It was interrupted by the end of its process, so it is retained from the start of this one.
    again(&next, RETENTION - SECOND, "long");
    new(&next, RETENTION, "long");
}

#[tokio::test]
async fn record_is_replaced_before_it_grows_without_end() {
    let (store, start) = stored();
    let cache = start().of_agent("a");
    let mut longest = 0;
    for number in 0..2000_u32 {
        let now = RETENTION * number / 10;
        let key = executed(&cache, now, &number.to_string()).await;
        cache.end(now, &key, Ending::Responded, &[b'x'; 1000]);
        let key = store.keys().unwrap().remove(0);
        longest = longest.max(store.get(&key).unwrap().unwrap().len());
    }
    assert!(longest < 100_000, "{longest}");
}

/// Nothing of a request stays in the store when it is not retained any more.
#[tokio::test]
async fn expired_requests_are_removed_from_the_store() {
    let (store, start) = stored();
    let caches = start();
    let cache = caches.of_agent("a");
    let key = executed(&cache, SECOND, "1").await;
    cache.end(SECOND, &key, Ending::Responded, b"response");
    caches.remove_expired(RETENTION).unwrap();
    assert_eq!(store.keys().unwrap().len(), 1);
    caches.remove_expired(SECOND + RETENTION).unwrap();
    assert!(store.keys().unwrap().is_empty());
    executed(&cache, SECOND, "1").await;
    // The next process has not been asked for it.
    let next = start();
    next.remove_expired(RETENTION - SECOND).unwrap();
    assert_eq!(store.keys().unwrap().len(), 1);
    next.remove_expired(RETENTION).unwrap();
    assert!(store.keys().unwrap().is_empty());
}

#[tokio::test]
async fn cache_of_a_session_goes_with_it() {
    let (store, start) = stored();
    let caches = start();
    let cache = caches.of_session("s");
    let key = executed(&cache, SECOND, "1").await;
    caches.remove_session("s");
    cache.end(SECOND, &key, Ending::Interrupted, b"");
    assert!(store.keys().unwrap().is_empty());
}

/// A store that fails when it is told to.
#[derive(Default)]
struct Failing {
    store: MemoryStore,
    fails: std::sync::atomic::AtomicBool,
}

impl Failing {
    fn check(&self) -> io::Result<()> {
        match self.fails.load(std::sync::atomic::Ordering::SeqCst) {
            true => Err(io::Error::other("the disk is full")),
            false => Ok(()),
        }
    }

    fn set(&self, fails: bool) {
        self.fails.store(fails, std::sync::atomic::Ordering::SeqCst);
    }
}

impl SnapshotStore for Failing {
    fn append(&self, key: &str, bytes: &[u8]) -> io::Result<()> {
        self.check().and_then(|()| self.store.append(key, bytes))
    }

    fn put(&self, key: &str, bytes: &[u8]) -> io::Result<()> {
        self.check().and_then(|()| self.store.put(key, bytes))
    }

    fn get(&self, key: &str) -> io::Result<Option<Vec<u8>>> {
        self.check().and_then(|()| self.store.get(key))
    }

    fn remove(&self, key: &str) -> io::Result<()> {
        self.check().and_then(|()| self.store.remove(key))
    }

    fn keys(&self) -> io::Result<Vec<String>> {
        self.store.keys()
    }
}

/// What was executed stays so when that cannot be written, and is written with the next change.
#[tokio::test]
async fn failed_write_does_not_forget_what_was_executed() {
    let store = Arc::new(Failing::default());
    let start = || IdempotencyCaches::new(Some(Arc::<Failing>::clone(&store)));
    let cache = start().of_agent("a");
    let first = executed(&cache, SECOND, "1").await;
    store.set(true);
    cache.end(SECOND, &first, Ending::Responded, b"response");
    assert_eq!(
        again(&cache, SECOND, "1").next().await,
        response(b"response")
    );
    // What cannot be recorded is not begun.
    let second = new(&cache, SECOND, "2");
    let begun = Arc::clone(&cache).record_begun(second.clone()).await;
    assert_eq!(begun.unwrap_err().to_string(), "the disk is full");
    cache.end(SECOND, &second, Ending::RetryAllowed, b"");
    // Neither is anything as long as nobody knows what an earlier process has begun.
    let unread = start().of_agent("a");
    let unknown = new(&unread, SECOND, "1");
    assert!(
        Arc::clone(&unread)
            .record_begun(unknown.clone())
            .await
            .is_err()
    );
    unread.end(SECOND, &unknown, Ending::RetryAllowed, b"");

    store.set(false);
    let mut known = again(&unread, SECOND, "1");
    let interrupted = Some(Piece::Outcome(Outcome::Interrupted));
    assert_eq!(
        known.next().await,
        interrupted,
        "the response is not written yet"
    );
    executed(&cache, SECOND, "3").await;
    let mut known = again(&start().of_agent("a"), SECOND, "1");
    assert_eq!(known.next().await, response(b"response"));
}
