use std::hash::{BuildHasherDefault, DefaultHasher};
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

fn attempts() -> Attempts<BuildHasherDefault<DefaultHasher>> {
    Attempts::new(BuildHasherDefault::new(), BuildHasherDefault::new())
}

fn from(address: &str) -> Source {
    Source::Address(address.parse().unwrap())
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Fails as often as it may.
fn exhaust<H: BuildHasher>(attempts: &mut Attempts<H>, now: Duration, source: Source) -> u32 {
    let mut failures = 0;
    while attempts.may_try(now, source) {
        attempts.failed(now, source);
        failures += 1;
    }
    failures
}

#[test]
fn ten_failures_at_once_and_then_one_in_six_seconds() {
    let mut attempts = attempts();
    let source = from("192.0.2.1");
    assert_eq!(exhaust(&mut attempts, seconds(100), source), 10);
    assert!(!attempts.may_try(seconds(106) - Duration::from_millis(1), source));
    assert_eq!(exhaust(&mut attempts, seconds(106), source), 1);
    assert_eq!(exhaust(&mut attempts, seconds(118), source), 2);
    assert_eq!(exhaust(&mut attempts, seconds(1000), source), 10);
}

/// All processes of the machine count as one over TCP, so it takes more of them.
#[test]
fn a_local_agent_with_a_wrong_token_does_not_lock_out_the_others() {
    let mut attempts = attempts();
    let local = from("127.0.0.1");
    for second in 0..10_000 {
        assert!(attempts.may_try(seconds(second), local));
        attempts.failed(seconds(second), local);
    }
    assert_eq!(exhaust(&mut attempts, seconds(20_000), local), 541);
}

#[test]
fn what_counts_as_one_source() {
    for (one, other, same) in [
        ("192.0.2.1", "192.0.2.2", false),
        ("192.0.2.1", "::ffff:192.0.2.1", true),
        ("2001:db8::1", "2001:db8::ffff:0:0:1", true),
        ("2001:db8::1", "2001:db8:0:1::1", false),
        ("127.0.0.1", "127.8.9.10", true),
        ("127.0.0.1", "::1", true),
    ] {
        let mut attempts = attempts();
        exhaust(&mut attempts, Duration::ZERO, from(one));
        let blocked = !attempts.may_try(Duration::ZERO, from(other));
        assert_eq!(blocked, same, "{one} {other}");
    }
    let mut attempts = attempts();
    assert_eq!(exhaust(&mut attempts, Duration::ZERO, Source::User(0)), 10);
    assert!(attempts.may_try(Duration::ZERO, Source::User(1)));
    attempts.failed(Duration::ZERO, Source::Own);
    assert!((0..100).all(|_| attempts.may_try(Duration::ZERO, Source::Own)));
}

/// Nobody can have his count forgotten, or others locked out, by making up sources.
#[test]
fn a_flood_of_other_sources() {
    let mut attempts = attempts();
    let guilty = from("2001:db8::1");
    exhaust(&mut attempts, Duration::ZERO, guilty);
    let address = |n: u32| Source::Address(Ipv4Addr::from_bits(0x0a00_0000 + n).into());
    for n in 0..2_000 {
        exhaust(&mut attempts, Duration::ZERO, address(n));
    }
    let innocent = (100_000..101_000).map(address);
    assert_eq!(
        innocent
            .filter(|&it| attempts.may_try(Duration::ZERO, it))
            .count(),
        1_000
    );
    for n in 0..50_000 {
        attempts.failed(Duration::ZERO, address(n));
    }
    assert!(!attempts.may_try(Duration::ZERO, guilty));
    assert!(attempts.may_try(Duration::ZERO, Source::User(1)));
    assert!(attempts.may_try(Duration::ZERO, from("127.0.0.1")));
    assert_eq!(attempts.remote.cells.len(), ROWS * CELLS);
}

/// Counts how often it is asked, and knows one token.
#[derive(Default)]
struct Asked(AtomicUsize);

impl Authenticator for Asked {
    fn required(&self) -> bool {
        true
    }

    fn authenticate<'a>(
        &'a self,
        login: &'a Login,
        _: Source,
    ) -> BoxFuture<'a, Result<Identity, HandshakeReason<'static>>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        let agent = "a".to_owned();
        Box::pin(async move {
            // Others get a turn meanwhile.
            tokio::task::yield_now().await;
            match login.auth_token.as_str() {
                "good" | "random" => Ok(Identity::named(agent)),
                "broken" => Err(HandshakeReason::ServerError),
                _ => Err(HandshakeReason::AuthFailed),
            }
        })
    }

    fn recognise(&self, login: &Login) -> Option<Identity> {
        let agent = "a".to_owned();
        (login.auth_token == "random").then(|| Identity::named(agent))
    }
}

fn login(token: &str) -> Login {
    Login {
        agent_id: a2e_wire::AgentId::default(),
        auth_token: token.into(),
        resume: None,
    }
}

#[tokio::test(start_paused = true)]
async fn a_blocked_source_makes_no_more_guesses() {
    let limited = Limited::new(Asked::default());
    let source = from("192.0.2.1");
    let answer = async |token: &str, source| limited.authenticate(&login(token), source).await;
    for _ in 0..9 {
        assert!(answer("bad", source).await.is_err());
    }
    // Neither a success nor a failure of ours changes the count.
    assert!(answer("good", source).await.is_ok());
    assert!(answer("broken", source).await.is_err());
    assert!(answer("good", source).await.is_ok());
    assert_eq!(
        answer("bad", source).await,
        Err(HandshakeReason::AuthFailed)
    );
    assert_eq!(limited.inner.0.load(Ordering::Relaxed), 13);
    assert_eq!(
        answer("good", source).await,
        Err(HandshakeReason::AuthFailed)
    );
    // What nobody guesses is let in all the same, and changes nothing for the others.
    assert!(answer("random", source).await.is_ok());
    assert!(answer("good", source).await.is_err());
    assert_eq!(limited.inner.0.load(Ordering::Relaxed), 13);
    assert!(answer("good", from("192.0.2.2")).await.is_ok());
    tokio::time::advance(PER_FAILURE).await;
    assert!(answer("good", source).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn attempts_at_once_do_not_each_count_as_the_first() {
    let limited = Limited::new(Asked::default());
    let source = from("192.0.2.1");
    let (good, random, bad) = (login("good"), login("random"), login("bad"));
    let mut early = limited.authenticate(&good, source);
    let mut unguessable = limited.authenticate(&random, source);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(early.as_mut().poll(&mut context).is_pending());
    assert!(unguessable.as_mut().poll(&mut context).is_pending());
    for _ in 0..10 {
        assert!(limited.authenticate(&bad, source).await.is_err());
    }
    assert_eq!(early.await, Err(HandshakeReason::AuthFailed));
    assert!(unguessable.await.is_ok());
}
