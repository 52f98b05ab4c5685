//! `conformance`: whether an engine does what the contract says.
//!
//! - this file: the suite on an engine; `progress`: what is shown meanwhile;
//! - `compare`: reports beside each other; `check_log`: the log of one run.

mod check_log;
mod compare;
mod progress;

use conformance::command::{Request, execute_telling};
use conformance::report::markdown::headline;
use conformance::report::{Conclusion, Report};
use conformance::{Profile, Variant};

use super::arguments::{ConformanceArguments, ConformanceCommand, SuiteArguments};
use super::complaint::{Complaint, Result};
use super::exit::Exit;
use super::output::{Output, Tone, count};
use super::session::Session;
use crate::engines;
use progress::Progress;

pub(super) async fn conformance(
    session: &Session,
    store: Option<&str>,
    arguments: ConformanceArguments,
) -> Result<Exit> {
    match arguments.command {
        None => suite(session, store, &arguments.suite).await,
        Some(ConformanceCommand::Compare { reports }) => compare::compare(session.output, &reports),
        Some(ConformanceCommand::CheckLog { run, json }) => {
            check_log::check_log(session, &run.run, json).await
        }
    }
}

/// Runs the suite. Each case has a store of its own: the configured one is not touched.
async fn suite(session: &Session, store: Option<&str>, arguments: &SuiteArguments) -> Result<Exit> {
    let output = session.output;
    let request = request(arguments)?;
    let harness = engines::find(&session.config.engine())?.harness(store.unwrap_or("memory:"))?;
    let can = harness.variants();
    if let Some(variant) = request.variants.iter().find(|variant| !can.contains(variant)) {
        let names: Vec<&str> = can.into_iter().map(Variant::name).collect();
        let hint = if names.is_empty() {
            "it can do none".to_owned()
        } else {
            format!("it can do: {}", names.join(", "))
        };
        return Err(Complaint::usage(format!("the harness of this engine cannot do the variant {variant}"))
            .hint(hint));
    }
    let mut progress = Progress::new(output, request.count(), arguments.json);
    let report = execute_telling(&harness, &request, |told| progress.told(told)).await;
    progress.end();
    let report = report.map_err(|cause| {
        let folder = request.report.as_deref().map(|folder| folder.display().to_string()).unwrap_or_default();
        Complaint::usage(format!("the reports cannot be written to {folder}: {cause}"))
            .hint("see that this user may write there, or choose another folder with --report")
    })?;
    if arguments.json {
        output.line(report.to_json());
    } else {
        conclude(output, &report);
        if let Some(folder) = &request.report {
            output.line(format!("reports: {}", folder.join("report.md").display()));
        }
    }
    Ok(exit(report.result))
}

fn request(arguments: &SuiteArguments) -> Result<Request> {
    if !(arguments.timeout_scale.is_finite() && arguments.timeout_scale > 0.0) {
        return Err(
            Complaint::usage("--timeout-scale must be more than 0").hint("4 waits four times as long")
        );
    }
    let profiles = Profile::ALL
        .into_iter()
        .filter(|profile| arguments.profile.iter().any(|name| name == profile.name()));
    let wanted =
        |variant: &Variant| arguments.variant.iter().any(|name| name == variant.name() || name == "all");
    Ok(Request {
        cases: arguments.case.clone(),
        profiles: profiles.collect(),
        variants: Variant::ALL.into_iter().filter(wanted).collect(),
        report: arguments.report.clone(),
        timeout_scale: arguments.timeout_scale,
    })
}

/// What it comes to.
fn conclude(output: Output, report: &Report) {
    let rows: Vec<Vec<(Tone, String)>> = report
        .profiles
        .iter()
        .map(|profile| {
            let counts = profile.counts;
            let number =
                |tone: Tone, number: usize| (if number > 0 { tone } else { Tone::Quiet }, number.to_string());
            vec![
                (Tone::Plain, profile.name.name().to_owned()),
                (Tone::Quiet, profile.variant.map_or_else(|| "-".to_owned(), |variant| variant.to_string())),
                number(Tone::Good, counts.passed),
                number(Tone::Bad, counts.failed),
                number(Tone::Bad, counts.errors),
                number(Tone::Careful, counts.skipped),
                (tone(profile.result), profile.result.name().to_owned()),
            ]
        })
        .collect();
    if !rows.is_empty() {
        output.table(&["PROFILE", "VARIANT", "PASSED", "FAILED", "ERRORS", "SKIPPED", "RESULT"], &rows);
    }
    if !report.scenarios.is_empty() {
        let agree = report.scenarios.iter().filter(|scenario| scenario.verdict == "pass").count();
        output.line(format!(
            "{agree} of {} did what their golden trace says",
            count(report.scenarios.len(), "scenario")
        ));
    }
    if let Some(must) = report.requirements.get("must").filter(|must| must.tried > 0) {
        output.line(format!("{} of {} MUSTs were tried, {} hold", must.tried, must.total, must.held));
    }
    output.line(output.paint(tone(report.result), &headline(report)));
    if report.result == Conclusion::Nothing {
        output.note("nothing ran: see that --case and --profile match something");
    }
}

fn tone(conclusion: Conclusion) -> Tone {
    match conclusion {
        Conclusion::Success => Tone::Good,
        Conclusion::Failure => Tone::Bad,
        Conclusion::Partial | Conclusion::Error | Conclusion::Nothing => Tone::Careful,
    }
}

fn exit(conclusion: Conclusion) -> Exit {
    match conclusion {
        Conclusion::Success => Exit::Success,
        Conclusion::Partial | Conclusion::Failure => Exit::Failure,
        Conclusion::Error => Exit::Usage,
        Conclusion::Nothing => Exit::Invalid,
    }
}
