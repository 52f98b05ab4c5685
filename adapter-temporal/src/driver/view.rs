//! What the query `state` answers.

use engine_core::decider::Run;
use engine_core::event::run::StepCounts;
use engine_core::machine::{RunStatus, StepStatus};
use serde::{Deserialize, Serialize};

/// Where a run stands, as its driver knows it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct View {
    status: Option<RunStatus>,
    substatus: Option<String>,
    message: String,
    counts: StepCounts,
    /// Steps that have begun and not ended, by the id of the step and the number of the attempt.
    in_flight: Vec<String>,
    /// Everything up to this place in the log is known.
    folded_through: u64,
}

impl View {
    pub(crate) fn of(run: Option<&Run>) -> Self {
        let Some(run) = run else {
            return Self { message: "not begun".to_owned(), ..Self::default() };
        };
        let view = run.view();
        let begun = run.attempts().filter(|attempt| {
            attempt.status == StepStatus::Running
                || attempt.status == StepStatus::Pending && attempt.substatus.is_some()
        });
        Self {
            status: view.status,
            substatus: view.substatus.map(|substatus| substatus.as_str().to_owned()),
            message: view.message,
            counts: run.state().counts(),
            in_flight: begun.map(|attempt| format!("{}#{}", attempt.step, attempt.attempt)).collect(),
            folded_through: run.state().folded_through(),
        }
    }
}
