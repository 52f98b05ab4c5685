//! What is stored beside the log: how it is written, checked and refused, the same for every store.

use std::sync::Arc;

use engine_core::data::{JOURNAL_BYTES, check_size};
use engine_core::event::Draft;
use engine_core::event::audit::CheckpointCreated;
use engine_core::event::key::Slot;
use engine_core::hash::sha256_hex;
use engine_core::port::store::{
    AppendAs, AppendRequest, Checkpoint, CheckpointRecord, ClaimRequest, SaveCheckpoint, StepProgress,
};
use engine_core::projection::ProjectionRecord;
use engine_core::signal::Signal;
use engine_core::{CheckpointId, Code, Error, Result, RunId, SignalId, Timestamp};
use serde_json::Value;

use crate::append::plain_text;

// Checkpoints and snapshots.

/// A projection as text, checked for size. `what` names it.
pub(crate) fn write_projection(what: &str, projection: &ProjectionRecord) -> Result<String> {
    let text = serde_json::to_string(projection)
        .map_err(|cause| Error::new(Code::Internal, format!("{what} cannot be written: {cause}")))?;
    check_size(what, text.len(), JOURNAL_BYTES)?;
    Ok(text)
}

/// A stored checkpoint with its content, if it matches its checksum (CHECKPOINT-6).
pub(crate) fn verify_checkpoint(record: CheckpointRecord, content: &str) -> Option<Checkpoint> {
    if sha256_hex(content) != record.sha256 {
        return None;
    }
    let projection = serde_json::from_str(content).ok()?;
    Some(Checkpoint { record, projection })
}

/// Refuses a corrupt checkpoint by name and offers the newest sound one before it.
pub(crate) fn corrupt_checkpoint(
    run_id: &RunId,
    checkpoint_id: &CheckpointId,
    before: Option<&CheckpointId>,
) -> Error {
    let message = format!("checkpoint {checkpoint_id} of run {run_id} does not match its checksum");
    let hint = match before {
        Some(before) => format!("restore {before} instead, the newest sound one before it"),
        None => "there is no sound one before it; rerun from the start or from failed steps".to_owned(),
    };
    Error::new(Code::CheckpointCorrupt, message).with_hint(hint)
}

/// There is no such checkpoint.
pub(crate) fn no_such_checkpoint(run_id: &RunId, checkpoint_id: &CheckpointId) -> Error {
    Error::new(Code::NotFound, format!("run {run_id} has no checkpoint {checkpoint_id}"))
        .with_hint("list the checkpoints of the run; it may have been pruned")
}

/// The id names a checkpoint that was there and is gone.
pub(crate) fn pruned_checkpoint(run_id: &RunId, checkpoint_id: &CheckpointId) -> Error {
    Error::new(
        Code::NotFound,
        format!("checkpoint {checkpoint_id} of run {run_id} was pruned, and its id is used up"),
    )
    .with_hint("save the checkpoint under another id")
}

/// What is known about a checkpoint that is being stored.
pub(crate) fn checkpoint_record(request: &SaveCheckpoint, text: &str, now: Timestamp) -> CheckpointRecord {
    CheckpointRecord {
        checkpoint_id: request.checkpoint_id.clone(),
        up_to_seq: request.projection.last_event_seq(),
        size_bytes: text.len() as u64,
        sha256: sha256_hex(text),
        created_at: now,
    }
}

/// The append that records a checkpoint in its run's log.
pub(crate) fn checkpoint_created(request: &SaveCheckpoint, record: &CheckpointRecord) -> AppendRequest {
    let created = CheckpointCreated {
        checkpoint_id: record.checkpoint_id.clone(),
        up_to_seq: record.up_to_seq,
        size_bytes: record.size_bytes,
        sha256: record.sha256.clone(),
    };
    AppendRequest {
        tenant_id: request.tenant_id.clone(),
        run_id: request.run_id.clone(),
        drafts: vec![Draft::run(created)],
        emitted_by: Arc::clone(&request.emitted_by),
        append_as: AppendAs::Worker,
        fence: None,
    }
}

// Leases and claims.

