//! Calls that wait for the operator's word, and what it was.

mod memory;

use std::fmt;
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, Row};

use crate::limits::{Size, check_name, within};
use crate::scope::Owner;
use crate::sqlite::{Database, Metered, metered};
use crate::{Error, Hash, Limit, Pending, UnixMillis};

pub(crate) use memory::{InMemory, Table};

/// The held calls of one agent, by the hash of exactly that call. This is the agent's side: it can
/// ask, and use what was granted, but grant nothing.
pub trait HeldCalls: fmt::Debug + Send + Sync {
    /// Asks the operator about a call, unless it was asked before and the question or its answer
    /// has not expired: then that one stands.
    ///
    /// Fails with [`Error::Exists`] if another call has the id.
    fn hold(&self, now: UnixMillis, call: Call) -> Pending<Held>;

    /// Uses what the operator has granted for a call: that call is done once. A refusal stands
    /// until it expires; silence grants nothing.
    fn take(&self, now: UnixMillis, hash: Hash) -> Pending<Option<Held>>;

    /// Nobody waits for this call any more. What was decided stands.
    fn withdraw(&self, hash: Hash) -> Pending<()>;
}

/// The operator's side of the held calls of all agents.
pub trait Approvals: fmt::Debug + Send + Sync {
    /// Shows the calls that wait for a word, one at a time, oldest first, at most [`MAX_LISTED`].
    fn each(&self, now: UnixMillis, show: &mut dyn FnMut(Approval)) -> Pending<()>;

    /// Copies of all of them.
    fn list(&self, now: UnixMillis) -> Pending<Vec<Approval>> {
        let mut all = Vec::new();
        let shown = self.each(now, &mut |approval| all.push(approval)).wait();
        Pending::ready(shown.map(|()| all))
    }

    /// The callers with pending calls, in order: at most `most`, of those behind `after`.
    fn callers(&self, now: UnixMillis, after: Option<Caller>, most: usize) -> Pending<Vec<Caller>>;

    /// Removes all pending calls of a caller. What was decided stands.
    fn withdraw(&self, caller: &Caller) -> Pending<()>;

    /// A call by its id, waiting or decided.
    fn get(&self, now: UnixMillis, id: &str) -> Pending<Option<Approval>>;

    /// Says whether a call may be done, why (for the agent; may be empty), and until when the word
    /// stands. The call as decided.
    ///
    /// Fails with [`Error::TooLarge`] if the reason has more than [`MAX_REASON`] bytes, and with
    /// [`Error::NotFound`] unless the call is waiting, or was granted and is refused now.
    fn decide(
        &self,
        now: UnixMillis,
        id: &str,
        verdict: Verdict,
        reason: &str,
        expires: UnixMillis,
    ) -> Pending<Approval>;
}

/// A call to be held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// How the operator names it; unique among all agents, so a random one.
    pub id: String,
    /// Exactly this call.
    pub hash: Hash,
    /// The DID that its agent came in by, if it came in by one.
    pub did: Option<String>,
    /// What the operator is shown.
    pub shown: Vec<u8>,
    /// When nobody waits for an answer any more.
    pub expires: UnixMillis,
}

/// Whose call it is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Caller {
    /// The agent.
    pub agent: String,
    /// The DID that it came in by, if it came in by one.
    pub did: Option<String>,
}

/// How a call stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// The id under which the operator sees it.
    pub id: String,
    /// The operator's word.
    pub verdict: Verdict,
    /// Why, if the operator said so.
    pub reason: String,
}

/// The operator's word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// None so far.
    Waiting,
    /// It may be done.
    Granted,
    /// It may not.
    Refused,
}

/// A held call as the operator sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approval {
    /// Its id.
    pub id: String,
    /// The agent whose call it is.
    pub agent: String,
    /// Exactly this call.
    pub hash: Hash,
    /// What the agent's side says the call is.
    pub shown: Vec<u8>,
    /// Since when it is held.
    pub created: UnixMillis,
    /// Until when it waits, or the word stands.
    pub expires: UnixMillis,
    /// The operator's word.
    pub verdict: Verdict,
    /// Why, if the operator said so.
    pub reason: String,
}

/// How many held calls are listed at once.
pub const MAX_LISTED: usize = 1_000;

/// Bytes of the reason for a decision.
pub const MAX_REASON: usize = 1_000;

const WHAT: &str = "held call";

impl Call {
    fn check(&self, limit: Limit) -> Result<(), Error> {
        check_name(WHAT, &self.id)?;
        limit.take(WHAT, self.shown.len())
    }

    fn size(&self) -> usize {
        self.id.len() + self.shown.len() + self.did().len() + 32
    }

    fn did(&self) -> &str {
        self.did.as_deref().unwrap_or_default()
    }
}

