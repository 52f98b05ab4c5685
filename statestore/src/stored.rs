//! Stored events, as the columns of a row, whatever the driver that read it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use engine_core::event::{Body, Event, IdempotencyKey, Subject};
use engine_core::{Code, Error, PlanVersion, RunId, StepId, TenantId, Timestamp};
use uuid::Uuid;

use crate::append::{Head, Holder};
use crate::page::count;
use crate::retry::Failure;

/// The columns of [`EventColumns`], of a table named `e`, in its order.
pub(crate) const EVENT: &str = "e.run_seq, e.event_type, e.event_id, e.idempotency_key, e.schema_version, \
    e.emitted_at, e.emitted_by, e.occurred_at, e.step_id, e.logical_attempt, e.engine_attempt, e.payload";

/// An event's row; its run is known from elsewhere.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EventColumns<'row> {
    pub(crate) run_seq: i64,
    pub(crate) event_type: &'row str,
    pub(crate) event_id: &'row [u8],
    pub(crate) idempotency_key: &'row [u8],
    pub(crate) schema_version: &'row str,
    pub(crate) emitted_at: i64,
    pub(crate) emitted_by: &'row str,
    pub(crate) occurred_at: Option<i64>,
    pub(crate) step_id: Option<&'row str>,
    pub(crate) logical_attempt: Option<i64>,
    pub(crate) engine_attempt: Option<i64>,
    pub(crate) payload: &'row str,
}

impl EventColumns<'_> {
    pub(crate) fn into_event(self, facts: &Facts) -> Result<Event, Failure> {
        let number = |number: Option<i64>| number.and_then(|number| u32::try_from(number).ok());
        let subject = match self.step_id {
            Some(step) => Some(Subject {
                step: StepId::new(step)?,
                attempt: number(self.logical_attempt).unwrap_or(1),
                engine_attempt: number(self.engine_attempt),
            }),
            None => None,
        };
        let key = self.idempotency_key.try_into().map_err(|_| damaged("idempotency key"))?;
        Ok(Event {
            event_id: Uuid::from_slice(self.event_id).map_err(|_| damaged("event id"))?,
            schema_version: self.schema_version.into(),
            run_id: facts.run_id.clone(),
            run_seq: count(self.run_seq),
            idempotency_key: IdempotencyKey::from_bytes(key),
            emitted_at: Timestamp::from_millis(self.emitted_at),
            emitted_by: self.emitted_by.into(),
            occurred_at: self.occurred_at.map(Timestamp::from_millis),
            correlation_id: facts.correlation_id.clone(),
            plan_version: facts.plan_version.clone(),
            subject,
            body: Body::from_payload_text(self.event_type, self.payload)?,
        })
    }
}

/// What every event of a run has in common.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) run_no: i64,
    pub(crate) run_id: RunId,
    pub(crate) tenant_id: TenantId,
    pub(crate) plan_version: PlanVersion,
    pub(crate) correlation_id: Arc<str>,
}

/// What is known of runs without asking. It never changes while a run is there; that it is there must be seen
/// otherwise.
#[derive(Debug, Default)]
pub(crate) struct KnownFacts(Mutex<HashMap<RunId, Facts>>);

impl KnownFacts {
    /// All are forgotten when there are more.
    const MOST: usize = 20_000;

    /// What is known of a tenant's run.
    pub(crate) fn get(&self, tenant_id: &TenantId, run_id: &RunId) -> Option<Facts> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(run_id).filter(|facts| facts.tenant_id == *tenant_id).cloned()
    }

    pub(crate) fn keep(&self, facts: &Facts) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= Self::MOST {
            known.clear();
        }
        known.insert(facts.run_id.clone(), facts.clone());
    }
}

impl From<&Head> for Facts {
    fn from(head: &Head) -> Self {
        Self {
            run_no: head.run_no,
            run_id: head.run_id.clone(),
            tenant_id: head.tenant_id.clone(),
            plan_version: head.plan_version.clone(),
            correlation_id: head.correlation_id.clone(),
        }
    }
}

/// The event that holds a name or slot.
pub(crate) fn holder(run_seq: i64, event_id: &[u8]) -> Result<Holder, Failure> {
    let event_id = Uuid::from_slice(event_id).map_err(|_| damaged("event id"))?;
    Ok(Holder { run_seq: count(run_seq), event_id })
}

/// A row that this store did not write so.
pub(crate) fn damaged(what: &str) -> Failure {
    Failure::from(
        Error::new(Code::Internal, format!("a stored {what} cannot be read"))
            .with_hint("something else than this store has written to its tables"),
    )
}
