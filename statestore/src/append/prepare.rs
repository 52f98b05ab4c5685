//! Before a store is asked: schema, sizes, names and payload text. This runs in the caller's task, so that the one
//! writer of a database has less to do.

use std::sync::Arc;

use engine_core::data::{JOURNAL_BYTES, check_size};
use engine_core::event::run::{OriginType, RunQueued};
use engine_core::event::{Body, Draft, Event, IdempotencyKey, Kind, SCHEMA_VERSION, Slot, event_name};
use engine_core::port::store::{AppendAs, AppendRequest, CreateRequest, Fence, NewLease};
use engine_core::{Code, Error, Result, RunId, TenantId, Timestamp};
use uuid::Uuid;

use super::Head;
use crate::content;

/// Longer names cannot be indexed everywhere; ids of steps and signals have at most 128 bytes.
const LONGEST_NAME: usize = 1024;

/// A call may carry many events, but not more than a database takes in one message.
const CALL_BYTES: usize = 10 * JOURNAL_BYTES;

/// An append that passed every check that needs no store.
#[derive(Debug)]
pub(crate) struct PreparedAppend {
    pub(crate) tenant_id: TenantId,
    pub(crate) run_id: RunId,
    pub(crate) entries: Vec<Entry>,
    /// The size of all payloads.
    pub(crate) bytes: usize,
    pub(crate) emitted_by: Arc<str>,
    pub(crate) append_as: AppendAs,
    pub(crate) fence: Option<Fence>,
}

/// One event of an append.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) draft: Draft,
    pub(crate) event_id: Uuid,
    /// What its key is the hash of.
    name: Arc<str>,
    /// What only one event of the run can take: its slot, or its name when it has none. Events of one name have one
    /// slot, so that whoever takes the slot takes the name too.
    pub(crate) takes: Arc<str>,
    /// The slot that, once taken, closes the attempt to this event.
    pub(crate) closed_by: Option<Arc<str>>,
    pub(crate) payload: Arc<str>,
}

impl PreparedAppend {
    /// Checks a call.
    ///
    /// # Errors
    /// `SCHEMA_VALIDATION_FAILED` or `PAYLOAD_TOO_LARGE`.
    pub(crate) fn new(request: AppendRequest) -> Result<Self> {
        plain_text("emittedBy", &request.emitted_by, Code::SchemaValidationFailed)?;
        let entries = request.drafts.into_iter().map(Entry::new).collect::<Result<Vec<Entry>>>()?;
        let bytes = entries.iter().map(|entry| entry.payload.len()).sum();
        check_size("the append call as a whole", bytes, CALL_BYTES)?;
        if request.append_as == AppendAs::Worker
            && let Some(decision) = entries.iter().find(|entry| entry.kind() == Kind::Decision)
        {
            let name = decision.draft.body.type_name();
            return Err(Error::new(
                Code::Internal,
                format!("{name} is a decision and was appended as a worker event"),
            )
            .with_hint("append it with AppendAs::Decision and the number of decisions folded"));
        }
        Ok(Self {
            tenant_id: request.tenant_id,
            run_id: request.run_id,
            entries,
            bytes,
            emitted_by: request.emitted_by,
            append_as: request.append_as,
            fence: request.fence,
        })
    }
}

impl Entry {
    /// Checks one event and writes down its payload.
    pub(crate) fn new(draft: Draft) -> Result<Self> {
        draft.check()?;
        let (subject, body) = (draft.subject.as_ref(), &draft.body);
        let name: Arc<str> = event_name(subject, body).into();
        plain_text("the event's name", &name, Code::SchemaValidationFailed)?;
        if name.len() > LONGEST_NAME {
            let message = format!(
                "{}: its name has {} bytes; the limit is {LONGEST_NAME}",
                body.type_name(),
                name.len()
            );
            return Err(
                Error::new(Code::SchemaValidationFailed, message).with_hint("use a shorter code or id")
            );
        }
        if let Body::RunStarted(started) = body {
            plain_text("engineRunRef", &started.engine_run_ref, Code::SchemaValidationFailed)?;
        }
        let in_namespace = |slot: Slot| Arc::from(format!("|{slot}"));
        let payload = body.to_payload_text();
        check_size(&format!("the payload of {}", body.type_name()), payload.len(), JOURNAL_BYTES)?;
        Ok(Self {
            event_id: Uuid::new_v4(),
            takes: Slot::of(subject, body).map_or_else(|| Arc::clone(&name), in_namespace),
            name,
            closed_by: Slot::closed_to(subject, body).map(in_namespace),
            payload: payload.into(),
            draft,
        })
    }

    pub(crate) fn kind(&self) -> Kind {
        self.draft.body.kind()
    }

    /// Everything that must be free for this event to be stored.
    pub(crate) fn needs(&self) -> impl Iterator<Item = &Arc<str>> {
        std::iter::once(&self.takes).chain(&self.closed_by)
    }

    /// The key that it has in a run.
    pub(crate) fn key(&self, head: &Head) -> IdempotencyKey {
        IdempotencyKey::of_name(&head.run_id, &self.name, &head.plan_version)
    }