/// A call waits for a word, so that is none.
fn check_decision(verdict: Verdict, reason: &str) -> Result<(), Error> {
    within("reason", reason.len(), MAX_REASON)?;
    match verdict {
        Verdict::Waiting => Err(Error::NotFound { what: WHAT }),
        Verdict::Granted | Verdict::Refused => Ok(()),
    }
}

/// Whether a word can follow: the first one, and a refusal of what was granted and is not done yet.
const fn may_become(from: Verdict, to: Verdict) -> bool {
    matches!(
        (from, to),
        (Verdict::Waiting, Verdict::Granted | Verdict::Refused)
            | (Verdict::Granted, Verdict::Refused)
    )
}

/// `verdict` is 0 waiting, 1 granted, 2 refused.
pub(crate) const SCHEMA: &str = concat!(
    "CREATE TABLE approvals (
        owner TEXT NOT NULL,
        hash BLOB NOT NULL,
        id TEXT NOT NULL UNIQUE,
        shown BLOB NOT NULL,
        created INTEGER NOT NULL,
        expires INTEGER NOT NULL,
        verdict INTEGER NOT NULL,
        bytes INTEGER NOT NULL,
        PRIMARY KEY (owner, hash)
    ) STRICT;",
    metered!(triggers "approvals")
);

/// The DID that the agent of a call came in by; empty if it came in by none.
pub(crate) const DID: &str = "
ALTER TABLE approvals ADD COLUMN did TEXT NOT NULL DEFAULT '';
";

pub(crate) const TABLE: Metered = metered!("approvals", "held call", "owner, hash");

pub(crate) const REASON: &str = "
ALTER TABLE approvals ADD COLUMN reason TEXT NOT NULL DEFAULT '';
";

const COLUMNS: &str = "id, owner, hash, shown, created, expires, verdict, reason";

#[derive(Debug)]
pub(crate) struct InSqlite {
    database: Arc<Database>,
    owner: Arc<str>,
}

impl InSqlite {
    pub(crate) fn new(database: &Arc<Database>, owner: &Owner) -> Self {
        Self {
            database: Arc::clone(database),
            owner: owner.shared(),
        }
    }
}

impl HeldCalls for InSqlite {
    fn hold(&self, now: UnixMillis, call: Call) -> Pending<Held> {
        let limit = self.database.limits().approvals;
        let owner = Arc::clone(&self.owner);
        self.database.write(call.size(), move |connection| {
            call.check(limit)?;
            if let Some(held) = find(connection, &owner, now, call.hash)? {
                return Ok(held);
            }
            let mut same = connection
                .prepare_cached("SELECT 1 FROM approvals WHERE id = ?1 AND expires > ?2")?;
            if same.exists((&*call.id, now.0))? {
                return Err(Error::Exists { what: WHAT });
            }
            let more = Size::one(call.size());
            TABLE.make_room(connection, (&owner, now), limit, Size::default(), more)?;
            // Whatever is left of these names has expired.
            let mut forget = connection.prepare_cached(
                "DELETE FROM approvals WHERE (owner = ?1 AND hash = ?2) OR id = ?3",
            )?;
            forget.execute((&*owner, call.hash.0, &*call.id))?;
            let mut hold = connection.prepare_cached(
                "INSERT INTO approvals
                     (owner, hash, id, shown, created, expires, verdict, bytes, did)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0, ?7, ?8)",
            )?;
            let (id, shown) = (&*call.id, &*call.shown);
            let times = (now.0, call.expires.0);
            hold.execute((
                &*owner,
                call.hash.0,
                id,
                shown,
                times.0,
                times.1,
                more.bytes,
                call.did(),
            ))?;
            Ok(Held {
                id: call.id.clone(),
                verdict: Verdict::Waiting,
                reason: String::new(),
            })
        })
    }

    fn take(&self, now: UnixMillis, hash: Hash) -> Pending<Option<Held>> {
        let owner = Arc::clone(&self.owner);
        self.database.write(0, move |connection| {
            let held = find(connection, &owner, now, hash)?;
            if held
                .as_ref()
                .is_some_and(|held| held.verdict == Verdict::Granted)
            {
                remove(connection, &owner, hash, Verdict::Granted)?;
            }
            Ok(held)
        })
    }

    fn withdraw(&self, hash: Hash) -> Pending<()> {
        let owner = Arc::clone(&self.owner);
        self.database.write(0, move |connection| {
            remove(connection, &owner, hash, Verdict::Waiting)
        })
    }
}

impl Approvals for InSqlite {
    fn each(&self, now: UnixMillis, show: &mut dyn FnMut(Approval)) -> Pending<()> {
        self.database.read(|connection| {
            let mut list = connection.prepare_cached(&format!(
                "SELECT {COLUMNS} FROM approvals WHERE verdict = 0 AND expires > ?1
                 ORDER BY created, id LIMIT ?2"
            ))?;
            let mut approvals = list.query_map((now.0, MAX_LISTED), approval)?;
            approvals.try_for_each(|approval| {
                show(approval?);
                Ok(())
            })
        })
    }

