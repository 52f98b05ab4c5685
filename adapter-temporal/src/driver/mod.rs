//! The interpreter: a workflow that drives one run from its start to its end.
//!
//! In turns: let a local activity decide and write what has to be, fold what the log says, hand out what the decider
//! releases, and wait until something happens. Everything here must be the same when a history is replayed: no clock but the
//! workflow's, no order but that of the history. A change of what is done when is a change of [`INTERPRETER_VERSION`], and
//! recorded histories say whether it needs a patch.
//!
//! - this file: the workflow, its signal and its query; `drive`: one run;
//! - `hand_out`: activities for attempts; `view`: what the query answers.

mod drive;
mod hand_out;
mod view;

use engine_core::StepId;
use engine_core::decider::Run;
use engine_core::machine::RunStatus;
use serde::{Deserialize, Serialize};
use temporalio_macros::{workflow, workflow_methods};
use temporalio_sdk::{SyncWorkflowContext, WorkflowContext, WorkflowContextView, WorkflowResult};

use crate::carried::RunInput;
use drive::Driver;
use view::View;

/// The version of the interpreter, as it stands in RunStarted.
pub const INTERPRETER_VERSION: &str = "1";

/// The type of the workflow, as Temporal's own tools show it.
pub const WORKFLOW_TYPE: &str = "DrivetrainRun";

/// A run on Temporal.
#[workflow]
pub(crate) struct Interpreter {
    input: RunInput,
    run: Option<Run>,
    /// How often somebody said that there are signals.
    rings: u64,
}

/// How a run ended, as Temporal shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Ended {
    pub(crate) status: RunStatus,
    pub(crate) last_event_seq: u64,
}

/// There is something to look at: a signal in the run's inbox, or a request in its log. Only names travel; the rest may
/// hold an output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Ring {
    pub(crate) signal_id: String,
    #[serde(rename = "type")]
    pub(crate) signal_type: String,
    pub(crate) actor: String,
}

impl Ring {
    /// Somebody who runs a step asked for a person.
    pub(crate) fn about_a_review(step_id: &StepId) -> Self {
        Self { signal_id: String::new(), signal_type: "review".to_owned(), actor: step_id.to_string() }
    }
}

#[workflow_methods]
impl Interpreter {
    #[init]
    fn new(_: &WorkflowContextView, input: RunInput) -> Self {
        Self { input, run: None, rings: 0 }
    }

    #[run(name = "DrivetrainRun")]
    pub(crate) async fn run(context: &mut WorkflowContext<Self>) -> WorkflowResult<Ended> {
        Driver::new(context).drive().await
    }

    #[signal(name = "signal")]
    pub(crate) fn ring(&mut self, _: &mut SyncWorkflowContext<Self>, _: Ring) {
        self.rings += 1;
    }

    #[query(name = "state")]
    pub(crate) fn state(&self, _: &WorkflowContextView) -> View {
        View::of(self.run.as_ref())
    }
}
