//! What becomes of a call: pure, so that three stores cannot disagree.

use std::collections::HashMap;
use std::sync::Arc;

use engine_core::event::{Body, EventType, IdempotencyKey, Kind};
use engine_core::machine::RunStatus;
use engine_core::machine::run::status_after;
use engine_core::port::store::AppendAs;
use engine_core::{Code, Error, Timestamp};
use uuid::Uuid;

use super::{Entry, Head, PreparedAppend};

/// Slots and names of one run that are taken, as far as somebody asked.
pub(crate) type Taken = HashMap<Arc<str>, Holder>;

/// The event that has a name or slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) run_seq: u64,
    pub(crate) event_id: Uuid,
}

/// What becomes of a call.
#[derive(Debug)]
pub(crate) enum Ruling {
    /// Every event has a place, this call's or an older one's.
    Stored(Vec<Placement>),
    /// Nothing is stored; the caller lacks what comes after this place.
    Conflict { after: u64 },
    /// Nothing is stored.
    Refused(Error),
}

impl Ruling {
    /// Whether every event of the call is to be stored.
    pub(crate) fn stores_all(&self) -> bool {
        matches!(self, Self::Stored(_)) && self.is_all_new()
    }

    /// Whether its answer needs no event that was there before.
    pub(crate) fn is_all_new(&self) -> bool {
        match self {
            Self::Stored(placements) => placements.iter().all(|place| matches!(place, Placement::New { .. })),
            Self::Conflict { .. } => false,
            Self::Refused(_) => true,
        }
    }
}

/// The place of one event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placement {
    /// It is to be stored here.
    New { run_seq: u64, key: IdempotencyKey },
    /// Another event is in its way, and stands here.
    Known { run_seq: u64 },
    /// This very event is here: an earlier try of this call stored it, and nobody had heard so.
    Own { run_seq: u64 },
}

/// What a call changes besides the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    pub(crate) status: Option<RunStatus>,
    pub(crate) engine_run_ref: Option<String>,
    pub(crate) ended_at: Option<Timestamp>,
}

impl Changes {
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Notes what one stored event changes.
    pub(crate) fn note(&mut self, entry: &Entry, now: Timestamp) {
        let body = &entry.draft.body;
        if let Some(status) = body.event_type().and_then(status_after) {
            self.status = Some(status);
        }
        match body {
            Body::RunStarted(started) => self.engine_run_ref = Some(started.engine_run_ref.clone()),
            Body::RunCompleted(_) | Body::RunFailed(_) | Body::RunCancelled(_) => self.ended_at = Some(now),
            _ => {}
        }
    }
}

/// Rules on a call. When it is stored, the head moves on and its names are taken.
pub(crate) fn rule(call: &PreparedAppend, head: &mut Head, taken: &mut Taken) -> Ruling {
    if head.tenant_id != call.tenant_id {
        return Ruling::Refused(no_such_run(call.run_id.as_str()));
    }
    if let Some(fence) = call.fence
        && fence.0 < head.fence
    {
        let message =
            format!("the lease of run {} went from number {} to number {}", head.run_id, fence.0, head.fence);
        return Ruling::Refused(
            Error::new(Code::LeaseLost, message).with_hint("stop working on the run: its new holder does"),
        );
    }
    let ruling = match call.append_as {
        AppendAs::Worker => each_alone(call, head, taken),
        AppendAs::Decision { expected, nothing_after, folded_through } => {
            let stale =
                expected != head.decisions || nothing_after.is_some_and(|place| place < head.last_seq);
            all_or_nothing(call, head, taken, stale, folded_through)
        }
    };
    if let Ruling::Stored(placements) = &ruling {
        for (entry, placement) in call.entries.iter().zip(placements) {
            if let Placement::New { run_seq, .. } = *placement {
                head.last_seq = run_seq;
                head.decisions += u64::from(entry.kind() == Kind::Decision);
                head.ended |= ends_the_run(entry);
                let holder = Holder { run_seq, event_id: entry.event_id };
                taken.insert(Arc::clone(&entry.takes), holder);
            }
        }
    }
    ruling
}

