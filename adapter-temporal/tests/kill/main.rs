//! SIGKILL: of workers in the middle of steps, also of local ones and while histories are cut off, and of the Temporal
//! server itself. Every run ends right, no finished attempt is called again, and it heals by itself.
//!
//! Workers are processes of their own: this program, started with a place to work at.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and tells how long healing took"
)]

mod diary;
mod judge;
mod operator;
mod worker_process;

use std::sync::OnceLock;

use libtest_mimic::{Arguments, Failed, Trial};
use operator::{Kills, Operator};
use tokio::runtime::Runtime;

/// Runs of one test.
const RUNS: usize = 4;

fn main() {
    if let Some(place) = worker_process::place() {
        return worker_process::run(&place);
    }
    let mut arguments = Arguments::from_args();
    // Each has a server and processes of its own.
    arguments.test_threads.get_or_insert(1);
    let trial = |name: &str, kills: Kills| {
        Trial::test(name, move || -> Result<(), Failed> {
            runtime().block_on(async {
                let operator = Operator::open(kills).await;
                operator.campaign(RUNS).await;
            });
            Ok(())
        })
    };
    let trials = vec![
        trial("workers_die_in_the_middle_of_steps", Kills { workers: 3, ..Kills::default() }),
        trial("workers_die_in_a_chain_of_local_steps", Kills { workers: 3, local: true, ..Kills::default() }),
        trial("workers_die_while_histories_are_cut_off", Kills { workers: 3, cut: true, ..Kills::default() }),
        trial("the_server_dies_and_comes_back_on_its_database", Kills { server: 2, ..Kills::default() }),
    ];
    libtest_mimic::run(&arguments, trials).exit();
}

fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| Runtime::new().unwrap())
}