    fn callers(&self, now: UnixMillis, after: Option<Caller>, most: usize) -> Pending<Vec<Caller>> {
        self.database.read(|connection| {
            // No agent has an empty name.
            let (agent, did) = after.map_or_else(Default::default, |after| {
                (after.agent, after.did.unwrap_or_default())
            });
            let mut list = connection.prepare_cached(
                "SELECT DISTINCT owner, did FROM approvals
                 WHERE verdict = 0 AND expires > ?1 AND (owner, did) > (?2, ?3)
                 ORDER BY owner, did LIMIT ?4",
            )?;
            let callers = list.query_map((now.0, agent, did, most), |row| {
                let did: String = row.get(1)?;
                Ok(Caller {
                    agent: row.get(0)?,
                    did: Some(did).filter(|did| !did.is_empty()),
                })
            })?;
            Ok(callers.collect::<Result<_, _>>()?)
        })
    }

    fn withdraw(&self, caller: &Caller) -> Pending<()> {
        let Caller { agent, did } = caller.clone();
        self.database.write(0, move |connection| {
            let mut remove = connection.prepare_cached(
                "DELETE FROM approvals WHERE owner = ?1 AND did = ?2 AND verdict = 0",
            )?;
            remove.execute((&agent, did.as_deref().unwrap_or_default()))?;
            Ok(())
        })
    }

    fn get(&self, now: UnixMillis, id: &str) -> Pending<Option<Approval>> {
        self.database.read(|connection| {
            let mut get = connection.prepare_cached(&format!(
                "SELECT {COLUMNS} FROM approvals WHERE id = ?1 AND expires > ?2"
            ))?;
            Ok(get.query_row((id, now.0), approval).optional()?)
        })
    }

    fn decide(
        &self,
        now: UnixMillis,
        id: &str,
        verdict: Verdict,
        reason: &str,
        expires: UnixMillis,
    ) -> Pending<Approval> {
        let (id, reason) = (id.to_owned(), reason.to_owned());
        let size = id.len().saturating_add(reason.len());
        self.database.write(size, move |connection| {
            check_decision(verdict, &reason)?;
            // As `may_become` says.
            let mut decide = connection.prepare_cached(&format!(
                "UPDATE approvals SET verdict = ?3, expires = ?4, reason = ?5
                 WHERE id = ?1 AND verdict + 1 <= ?3 AND expires > ?2 RETURNING {COLUMNS}"
            ))?;
            let decided = (&*id, now.0, number(verdict), expires.0, &*reason);
            let approval = decide.query_row(decided, approval).optional()?;
            approval.ok_or(Error::NotFound { what: WHAT })
        })
    }
}

/// How a call stands, if it was held and has not expired.
fn find(
    connection: &Connection,
    owner: &str,
    now: UnixMillis,
    hash: Hash,
) -> Result<Option<Held>, Error> {
    let mut find = connection.prepare_cached(
        "SELECT id, verdict, reason FROM approvals WHERE owner = ?1 AND hash = ?2 AND expires > ?3",
    )?;
    let held = find.query_row((owner, hash.0, now.0), |row| {
        Ok(Held {
            id: row.get(0)?,
            verdict: verdict(row.get(1)?),
            reason: row.get(2)?,
        })
    });
    Ok(held.optional()?)
}

fn remove(connection: &Connection, owner: &str, hash: Hash, verdict: Verdict) -> Result<(), Error> {
    let mut remove = connection
        .prepare_cached("DELETE FROM approvals WHERE owner = ?1 AND hash = ?2 AND verdict = ?3")?;
    remove.execute((owner, hash.0, number(verdict)))?;
    Ok(())
}

/// In a copy that is opened for the first time: what waits may have been decided since it was made,
/// and what was approved may have been done. Both are withdrawn; refusals stand. Returns how many
/// there were.
pub(crate) fn take_over(connection: &Connection) -> Result<usize, Error> {
    let mut withdraw = connection.prepare("DELETE FROM approvals WHERE verdict <> ?1")?;
    Ok(withdraw.execute([number(Verdict::Refused)])?)
}

fn approval(row: &Row<'_>) -> rusqlite::Result<Approval> {
    Ok(Approval {
        id: row.get(0)?,
        agent: row.get(1)?,
        hash: Hash(row.get(2)?),
        shown: row.get(3)?,
        created: UnixMillis(row.get(4)?),
        expires: UnixMillis(row.get(5)?),
        verdict: verdict(row.get(6)?),
        reason: row.get(7)?,
    })
}

const fn number(verdict: Verdict) -> i64 {
    match verdict {
        Verdict::Waiting => 0,
        Verdict::Granted => 1,
        Verdict::Refused => 2,
    }
}

/// What cannot be read grants nothing.
const fn verdict(number: i64) -> Verdict {
    match number {
        0 => Verdict::Waiting,
        1 => Verdict::Granted,
        _ => Verdict::Refused,
    }
}