    /// The stored event, once it has its place.
    pub(crate) fn event(
        &self,
        head: &Head,
        run_seq: u64,
        key: IdempotencyKey,
        emitted_by: &Arc<str>,
        emitted_at: Timestamp,
    ) -> Event {
        let copy = Self {
            draft: self.draft.clone(),
            event_id: self.event_id,
            name: Arc::clone(&self.name),
            takes: Arc::clone(&self.takes),
            closed_by: None,
            payload: Arc::clone(&self.payload),
        };
        copy.into_event(head, run_seq, key, emitted_by, emitted_at)
    }

    /// The same of an entry that is not needed any more.
    pub(crate) fn into_event(
        self,
        head: &Head,
        run_seq: u64,
        key: IdempotencyKey,
        emitted_by: &Arc<str>,
        emitted_at: Timestamp,
    ) -> Event {
        Event {
            event_id: self.event_id,
            schema_version: SCHEMA_VERSION.into(),
            run_id: head.run_id.clone(),
            run_seq,
            idempotency_key: key,
            emitted_at,
            emitted_by: emitted_by.clone(),
            occurred_at: self.draft.occurred_at,
            correlation_id: head.correlation_id.clone(),
            plan_version: head.plan_version.clone(),
            subject: self.draft.subject,
            body: self.draft.body,
        }
    }
}

/// A run to be made that passed every check that needs no store.
#[derive(Debug)]
pub(crate) struct PreparedRun {
    pub(crate) run_id: RunId,
    pub(crate) identity: Arc<str>,
    pub(crate) tenant_id: TenantId,
    pub(crate) plan_id: Arc<str>,
    pub(crate) plan_version: engine_core::PlanVersion,
    pub(crate) plan_hash: Arc<str>,
    pub(crate) correlation_id: Arc<str>,
    pub(crate) emitted_by: Arc<str>,
    /// The run whose outputs it uses.
    pub(crate) source_run_id: Option<RunId>,
    pub(crate) lease: Option<NewLease>,
    pub(crate) queued: Entry,
}

impl PreparedRun {
    /// Checks a request and gives the run its id (START-1).
    ///
    /// # Errors
    /// `SCHEMA_VALIDATION_FAILED` or `PAYLOAD_TOO_LARGE`.
    pub(crate) fn new(request: CreateRequest) -> Result<Self> {
        let invalid = Code::SchemaValidationFailed;
        let CreateRequest { queued, correlation_id, emitted_by, lease } = request;
        if let Some(lease) = &lease {
            content::check_name("holder", &lease.holder)?;
        }
        plain_text("correlationId", &correlation_id, invalid)?;
        plain_text("emittedBy", &emitted_by, invalid)?;
        plain_text("identity", &queued.identity, invalid)?;
        plain_text("planRef.sha256", &queued.plan_ref.sha256, invalid)?;
        for (what, text) in [("identity", &queued.identity), ("planRef.sha256", &queued.plan_ref.sha256)] {
            if text.is_empty() || text.len() > LONGEST_NAME {
                return Err(Error::new(invalid, format!("RunQueued: {what} has {} bytes", text.len()))
                    .with_hint("it is a SHA-256 in hexadecimal: 64 characters"));
            }
        }
        Ok(Self {
            run_id: RunId::new(Uuid::now_v7().to_string())?,
            identity: queued.identity.as_str().into(),
            tenant_id: queued.context.tenant_id.clone(),
            plan_id: queued.plan_ref.plan_id.as_str().into(),
            plan_version: queued.plan_ref.plan_version.clone(),
            plan_hash: queued.plan_ref.sha256.as_str().into(),
            correlation_id,
            emitted_by,
            source_run_id: source_of(&queued),
            lease,
            queued: Entry::new(Draft::run(Body::from(queued)))?,
        })
    }

    /// Who owns it.
    pub(crate) fn tenant_id(&self) -> &TenantId {
        &self.tenant_id
    }

    /// What makes it unique.
    pub(crate) fn identity(&self) -> (TenantId, Arc<str>) {
        (self.tenant_id.clone(), self.identity.clone())
    }

    /// Its first event, once it is there.
    pub(crate) fn first_event(&self, run_no: i64, now: Timestamp) -> Event {
        let head = self.head(run_no);
        let key = self.queued.key(&head);
        self.queued.event(&head, 1, key, &self.emitted_by, now)
    }

    /// Where it stands once it is there.
    pub(crate) fn head(&self, run_no: i64) -> Head {
        Head {
            run_no,
            run_id: self.run_id.clone(),
            tenant_id: self.tenant_id.clone(),
            plan_version: self.plan_version.clone(),
            correlation_id: self.correlation_id.clone(),
            last_seq: 1,
            decisions: 1,
            ended: false,
            fence: u64::from(self.lease.is_some()),
        }
    }
}

/// The run that must be kept as long as this one is: it holds outputs that this one uses.
fn source_of(queued: &RunQueued) -> Option<RunId> {
    let origin = queued.origin.as_ref()?;
    let uses = match origin.origin_type {
        OriginType::Link => true,
        // An archive has copies of its own.
        OriginType::Archive => false,
        _ => !origin.reused.is_empty(),
    };
    uses.then(|| origin.source_run_id.clone())
}

/// Refuses NUL, which Postgres does not store in text; the other stores refuse it too, so that all behave the same.
///
/// # Errors
/// `code`, naming the field.
pub(crate) fn plain_text(what: &str, text: &str, code: Code) -> Result<()> {
    if text.contains('\0') {
        return Err(Error::new(code, format!("{what} contains a NUL character")).with_hint("leave it out"));
    }
    Ok(())
}
