//! `conformance check-log`: the stored log of one run, judged by the suite's checkers.

use conformance::History;
use conformance::check::{self, CHECKERS};
use conformance::history::RunHistory;
use engine_core::event::Event;
use serde_json::json;

use super::super::complaint::Result;
use super::super::exit::Exit;
use super::super::output::{Tone, count};
use super::super::session::Session;

/// Events read at once.
const PAGE: usize = 1000;

pub(super) async fn check_log(session: &Session, named: &str, as_json: bool) -> Result<Exit> {
    let output = session.output;
    let drivetrain = session.connect().await?;
    let record = session.run(&drivetrain, named).await?;
    let run_id = record.run_id;
    // The snapshot first: the log is then at least as long, and is judged up to there.
    let snapshot = drivetrain.get(&run_id).await?;
    let mut events: Vec<Event> = Vec::new();
    loop {
        let after = events.last().map_or(0, |event| event.run_seq);
        let page = drivetrain.events(&run_id, after, PAGE).await?;
        if page.is_empty() {
            break;
        }
        events.extend(page);
    }
    events.retain(|event| event.run_seq <= snapshot.last_event_seq);
    let plan = drivetrain.plan_of(&run_id).await?;
    let length = events.len();
    let tenant_id = record.tenant_id;
    let run = RunHistory { tenant_id, run_id: run_id.clone(), plan, events, snapshot: Some(snapshot) };
    let found = check::all(&History { runs: vec![run], ..History::default() });
    if as_json {
        for violation in &found {
            output.json(
                &json!({"checker": violation.checker, "what": violation.what, "breaks": violation.breaks}),
            );
        }
    } else {
        for violation in &found {
            let checker = output.paint(Tone::Bad, &format!("{:12}", violation.checker));
            let breaks = output.paint(Tone::Quiet, &format!("({})", violation.breaks.join(", ")));
            output.line(format!("{checker}  {} {breaks}", violation.what));
        }
        let (tone, verdict) = match found.len() {
            0 => (Tone::Good, "nothing is wrong".to_owned()),
            wrong => (Tone::Bad, format!("{} found", count(wrong, "violation"))),
        };
        output.line(format!(
            "run {run_id}: {} judged by {}: {}",
            count(length, "event"),
            count(CHECKERS.len(), "checker"),
            output.paint(tone, &verdict)
        ));
    }
    Ok(if found.is_empty() { Exit::Success } else { Exit::Failure })
}
