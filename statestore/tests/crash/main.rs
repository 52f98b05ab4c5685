//! What is left when something ends in the middle: the process that appends, the server, the patience of the caller.
//!
//! This program starts itself as the process that appends, opens or is traced, and kills it; see [`errand`].
//!
//! - [`kills`]: whatever was acknowledged is there after SIGKILL, and nothing that nobody sent (STORE-11);
//! - [`opening`]: many open a fresh database at once and some are killed; a newer schema is refused (STORE-12);
//! - [`durability`]: what SIGKILL cannot show: the settings, and how often a commit waits for the disk;
//! - [`outage`]: the server stops, crashes or answers into the void while writers write and readers wait;
//! - [`hearing`]: who waits for news hears also what was written as the server came back;
//! - [`blocked`]: somebody else holds the database for longer or shorter than the write budget.
//!
//! What they are made with:
//!
//! - [`calls`]: what is appended, each call made from its name alone; [`author`] appends them, [`crew`] is several authors
//!   at once, [`acknowledgement`] the line that says what became of a call;
//! - [`ledger`]: keeps these lines and holds the database against them; [`watcher`] waits for news;
//! - [`place`]: a database; [`process`] and [`strace`] run this program again, [`proxy`] loses answers, and [`patience`]
//!   bounds every wait.
//!
//! `DRIVETRAIN_TORTURE_KILLS` says how many processes are killed for each database; 50 when it says nothing.

mod acknowledgement;
mod author;
mod blocked;
mod calls;
mod crew;
mod durability;
mod errand;
mod hearing;
mod kills;
mod ledger;
mod opening;
mod outage;
mod patience;
mod place;
mod process;
mod proxy;
mod strace;
mod watcher;

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
    let mut trials = Vec::new();
    for (database, place) in [("sqlite", Place::file as fn() -> Place), ("postgres", Place::database)] {
        let mut add = |name: &str, trial: fn(&Place)| {
            trials.push(Trial::test(format!("{database}::{name}"), move || {
                trial(&place());
                Ok(())
            }));
        };
        add("acknowledged_events_survive_kills", kills::acknowledged_events_survive);
        add("opened_by_many_of_whom_some_are_killed", opening::by_many_of_whom_some_are_killed);
        add("a_newer_schema_is_refused", opening::a_newer_schema_is_refused);
        add("what_was_given_up_is_not_stored_twice", blocked::what_was_given_up_is_not_stored_twice);
        add("a_short_block_is_waited_out", blocked::a_short_block_is_waited_out);
    }
    let mut add = |name: &str, trial: fn()| {
        trials.push(Trial::test(name, move || {
            trial();
            Ok(())
        }));
    };
    add("sqlite::settings_are_what_the_durability_says", durability::sqlite_settings);
    add("sqlite::full_waits_for_the_disk_before_each_acknowledgement", durability::sqlite_full);
    add("sqlite::normal_seldom_waits_for_the_disk", durability::sqlite_normal);
    add("postgres::settings_are_durable", durability::postgres_settings);
    add("postgres::each_commit_waits_for_the_disk", durability::postgres_commits);
    add("postgres::a_server_that_is_stopped_for_ten_seconds_is_waited_for", outage::stopped_for_ten_seconds);
    add("postgres::a_server_that_crashes_is_waited_for", outage::crashed);
    add("postgres::a_commit_whose_answer_is_lost_counts_once", outage::answers_are_lost);
    add(
        "postgres::signals_are_heard_after_an_outage_within_the_budget",
        hearing::of_signals_after_an_outage_within_the_budget,
    );
    add(
        "postgres::signals_are_heard_after_an_outage_longer_than_the_budget",
        hearing::of_signals_after_an_outage_longer_than_the_budget,
    );
    add(
        "postgres::events_are_heard_after_an_outage_within_the_budget",
        hearing::of_events_after_an_outage_within_the_budget,
    );
    add(
        "postgres::events_are_heard_after_an_outage_longer_than_the_budget",
        hearing::of_events_after_an_outage_longer_than_the_budget,
    );
    trials
}
