//! Keeping entries.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use rusqlite::{Connection, OptionalExtension};

use super::super::analysis::Analysis;
use super::super::{NewEntry, Overflow, Room, Rooms, Tier, WHAT};
use super::{LAST, PlaceRow, TABLE, Whose, remove};
use crate::limits::Size;
use crate::{Error, Limit, Limits, UnixMillis};

/// An entry with all that is indexed of it.
pub(super) struct Prepared {
    entry: NewEntry,
    analysis: Analysis,
    tags: String,
    marks: String,
    bytes: usize,
}

/// An entry that is there.
struct Known {
    number: i64,
    created: i64,
    expires: Option<i64>,
    bytes: usize,
}

/// Stands between the labels of an entry: no label has it, for it is escaped.
const BETWEEN: char = '\u{1f}';

impl Prepared {
    pub(super) fn new(mut entry: NewEntry, limit: Limit) -> Result<Self, Error> {
        entry.check(limit)?;
        let marks: Vec<String> = entry.tags.iter().map(|tag| mark(tag)).collect();
        let analysis = Analysis::of(&entry.text);
        Ok(Self {
            tags: join_tags(&entry.tags),
            marks: marks.join(" "),
            bytes: entry.bytes(&analysis),
            analysis,
            entry,
        })
    }

    /// About how much memory it takes.
    pub(super) const fn weight(&self) -> usize {
        self.bytes
    }
}

/// A label as a word of the index, which tells no capitals from small letters.
pub(super) fn mark(tag: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    if tag.bytes().all(is_plain) {
        return format!("t{tag}");
    }
    let mut mark = String::from("x");
    for byte in tag.bytes() {
        mark.push_str(&format!("{byte:02x}"));
    }
    mark
}

fn join_tags(tags: &[String]) -> String {
    let escaped = tags.iter().map(|tag| {
        let tag = tag.replace('\\', "\\\\");
        tag.replace(BETWEEN, "\\u") + &BETWEEN.to_string()
    });
    escaped.collect()
}

pub(super) fn split_tags(text: &str) -> Vec<String> {
    let tags = text.split_terminator(BETWEEN);
    tags.map(|tag| {
        let mut plain = String::with_capacity(tag.len());
        let mut letters = tag.chars();
        while let Some(letter) = letters.next() {
            plain.push(match letter {
                '\\' if letters.next() == Some('u') => BETWEEN,
                other => other,
            });
        }
        plain
    })
    .collect()
}

pub(super) fn put(
    connection: &Connection,
    whose: &Whose,
    now: UnixMillis,
    entries: &[Result<Prepared, Error>],
    (limits, rooms): (&Limits, Rooms),
) -> Result<Vec<Result<(), Error>>, Error> {
    let mut open: HashMap<Tier, PlaceRow> = HashMap::new();
    let mut outcomes = Vec::with_capacity(entries.len());
    for entry in entries {
        let outcome = match entry {
            Ok(entry) => put_one(connection, whose, now, entry, &mut open, (limits, rooms)),
            Err(error) => Err(error.clone()),
        };
        outcomes.push(match outcome {
            Err(error) if !error.is_refusal() => return Err(error),
            outcome => outcome,
        });
    }
    let mut note = connection.prepare_cached("UPDATE memory_places SET last = ?2 WHERE id = ?1")?;
    for place in open.values() {
        note.execute((place.id, place.last))?;
    }
    Ok(outcomes)
}

fn put_one(
    connection: &Connection,
    whose: &Whose,
    now: UnixMillis,
    entry: &Prepared,
    open: &mut HashMap<Tier, PlaceRow>,
    (limits, rooms): (&Limits, Rooms),
) -> Result<(), Error> {
    let tier = entry.entry.tier;
    let owner = whose.names(tier).0;
    let place = match open.entry(tier) {
        Entry::Occupied(open) => open.into_mut(),
        Entry::Vacant(vacant) => {
            let at_most = limits.memory_spaces;
            vacant.insert(open_place(connection, whose, tier, at_most)?)
        }
    };
    if place.last >= LAST {
        return Err(Error::Full { what: WHAT });
    }
    let known = known(connection, place.id, &entry.entry.key)?;
    let size = Size::one(entry.bytes);
    let mut room = Room {
        entries: place.entries + 1 - usize::from(known.is_some()),
        at_most: rooms.of(tier),
        used: TABLE.usage(connection, owner)?.plus(size),
        limit: limits.memories,
    };
    let replaced = known
        .as_ref()
        .map_or_else(Size::default, |known| Size::one(known.bytes));
    room.used = room.used.minus(replaced);
    let mut going = make_room(connection, place, now, known.as_ref(), room, rooms.overflow)?;
    going.extend(known.as_ref().map(|known| known.number));
    remove(connection, &going)?;
    let live = known.filter(|known| known.expires.is_none_or(|expires| expires > now.0));
    let created = live.map_or_else(|| entry.entry.created.min(now).0, |known| known.created);
    place.last += 1;
    place.entries = place.entries + 1 - going.len();
    insert(connection, place, owner, (now, created), entry)
}

