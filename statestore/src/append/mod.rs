//! The rules of appending, the same for every store, without I/O.
//!
//! - [`prepare`]: what can be checked and written down before a store is asked: schema, sizes, names, payload text;
//! - [`ruling`]: what becomes of a call, given where its run stands and which names are taken.
//!
//! Within a run every event has a name, and some take a slot; both live in one namespace here, slots behind a leading
//! bar, which no name has.

mod prepare;
mod ruling;

pub(crate) use prepare::{Entry, PreparedAppend, PreparedRun, plain_text};
pub(crate) use ruling::{Changes, Holder, Placement, Ruling, Taken, no_such_run, rule};

use std::sync::Arc;

use engine_core::{PlanVersion, RunId, TenantId};

/// Where a run stands, as an append finds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) run_no: i64,
    pub(crate) run_id: RunId,
    pub(crate) tenant_id: TenantId,
    pub(crate) plan_version: PlanVersion,
    pub(crate) correlation_id: Arc<str>,
    pub(crate) last_seq: u64,
    pub(crate) decisions: u64,
    pub(crate) ended: bool,
    pub(crate) fence: u64,
}
