//! Requests that are done: what was asked, and what came of it.
//!
//! A busy agent leaves thousands behind in a second, and nearly none is ever asked for again. So they
//! are written one behind the other into pages that are used again as a whole, and none has memory
//! of its own to be found and given back.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use hashbrown::HashTable;

/// The requests of an agent that are done, oldest first.
#[derive(Debug, Default)]
pub(super) struct Done {
    records: VecDeque<Record>,
    /// The number of the first record.
    first: u64,
    /// The numbers of the records, by their ids; also of some that were forgotten.
    by_id: HashTable<u64>,
    pages: VecDeque<Vec<u8>>,
    /// The number of the first page.
    first_page: u64,
    /// A page to be used again.
    spare: Option<Vec<u8>>,
    bytes: usize,
}

/// A request that is done. Its bytes stand in one page: its id, the request, its events, its answer.
#[derive(Debug)]
struct Record {
    hash: u64,
    at: Duration,
    page: u64,
    start: usize,
    id: usize,
    request: usize,
    /// Whether the request is there, and not only the digest of what it asked for.
    is_whole: bool,
    events: Box<[usize]>,
    answer: usize,
}

/// What a request asked for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Asked<'a> {
    /// The request as it was received.
    Line(&'a [u8]),
    /// The digest of its content, if it was made before the host was restarted.
    Content(&'a [u8]),
}

/// What is to be remembered of a request.
#[derive(Debug)]
pub(super) struct Content<'a, E> {
    pub(super) id: &'a str,
    pub(super) request: Asked<'a>,
    pub(super) events: &'a [E],
    pub(super) answer: &'a [u8],
}

/// What is remembered of a request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found<'a> {
    done: &'a Done,
    record: &'a Record,
}

/// Pages have this size, but one for a record that is longer.
const PAGE: usize = 64 * 1024;

impl Done {
    /// Remembers a request; `hash` is that of its id.
    pub(super) fn push<E: AsRef<[u8]>>(
        &mut self,
        at: Duration,
        hash: u64,
        content: &Content<'_, E>,
    ) {
        let events = content.events.iter().map(|event| event.as_ref().len());
        let record = Record {
            hash,
            at,
            page: 0,
            start: 0,
            id: content.id.len(),
            request: content.request.bytes().len(),
            is_whole: matches!(content.request, Asked::Line(_)),
            events: events.collect(),
            answer: content.answer.len(),
        };
        let size = record.size();
        let mut page = self.take_page(size);
        let start = page.len();
        page.extend_from_slice(content.id.as_bytes());
        page.extend_from_slice(content.request.bytes());
        for event in content.events {
            page.extend_from_slice(event.as_ref());
        }
        page.extend_from_slice(content.answer);
        let page_number = self.first_page.saturating_add(self.pages.len() as u64);
        self.pages.push_back(page);
        self.bytes = self.bytes.saturating_add(size);
        self.remove_id(hash, content.id);
        let number = self.first.saturating_add(self.records.len() as u64);
        self.records.push_back(Record {
            page: page_number,
            start,
            ..record
        });
        let (records, first) = (&self.records, self.first);
        let hash_of =
            |number: &u64| record_at(records, first, *number).map_or(0, |record| record.hash);
        // Numbers of records that were forgotten go together, before there is no room: to look each up when its record
        // goes would be to wait for memory that nobody has used for long. Those that stay are put in order, or what
        // went would leave less room each time.
        if self.by_id.len() == self.by_id.capacity() {
            self.by_id.retain(|number| *number >= first);
            self.by_id.reserve(self.by_id.len() / 4, hash_of);
        }
        self.by_id.insert_unique(hash, number, hash_of);
    }