fn insert(
    connection: &Connection,
    place: &PlaceRow,
    owner: &str,
    (now, created): (UnixMillis, i64),
    entry: &Prepared,
) -> Result<(), Error> {
    let mut insert = connection.prepare_cached(INSERT)?;
    let new = &entry.entry;
    let expires = (new.expires != UnixMillis::NEVER).then_some(new.expires.0);
    insert.execute(rusqlite::params![
        place.base() + place.last,
        place.id,
        owner,
        new.key,
        created,
        now.0,
        expires,
        new.weight,
        entry.bytes,
        entry.analysis.length,
        new.source,
        entry.tags,
        entry.analysis.words,
        entry.analysis.grams,
        entry.marks,
        new.content,
    ])?;
    Ok(())
}

/// Keeps an entry; public for the benchmark.
pub const INSERT: &str = "INSERT INTO memories (number, place, owner, key, created, updated,
     expires, weight, bytes, length, embedded, source, tags, words, grams, marks, content)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, 0, ?11, ?12, ?13, ?14, ?15, ?16)";

fn open_place(
    connection: &Connection,
    whose: &Whose,
    tier: Tier,
    at_most: usize,
) -> Result<PlaceRow, Error> {
    if let Some(row) = whose.place(connection, tier)? {
        return Ok(row);
    }
    let (owner, number, session, space) = whose.names(tier);
    let count = |sql: &str| -> Result<usize, Error> {
        let mut count = connection.prepare_cached(sql)?;
        Ok(count.query_row([owner], |row| row.get(0))?)
    };
    if count("SELECT count(*) FROM memory_places WHERE owner = ?1")? >= at_most {
        if count("SELECT count(*) FROM memory_places WHERE owner = ?1 AND entries > 0")? >= at_most
        {
            return Err(Error::Full { what: "memory" });
        }
        let mut forget = connection
            .prepare_cached("DELETE FROM memory_places WHERE owner = ?1 AND entries = 0")?;
        forget.execute([owner])?;
    }
    let id = take_place(connection)?;
    let mut make = connection.prepare_cached(
        "INSERT INTO memory_places (id, owner, tier, session, space, entries, bytes, words, last)
         VALUES (?1, ?2, ?3, ?4, ?5, 0, 0, 0, 0)",
    )?;
    make.execute((id, owner, number, session, space))?;
    Ok(PlaceRow {
        id,
        entries: 0,
        words: 0,
        last: 0,
    })
}

/// The id of a new place. None is ever given again: vectors in memory, and those that are being made,
/// name their entries by it.
fn take_place(connection: &Connection) -> Result<i64, Error> {
    let mut take = connection.prepare_cached(
        "INSERT INTO node (name, value)
         VALUES ('memory_places', (SELECT coalesce(max(id), 0) + 1 FROM memory_places))
         ON CONFLICT (name) DO UPDATE SET value = value + 1 RETURNING value",
    )?;
    Ok(take.query_row([], |row| row.get(0))?)
}

fn known(connection: &Connection, place: i64, key: &str) -> Result<Option<Known>, Error> {
    let mut find = connection.prepare_cached(
        "SELECT number, created, expires, bytes FROM memories WHERE place = ?1 AND key = ?2",
    )?;
    let known = find.query_row((place, key), |row| {
        Ok(Known {
            number: row.get(0)?,
            created: row.get(1)?,
            expires: row.get(2)?,
            bytes: row.get(3)?,
        })
    });
    Ok(known.optional()?)
}

/// What goes beside the entry that is replaced: first what has expired, then what was written first.
fn make_room(
    connection: &Connection,
    place: &PlaceRow,
    now: UnixMillis,
    known: Option<&Known>,
    mut room: Room,
    overflow: Overflow,
) -> Result<Vec<i64>, Error> {
    let mut going = Vec::new();
    if room.is_enough() {
        return Ok(going);
    }
    let replaced = known.map_or(0, |known| known.number);
    let expired = "SELECT number, bytes FROM memories
         WHERE number BETWEEN ?1 AND ?2 AND number <> ?3 AND expires <= ?4 ORDER BY number";
    let live = "SELECT number, bytes FROM memories
         WHERE number BETWEEN ?1 AND ?2 AND number <> ?3 AND (expires IS NULL OR expires > ?4)
         ORDER BY number";
    let steps = match overflow {
        Overflow::Evict => [Some(expired), Some(live)],
        Overflow::Refuse => [Some(expired), None],
    };
    for sql in steps.into_iter().flatten() {
        let mut oldest = connection.prepare_cached(sql)?;
        let mut rows = oldest.query((place.base(), place.end(), replaced, now.0))?;
        while !room.is_enough() {
            let Some(row) = rows.next()? else {
                break;
            };
            room.free(Size::one(row.get(1)?));
            going.push(row.get(0)?);
        }
    }
    match room.is_enough() {
        true => Ok(going),
        false => Err(Error::Full { what: WHAT }),
    }
}