/// Refuses a name of a holder, worker or relay that cannot be stored everywhere.
pub(crate) fn check_name(what: &str, name: &str) -> Result<()> {
    plain_text(what, name, Code::InvalidId)?;
    if name.is_empty() {
        return Err(Error::new(Code::InvalidId, format!("the {what} has no name"))
            .with_hint("use a name that no other process has, as host and process id"));
    }
    Ok(())
}

/// Another holder's lease runs.
pub(crate) fn lease_held(run_id: &RunId, holder: &str, until: Timestamp) -> Error {
    Error::new(Code::LeaseHeld, format!("{holder} has the lease of run {run_id} until {until}"))
        .with_hint("try again when it has expired")
}

/// Another worker's claim runs.
pub(crate) fn claim_held(request: &ClaimRequest, worker: &str, until: Timestamp) -> Error {
    let ClaimRequest { run_id, step_id, attempt, .. } = request;
    let message = format!("{worker} has attempt {attempt} of step {step_id} of run {run_id} until {until}");
    Error::new(Code::LeaseHeld, message).with_hint("give the delivery back; try again when it has expired")
}

// Signals.

/// The slot of the decision on a signal, in the namespace of names.
pub(crate) fn decision_slot(signal_id: &SignalId) -> String {
    format!("|{}", Slot::SignalDecision(signal_id.clone()))
}

/// A signal as text, checked for size.
pub(crate) fn write_signal(signal: &Signal) -> Result<String> {
    let broken = |cause: serde_json::Error| {
        Error::new(Code::Internal, format!("signal {} cannot be written: {cause}", signal.signal_id))
    };
    let mut fields = serde_json::to_value(&signal.command).map_err(broken)?;
    fields["signalId"] = signal.signal_id.as_str().into();
    fields["actor"] = signal.actor.as_str().into();
    if let Some(reason) = &signal.reason {
        fields["reason"] = reason.as_str().into();
    }
    let text = fields.to_string();
    check_size(&format!("signal {}", signal.signal_id), text.len(), JOURNAL_BYTES)?;
    Ok(text)
}

/// Reads what [`write_signal`] wrote.
pub(crate) fn read_signal(text: &str) -> Result<Signal> {
    let broken = |cause: &dyn std::fmt::Display| {
        Error::new(Code::Internal, format!("a stored signal cannot be read: {cause}"))
    };
    let fields: Value = serde_json::from_str(text).map_err(|cause| broken(&cause))?;
    let field = |name: &str| fields[name].as_str().map(str::to_owned);
    Ok(Signal {
        signal_id: SignalId::new(field("signalId").unwrap_or_default())?,
        actor: field("actor").unwrap_or_default(),
        reason: field("reason"),
        command: serde_json::from_value(fields).map_err(|cause| broken(&cause))?,
    })
}

// Plans.

/// Refuses a plan document that does not have the hash under which it is to be kept.
pub(crate) fn check_plan(hash: &str, document: &str) -> Result<()> {
    check_size("the plan document", document.len(), JOURNAL_BYTES)?;
    let found = sha256_hex(document);
    if found != hash {
        let message = format!("the plan document has the hash {found}, not {hash:?}");
        return Err(Error::new(Code::PlanHashMismatch, message)
            .with_hint("keep the canonical document of the compiled plan under its own hash"));
    }
    plain_text("the plan document", document, Code::PlanHashMismatch)
}

/// The tenant has no plan with this hash.
pub(crate) fn no_such_plan(hash: &str) -> Error {
    Error::new(Code::PlanMissing, format!("there is no plan with the hash {hash:?}"))
        .with_hint("keep the plan in the store before a run of it starts")
}

// Answers, progress, errors of the bus.

/// Refuses an answer that is too large to be kept.
pub(crate) fn check_answer(answer: &str) -> Result<()> {
    plain_text("the answer", answer, Code::SchemaValidationFailed)?;
    check_size("the answer", answer.len(), JOURNAL_BYTES)
}

/// Progress within its bounds, whatever a handler said.
pub(crate) fn clamp_progress(mut progress: StepProgress) -> StepProgress {
    progress.done = if progress.done.is_finite() { progress.done.clamp(0.0, 1.0) } else { 0.0 };
    progress
}

/// A text for people, as every store can keep it.
pub(crate) fn without_nul(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}
