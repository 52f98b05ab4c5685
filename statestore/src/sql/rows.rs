//! Rows as values.

use engine_core::event::Event;
use engine_core::machine::RunStatus;
use engine_core::port::store::RunRecord;
use engine_core::{PlanId, PlanVersion, RunId, TenantId, Timestamp};
use sqlx::Row as _;

use super::{Row, broken};
use crate::page::count;
use crate::retry::Failure;
use crate::stored::{EventColumns, Facts, damaged};

/// The columns of [`record`], of tables named `r` and `h`.
pub(super) const RECORD: &str = "r.tenant_id, r.run_id, r.plan_id, r.plan_version, r.plan_hash, r.status, h.last_seq, \
    h.acted_seq, r.engine_run_ref, r.created_at, r.ended_at";

/// An event: the columns of [`crate::stored::EVENT`].
pub(super) fn event(row: &Row, facts: &Facts) -> Result<Event, Failure> {
    let text = |index: usize| row.try_get::<&str, _>(index).map_err(broken);
    let number = |index: usize| row.try_get::<Option<i64>, _>(index).map_err(broken);
    let columns = EventColumns {
        run_seq: row.try_get(0).map_err(broken)?,
        event_type: text(1)?,
        event_id: row.try_get(2).map_err(broken)?,
        idempotency_key: row.try_get(3).map_err(broken)?,
        schema_version: text(4)?,
        emitted_at: row.try_get(5).map_err(broken)?,
        emitted_by: text(6)?,
        occurred_at: number(7)?,
        step_id: row.try_get(8).map_err(broken)?,
        logical_attempt: number(9)?,
        engine_attempt: number(10)?,
        payload: text(11)?,
    };
    columns.into_event(facts)
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