    /// The request with this id, whose hash is given.
    pub(super) fn find(&self, hash: u64, id: &str) -> Option<Found<'_>> {
        let number = self.number(hash, id)?;
        let record = record_at(&self.records, self.first, number)?;
        Some(Found { done: self, record })
    }

    /// When the oldest was done.
    pub(super) fn oldest(&self) -> Option<Duration> {
        self.records.front().map(|record| record.at)
    }

    /// Forgets the oldest.
    pub(super) fn forget_oldest(&mut self) {
        let Some(record) = self.records.pop_front() else {
            return;
        };
        self.first = self.first.saturating_add(1);
        self.bytes = self.bytes.saturating_sub(record.size());
        let needed = self.records.front().map_or(u64::MAX, |record| record.page);
        while self.first_page < needed
            && let Some(mut page) = self.pages.pop_front()
        {
            self.first_page = self.first_page.saturating_add(1);
            page.clear();
            self.spare = Some(page).filter(|page| page.capacity() <= PAGE);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    #[cfg(test)]
    pub(super) fn numbers(&self) -> usize {
        self.by_id.len()
    }

    /// Takes the page that is written, or a fresh one if it has not so much room.
    fn take_page(&mut self, size: usize) -> Vec<u8> {
        let has_room = |page: &mut Vec<u8>| page.len().saturating_add(size) <= PAGE;
        if let Some(page) = self.pages.pop_back_if(has_room) {
            return page;
        }
        match (self.spare.take(), self.pages.is_empty()) {
            (Some(page), _) => page,
            // The only page of an agent that does little grows with what it does.
            (None, true) => Vec::new(),
            (None, false) => Vec::with_capacity(size.max(PAGE)),
        }
    }

    fn remove_id(&mut self, hash: u64, id: &str) {
        let number = self.number(hash, id);
        let place = number.map(|number| self.by_id.find_entry(hash, |other| *other == number));
        if let Some(Ok(place)) = place {
            place.remove();
        }
    }

    fn number(&self, hash: u64, id: &str) -> Option<u64> {
        let is_it = |number: &u64| {
            record_at(&self.records, self.first, *number)
                .is_some_and(|record| record.hash == hash && self.id(record) == id.as_bytes())
        };
        self.by_id.find(hash, is_it).copied()
    }

    fn id(&self, record: &Record) -> &[u8] {
        self.text(record, 0..record.id)
    }

    /// A part of a record's bytes.
    fn text(&self, record: &Record, range: Range<usize>) -> &[u8] {
        let page = record.page.saturating_sub(self.first_page);
        let page = usize::try_from(page)
            .ok()
            .and_then(|page| self.pages.get(page));
        let start = record.start.saturating_add(range.start);
        let end = record.start.saturating_add(range.end);
        page.and_then(|page| page.get(start..end))
            .unwrap_or_default()
    }
}

impl<'a> Found<'a> {
    pub(super) fn request(self) -> Asked<'a> {
        let range = self.record.id..self.record.before_events();
        let bytes = self.done.text(self.record, range);
        match self.record.is_whole {
            true => Asked::Line(bytes),
            false => Asked::Content(bytes),
        }
    }

    /// An event, by its place among them.
    pub(super) fn event(self, index: usize) -> Option<&'a [u8]> {
        let length = *self.record.events.get(index)?;
        let before: usize = self.record.events.iter().take(index).sum();
        let start = self.record.before_events().saturating_add(before);
        Some(
            self.done
                .text(self.record, start..start.saturating_add(length)),
        )
    }

    pub(super) fn answer(self) -> &'a [u8] {
        let end = self.record.size();
        let start = end.saturating_sub(self.record.answer);
        self.done.text(self.record, start..end)
    }
}

impl<'a> Asked<'a> {
    const fn bytes(self) -> &'a [u8] {
        match self {
            Self::Line(bytes) | Self::Content(bytes) => bytes,
        }
    }
}

impl Record {
    fn before_events(&self) -> usize {
        self.id.saturating_add(self.request)
    }

    fn size(&self) -> usize {
        let events: usize = self.events.iter().sum();
        self.before_events()
            .saturating_add(events)
            .saturating_add(self.answer)
    }
}

fn record_at(records: &VecDeque<Record>, first: u64, number: u64) -> Option<&Record> {
    records.get(usize::try_from(number.checked_sub(first)?).ok()?)
}
