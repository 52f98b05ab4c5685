//! Signals: each is sent, decided by whoever drives the run, and reported. When nobody drives it, this process does,
//! so that a run whose process is gone really goes on; that run and no other.

use std::time::{Duration, Instant};

use engine_core::port::store::RunRecord;
use engine_core::signal::ManualOutcome;
use engine_core::{SignalId, StepId};

use super::arguments::{
    CompleteArguments, OutcomeChoice, SignalArguments, SignalOptions, StepSignalArguments, WatchArguments,
};
use super::attend::{Interrupts, advice, attend, leave};
use super::complaint::{Complaint, Result};
use super::exit::Exit;
use super::output::Tone;
use super::session::{Session, json_argument};
use crate::facade::ask::{Ask, Asked, Decision};
use crate::{Completion, Drivetrain, Error};

/// How long another process may take to decide before this one looks whether there is one.
const LOOK: Duration = Duration::from_millis(750);

pub(super) async fn pause(session: &Session, arguments: SignalArguments, immediate: bool) -> Result<Exit> {
    let ask = if immediate { Ask::pause_immediately() } else { Ask::pause() };
    simple(session, arguments, ask).await
}

pub(super) async fn resume(session: &Session, arguments: SignalArguments) -> Result<Exit> {
    simple(session, arguments, Ask::resume()).await
}

pub(super) async fn cancel(session: &Session, arguments: SignalArguments) -> Result<Exit> {
    simple(session, arguments, Ask::cancel()).await
}

pub(super) async fn approve(session: &Session, arguments: SignalArguments) -> Result<Exit> {
    simple(session, arguments, Ask::approve()).await
}

pub(super) async fn retry(session: &Session, arguments: StepSignalArguments, cascade: bool) -> Result<Exit> {
    let step = StepId::new(&arguments.step)?;
    about_step(session, arguments, Ask::retry(step, cascade)).await
}

pub(super) async fn skip(session: &Session, arguments: StepSignalArguments) -> Result<Exit> {
    let step = StepId::new(&arguments.step)?;
    about_step(session, arguments, Ask::skip(step)).await
}

pub(super) async fn complete(session: &Session, arguments: CompleteArguments) -> Result<Exit> {
    let signal = arguments.signal;
    let step = StepId::new(&signal.step)?;
    let output = arguments.output.as_deref().map(|output| json_argument("--output", output)).transpose()?;
    let drivetrain = session.connect().await?;
    let record = session.run(&drivetrain, &signal.run.run).await?;
    let completion = Completion {
        outcome: match arguments.outcome {
            OutcomeChoice::Succeeded => ManualOutcome::Succeeded,
            OutcomeChoice::Failed => ManualOutcome::Failed,
            OutcomeChoice::Cancelled => ManualOutcome::Cancelled,
        },
        token: arguments.token,
        output,
        notes: arguments.notes,
        evidence: arguments.evidence,
    };
    check_step(&drivetrain, &record, &step).await?;
    let ask = drivetrain.completion(&record.run_id, &step, completion, None).await?;
    send(session, &drivetrain, &record, ask, signal.options).await
}

async fn simple(session: &Session, arguments: SignalArguments, ask: Ask) -> Result<Exit> {
    let drivetrain = session.connect().await?;
    let record = session.run(&drivetrain, &arguments.run.run).await?;
    send(session, &drivetrain, &record, ask, arguments.options).await
}

async fn about_step(session: &Session, arguments: StepSignalArguments, ask: Ask) -> Result<Exit> {
    let drivetrain = session.connect().await?;
    let record = session.run(&drivetrain, &arguments.run.run).await?;
    check_step(&drivetrain, &record, &StepId::new(&arguments.step)?).await?;
    send(session, &drivetrain, &record, ask, arguments.options).await
}

/// A misspelt step is told with the nearest one.
pub(super) async fn check_step(drivetrain: &Drivetrain, record: &RunRecord, step: &StepId) -> Result<()> {
    let plan = drivetrain.plan_of(&record.run_id).await?;
    if plan.find(step.as_str()).is_some() {
        return Ok(());
    }
    let ids = plan.document().steps.iter().map(|step| step.id.to_string());
    let hint = match crate::config::keys::nearest(step.as_str(), ids) {
        Some(near) => format!("did you mean {near}?"),
        None => format!("`drivetrain status {}` lists the steps", record.run_id),
    };
    Err(Error::new(engine_core::Code::StepNotFound, format!("plan {} has no step {step}", record.plan_id))
        .with_hint(hint)
        .into())
}

