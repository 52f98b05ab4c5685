//! Nothing is lost when the process that drives runs is killed at any moment: every run ends as it would have.
//!
//! This program starts itself as that process, kills it again and again while another person's signals come in, and lets
//! the last one finish; see [`campaign`]. That a handler notices when it is late is shown by [`lateness`].
//!
//! - [`plans`]: what is run: parallel steps, retries, compensation, waits for a person, delays; [`runs`] makes runs of it;
//! - [`script`]: the handler of every step, which does what the plan says and keeps a [`diary`] beside the log;
//! - [`errand`]: the process that is killed; [`process`] runs this program on it; [`place`] is its database;
//! - [`operator`]: whoever pauses, resumes, approves and completes, from outside;
//! - [`ending`]: what a run came to, compared with the same plan run undisturbed by [`reference`](mod@reference);
//! - [`lawful`]: what must hold for every log; [`entries`]: the log held against the diary;
//! - [`counts`]: what the campaign met, so that a lazy one does not pass; [`patience`] bounds every wait.
//!
//! `DRIVETRAIN_TORTURE_KILLS` says how many processes are killed for each database; 50 when it says nothing.

mod campaign;
mod counts;
mod diary;
mod ending;
mod entries;
mod errand;
mod lateness;
mod lawful;
mod operator;
mod patience;
mod place;
mod plans;
mod process;
mod reference;
mod runs;
mod script;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

use errand::Errand;
use place::Place;

fn main() -> ExitCode {
    if let Some(errand) = Errand::from_arguments(std::env::args().skip(1)) {
        errand.run();
        return ExitCode::SUCCESS;
    }
    libtest_mimic::run(&Arguments::from_args(), trials()).exit_code()
}

fn trials() -> Vec<Trial> {
    [("sqlite", Place::file as fn() -> Place), ("postgres", Place::schema)]
        .into_iter()
        .map(|(database, place)| {
            Trial::test(format!("{database}::every_run_ends_as_it_would_have"), move || {
                campaign::every_run_ends_as_it_would_have(database, &place());
                Ok(())
            })
        })
        .chain([Trial::test("memory::a_late_handler_notices", || {
            lateness::is_noticed();
            Ok(())
        })])
        .collect()
}
