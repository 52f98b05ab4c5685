//! When runs and steps start.

use super::cron;
use super::report::{Finding, Report};
use super::{Subject, step_path};
use crate::plan::document::Path;
use crate::plan::model::{PlanSchedule, StepSchedule};
use crate::plan::problem::ProblemCode;

pub(super) fn check(subject: &Subject<'_>, report: &mut Report) {
    if let Some(schedule) = &subject.plan.schedule {
        let whole = !subject.unreadable.has_of_plan("schedule");
        plan_schedule(schedule, whole, report);
    }
    for (position, step) in subject.steps() {
        if let Some(StepSchedule { delay_ms, at }) = &step.schedule
            && delay_ms.is_some() == at.is_some()
            && !subject.unreadable.has(position, "schedule")
        {
            report.add(exactly_one(step_path(position).key("schedule"), "`delayMs` and `at`"));
        }
    }
}

/// Unless the schedule is `whole`, one of the three ways may have been taken out.
fn plan_schedule(schedule: &PlanSchedule, whole: bool, report: &mut Report) {
    let path = || Path::root().key("schedule");
    let given = [schedule.cron.is_some(), schedule.interval_ms.is_some(), schedule.at.is_some()];
    if whole && given.into_iter().filter(|given| *given).count() != 1 {
        report.add(exactly_one(path(), "`cron`, `intervalMs` and `at`"));
    }
    if let Some(cron) = &schedule.cron
        && let Err(reason) = cron::check(cron)
    {
        report.add(Finding::new(
            ProblemCode::ScheduleInvalid,
            path().key("cron"),
            reason,
            "write minute, hour, day of month, month and day of week, as `30 2 * * mon-fri`",
        ));
    }
    if let Some(zone) = &schedule.time_zone {
        time_zone(zone, path().key("timeZone"), report);
    }
    if let (Some(start), Some(end)) = (schedule.start, schedule.end)
        && start >= end
    {
        report.add(Finding::new(
            ProblemCode::ScheduleInvalid,
            path().key("end"),
            format!("the schedule ends at {end}, not after its start at {start}"),
            "write an `end` after `start`",
        ));
    }
    if let Some(at) = schedule.at {
        let too_early = schedule.start.is_some_and(|start| at < start);
        let too_late = schedule.end.is_some_and(|end| at > end);
        if too_early || too_late {
            report.add(Finding::new(
                ProblemCode::ScheduleInvalid,
                path().key("at"),
                format!("{at} is not between `start` and `end`, so nothing would ever start"),
                "move `at`, or remove `start` and `end`",
            ));
        }
    }
}

fn time_zone(zone: &str, path: Path, report: &mut Report) {
    let zones = jiff::tz::TimeZoneDatabase::bundled();
    if zones.get(zone).is_ok() {
        return;
    }
    let names: Vec<String> = zones.available().map(|name| name.to_string()).collect();
    let meant = report.closest(zone, names.iter().map(String::as_str));
    let message = format!("there is no time zone {zone:?}");
    let hint = "write its name as in the IANA database, as Europe/Berlin";
    report.add(Finding::new(ProblemCode::UnknownTimeZone, path, message, hint).meant(meant));
}

fn exactly_one(path: Path, of: &str) -> Finding {
    let message = format!("a schedule here has exactly one of {of}");
    Finding::new(ProblemCode::ScheduleInvalid, path, message, "write one of them and remove the others")
}