/// STORE-9: what is in the way of one event keeps out no other.
fn each_alone(call: &PreparedAppend, head: &Head, taken: &Taken) -> Ruling {
    let mut next = head.last_seq;
    let mut within = Within::default();
    let mut placements = Vec::with_capacity(call.entries.len());
    for entry in &call.entries {
        if let Some(holder) = entry.needs().find_map(|name| taken.get(name)) {
            let own = holder.event_id == entry.event_id;
            let run_seq = holder.run_seq;
            placements.push(if own { Placement::Own { run_seq } } else { Placement::Known { run_seq } });
        } else if let Some(run_seq) = entry.needs().find_map(|name| within.place(name)) {
            placements.push(Placement::Known { run_seq });
        } else if head.ended && entry.kind() != Kind::Audit {
            return Ruling::Refused(run_terminal(head, entry));
        } else {
            next += 1;
            within.take(entry, next);
            placements.push(Placement::New { run_seq: next, key: entry.key(head) });
        }
    }
    Ruling::Stored(placements)
}

/// STORE-8: nothing of a decision is stored unless all of it is.
fn all_or_nothing(call: &PreparedAppend, head: &Head, taken: &Taken, stale: bool, after: u64) -> Ruling {
    // Asked first: if this call is in the log already, that alone explains why the log has gone on.
    let own = call.entries.iter().map(|entry| {
        let holder = taken.get(&entry.takes).filter(|holder| holder.event_id == entry.event_id)?;
        Some(Placement::Own { run_seq: holder.run_seq })
    });
    if !call.entries.is_empty()
        && let Some(own) = own.collect::<Option<Vec<Placement>>>()
    {
        return Ruling::Stored(own);
    }
    if stale || call.entries.iter().flat_map(Entry::needs).any(|name| taken.contains_key(name)) {
        return Ruling::Conflict { after };
    }
    let mut ended = head.ended;
    let mut next = head.last_seq;
    let mut within = Within::default();
    let mut placements = Vec::with_capacity(call.entries.len());
    for entry in &call.entries {
        if ended && entry.kind() != Kind::Audit {
            return Ruling::Refused(run_terminal(head, entry));
        }
        if let Some(name) = entry.needs().find(|name| within.place(name).is_some()) {
            let message = format!("two events of one append to run {} want {name}", head.run_id);
            return Ruling::Refused(Error::new(Code::Internal, message));
        }
        ended |= ends_the_run(entry);
        next += 1;
        within.take(entry, next);
        placements.push(Placement::New { run_seq: next, key: entry.key(head) });
    }
    Ruling::Stored(placements)
}

/// What earlier events of the same call have taken.
#[derive(Default)]
struct Within<'a>(HashMap<&'a str, u64>);

impl<'a> Within<'a> {
    fn place(&self, name: &str) -> Option<u64> {
        self.0.get(name).copied()
    }

    fn take(&mut self, entry: &'a Entry, run_seq: u64) {
        self.0.insert(&entry.takes, run_seq);
    }
}

fn ends_the_run(entry: &Entry) -> bool {
    let event_type = entry.draft.body.event_type();
    matches!(event_type, Some(EventType::RunCompleted | EventType::RunFailed | EventType::RunCancelled))
}

fn run_terminal(head: &Head, entry: &Entry) -> Error {
    let name = entry.draft.body.type_name();
    let message = format!("run {} has ended; {name} was not stored", head.run_id);
    Error::new(Code::RunTerminal, message).with_hint("only audit events are taken after the end of a run")
}

/// The tenant has no such run (START-6).
pub(crate) fn no_such_run(run_id: &str) -> Error {
    Error::new(Code::NotFound, format!("there is no run {run_id}"))
        .with_hint("check the run id and the tenant; a finished run may have been deleted by retention")
}