async fn send(
    session: &Session,
    drivetrain: &Drivetrain,
    record: &RunRecord,
    mut ask: Ask,
    options: SignalOptions,
) -> Result<Exit> {
    if let Some(reason) = options.reason {
        ask = ask.because(reason);
    }
    if let Some(id) = options.signal_id {
        ask = ask.with_id(SignalId::new(id)?);
    }
    let asked = drivetrain.submit(&record.run_id, ask).await?;
    match settle(session, drivetrain, &asked, options.detach).await? {
        Settled::Decided(decision) => report(session, drivetrain, &asked, decision).await,
        Settled::Unattended => {
            let watch = WatchArguments { no_wait: true, ..options.watch };
            let mut interrupts = Interrupts::new()?;
            let driver = session.serve_own(&options.allow).await?;
            session.drive(&driver, record).await?;
            let exit =
                take_over(session, &driver, &asked, record.last_event_seq, &watch, &mut interrupts).await;
            leave(&driver, &exit, &mut interrupts).await;
            exit
        }
    }
}

enum Settled {
    Decided(Decision),
    Unattended,
}

/// Waits for the decision; not for long when nobody is there to make it and this process can.
async fn settle(session: &Session, drivetrain: &Drivetrain, asked: &Asked, detach: bool) -> Result<Settled> {
    let may_drive = !detach && session.drives_itself();
    let until = Instant::now() + session.config.signal_timeout();
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let decision = drivetrain.decision(asked, if may_drive { left.min(LOOK) } else { left }).await?;
        if !matches!(decision, Decision::Undecided { .. }) || !may_drive {
            return Ok(Settled::Decided(decision));
        }
        // A process that drives the run decides, however busy it is; one that is gone keeps it until its lease ends.
        if session.is_free(drivetrain, &asked.run_id).await? {
            return Ok(Settled::Unattended);
        }
        if left.is_zero() {
            return Ok(Settled::Decided(decision));
        }
    }
}

/// Drives the run from here on, until it has ended or only a person can move it.
async fn take_over(
    session: &Session,
    driver: &Drivetrain,
    asked: &Asked,
    after: u64,
    watch: &WatchArguments,
    interrupts: &mut Interrupts,
) -> Result<Exit> {
    let decision = driver.decision(asked, session.config.signal_timeout()).await?;
    if !matches!(decision, Decision::Accepted { .. }) {
        return report(session, driver, asked, decision).await;
    }
    if !watch.json && !watch.quiet {
        session.output.note("nobody has decided yet, so this process drives the run");
    }
    attend(session, driver, &asked.run_id, after, watch, interrupts).await
}

async fn report(
    session: &Session,
    drivetrain: &Drivetrain,
    asked: &Asked,
    decision: Decision,
) -> Result<Exit> {
    let output = session.output;
    match decision {
        Decision::Accepted { run_seq } => {
            let snapshot = drivetrain.get(&asked.run_id).await?;
            output.line(format!(
                "{} as event {run_seq}; the run is {}: {}",
                output.paint(Tone::Good, "accepted"),
                snapshot.status.map_or("UNKNOWN", |status| status.as_str()),
                snapshot.message
            ));
            advice(session, &asked.run_id, &snapshot).iter().for_each(|line| output.line(line));
            Ok(Exit::Success)
        }
        Decision::Rejected { code, message } => Err(Complaint::new(
            Exit::Refused,
            format!("refused: {message} [{code}]"),
        )
        .hint(format!("drivetrain{} status {} shows where it stands", session.flags(), asked.run_id))),
        Decision::Undecided { signal_id } => Err(Complaint::new(
            Exit::Undecided,
            format!("signal {signal_id} is stored, and nobody has decided yet"),
        )
        .hint(format!("it is not lost; a worker decides: drivetrain{} worker", session.flags()))),
    }
}
