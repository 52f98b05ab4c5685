//! Rows as values.

use engine_core::event::{Body, Event, IdempotencyKey, Subject};
use engine_core::machine::RunStatus;
use engine_core::port::store::RunRecord;
use engine_core::{Code, Error, PlanId, PlanVersion, RunId, StepId, TenantId, Timestamp};
use sqlx::Row as _;
use uuid::Uuid;

use super::{Row, broken};
use crate::append::{Head, Holder, Taken};
use crate::commit::Identity;
use crate::page::count;
use crate::retry::Failure;

/// The columns of [`event`], of a table named `e`.
pub(super) const EVENT: &str = "e.run_seq, e.event_type, e.event_id, e.idempotency_key, e.schema_version, e.emitted_at, \
    e.emitted_by, e.occurred_at, e.step_id, e.logical_attempt, e.engine_attempt, e.payload";

/// The columns of [`record`], of tables named `r` and `h`.
pub(super) const RECORD: &str = "r.tenant_id, r.run_id, r.plan_id, r.plan_version, r.plan_hash, r.status, h.last_seq, \
    h.acted_seq, r.engine_run_ref, r.created_at, r.ended_at";

/// The columns that say where a run stands, of tables named `r` and `h`.
pub(super) const HEAD: &str = "r.run_no, r.run_id, r.tenant_id, r.plan_version, r.correlation_id, h.last_seq, \
    h.decisions, h.ended, h.fence";

fn damaged(what: &str) -> Failure {
    Failure::from(
        Error::new(Code::Internal, format!("a stored {what} cannot be read"))
            .with_hint("something else than this store has written to its tables"),
    )
}

/// An event; its run is known from elsewhere.
pub(super) fn event(row: &Row, facts: &Facts) -> Result<Event, Failure> {
    let text = |index: usize| row.try_get::<&str, _>(index).map_err(broken);
    let id = row.try_get::<&[u8], _>(2).map_err(broken)?;
    let key: &[u8] = row.try_get(3).map_err(broken)?;
    let step: Option<&str> = row.try_get(8).map_err(broken)?;
    let number = |index: usize| -> Result<Option<u32>, Failure> {
        let number: Option<i64> = row.try_get(index).map_err(broken)?;
        Ok(number.and_then(|number| u32::try_from(number).ok()))
    };
    let subject = match step {
        Some(step) => Some(Subject {
            step: StepId::new(step)?,
            attempt: number(9)?.unwrap_or(1),
            engine_attempt: number(10)?,
        }),
        None => None,
    };
    let occurred_at: Option<i64> = row.try_get(7).map_err(broken)?;
    Ok(Event {
        event_id: Uuid::from_slice(id).map_err(|_| damaged("event id"))?,
        schema_version: text(4)?.into(),
        run_id: facts.run_id.clone(),
        run_seq: count(row.try_get(0).map_err(broken)?),
        idempotency_key: IdempotencyKey::from_bytes(key.try_into().map_err(|_| damaged("idempotency key"))?),
        emitted_at: Timestamp::from_millis(row.try_get(5).map_err(broken)?),
        emitted_by: text(6)?.into(),
        occurred_at: occurred_at.map(Timestamp::from_millis),
        correlation_id: facts.correlation_id.clone(),
        plan_version: facts.plan_version.clone(),
        subject,
        body: Body::from_payload_text(text(1)?, text(11)?)?,
    })
}

/// What every event of a run has in common.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    pub(super) run_no: i64,
    pub(super) run_id: RunId,
    pub(super) tenant_id: TenantId,
    pub(super) plan_version: PlanVersion,
    pub(super) correlation_id: std::sync::Arc<str>,
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

/// The columns of [`facts`], of a table named `r`.
pub(super) const FACTS: &str = "r.run_no, r.run_id, r.tenant_id, r.plan_version, r.correlation_id";

/// What every event of a run has in common; its columns begin at `start`.
pub(super) fn facts(row: &Row, start: usize) -> Result<Facts, Failure> {
    let text = |index: usize| row.try_get::<&str, _>(start + index).map_err(broken);
    Ok(Facts {
        run_no: row.try_get(start).map_err(broken)?,
        run_id: RunId::new(text(1)?)?,
        tenant_id: TenantId::new(text(2)?)?,
        plan_version: PlanVersion::new(text(3)?)?,
        correlation_id: text(4)?.into(),
    })
}

/// What makes a run unique, and the run: tenant, identity, run id.
pub(super) fn identity(row: &Row) -> Result<(Identity, RunId), Failure> {
    let text = |index: usize| row.try_get::<&str, _>(index).map_err(broken);
    Ok(((TenantId::new(text(0)?)?, text(1)?.into()), RunId::new(text(2)?)?))
}

/// Adds who holds a name or slot: it is in one column, the place and the event's id in the two from `holder` on.
pub(super) fn add_holder(taken: &mut Taken, row: &Row, name: usize, holder: usize) -> Result<(), Failure> {
    let Some(name) = row.try_get::<Option<&str>, _>(name).map_err(broken)? else { return Ok(()) };
    let id: &[u8] = row.try_get(holder + 1).map_err(broken)?;
    let event_id = Uuid::from_slice(id).map_err(|_| damaged("event id"))?;
    let run_seq = count(row.try_get(holder).map_err(broken)?);
    taken.insert(name.into(), Holder { run_seq, event_id });
    Ok(())
}

/// What is known about a run without its log.
pub(super) fn record(row: &Row) -> Result<RunRecord, Failure> {
    let text = |index: usize| row.try_get::<&str, _>(index).map_err(broken);
    let ended_at: Option<i64> = row.try_get(10).map_err(broken)?;
    Ok(RunRecord {
        tenant_id: TenantId::new(text(0)?)?,
        run_id: RunId::new(text(1)?)?,
        plan_id: PlanId::new(text(2)?)?,
        plan_version: PlanVersion::new(text(3)?)?,
        plan_hash: text(4)?.to_owned(),
        status: RunStatus::parse(text(5)?).ok_or_else(|| damaged("status"))?,
        last_event_seq: count(row.try_get(6).map_err(broken)?),
        acted_seq: count(row.try_get(7).map_err(broken)?),
        engine_run_ref: row.try_get(8).map_err(broken)?,
        created_at: Timestamp::from_millis(row.try_get(9).map_err(broken)?),
        ended_at: ended_at.map(Timestamp::from_millis),
    })
}
