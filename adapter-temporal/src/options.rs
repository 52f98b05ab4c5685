//! What can be chosen about the engine.

use std::collections::BTreeMap;
use std::time::Duration;

use engine_core::AgentName;
use engine_core::plan::Dispatch;

use crate::carried::Chosen;
use crate::connect::Connect;

/// What can be chosen about the engine.
#[derive(Clone, Debug)]
pub struct Options {
    /// How the server is reached.
    pub connect: Connect,
    /// Where runs and steps queue up that name no agent with a queue of its own.
    pub task_queue: String,
    /// Agents that have a task queue of their own. Steps of other agents use [`Options::task_queue`].
    pub agent_queues: BTreeMap<AgentName, String>,
    /// Task queues of agents that this process serves besides [`Options::task_queue`].
    pub serves: Vec<AgentName>,
    /// After how long without a sign of life an attempt's worker counts as lost. Cancelling takes up to 0.8 of it where
    /// driver and worker are different processes.
    pub heartbeat: Duration,
    /// How steps reach a worker when neither they nor their plan say so.
    pub dispatch: Option<Dispatch>,
    /// The history is cut off at the latest when it has so many events; `None`: when Temporal suggests it.
    pub longest_history: Option<u32>,
    /// Attempts that this process runs at once.
    pub attempts_at_once: usize,
    /// Runs that this process keeps in memory between two tasks.
    pub runs_cached: usize,
    /// How often runs are looked for whose workflow is gone.
    pub reconcile: Duration,
    /// How long [`crate::Temporal::shutdown`] waits for handlers that run.
    pub shutdown_grace: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            connect: Connect::default(),
            task_queue: "drivetrain".to_owned(),
            agent_queues: BTreeMap::new(),
            serves: Vec::new(),
            heartbeat: Duration::from_secs(5),
            dispatch: None,
            longest_history: None,
            attempts_at_once: 200,
            runs_cached: 1000,
            reconcile: Duration::from_secs(10),
            shutdown_grace: Duration::from_secs(30),
        }
    }
}

impl Options {
    /// What a run keeps of this for its whole life.
    pub(crate) fn chosen(&self) -> Chosen {
        Chosen {
            queues: self.agent_queues.clone(),
            heartbeat_ms: u64::try_from(self.heartbeat.as_millis()).unwrap_or(u64::MAX),
            dispatch: self.dispatch,
            longest_history: self.longest_history,
        }
    }
}
