//! When runs and steps start.

use super::cron;
use super::report::{Finding, Report};
use super::step_path;
use crate::plan::document::Path;
use crate::plan::model::{Plan, PlanSchedule, StepSchedule};
use crate::plan::problem::ProblemCode;

pub(super) fn check(plan: &Plan, report: &mut Report) {
    if let Some(schedule) = &plan.schedule {
        plan_schedule(schedule, report);
    }
    for (position, step) in plan.steps.iter().enumerate() {
        if let Some(StepSchedule { delay_ms, at }) = &step.schedule
            && delay_ms.is_some() == at.is_some()
        {
            report.add(exactly_one(step_path(position).key("schedule"), "`delayMs` and `at`"));
        }
    }
}

fn plan_schedule(schedule: &PlanSchedule, report: &mut Report) {
    let path = || Path::root().key("schedule");
    let given = [schedule.cron.is_some(), schedule.interval_ms.is_some(), schedule.at.is_some()];
    if given.into_iter().filter(|given| *given).count() != 1 {
        report.add(exactly_one(path(), "`cron`, `intervalMs` and `at`"));
    }
    if let Some(cron) = &schedule.cron
        && let Err(reason) = cron::check(cron)
    {
        report.add(
            Finding::new(ProblemCode::ScheduleInvalid, path().key("cron"), reason)
                .hint("write minute, hour, day of month, month and day of week, as `30 2 * * mon-fri`"),
        );
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
    let finding = Finding::new(ProblemCode::UnknownTimeZone, path, format!("there is no time zone {zone:?}"));
    report.add(match meant {
        Some(_) => finding.meant(meant),
        None => finding.hint("write its name as in the IANA database, as Europe/Berlin"),
    });
}

fn exactly_one(path: Path, of: &str) -> Finding {
    Finding::new(ProblemCode::ScheduleInvalid, path, format!("a schedule here has exactly one of {of}"))
}
