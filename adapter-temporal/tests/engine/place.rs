//! A world on the shared server, and Temporal's own view of it.

use std::time::Duration;

use adapter_temporal::{Connect, Options};
use conformance::{TestRun, Timeouts, World};
use temporalio_client::{
    Client, UntypedWorkflow, WorkflowExecutionStatus, WorkflowFetchHistoryOptions, WorkflowHandle,
    WorkflowListOptions,
};

use crate::harness::TemporalHarness;

pub(crate) struct Place {
    pub(crate) world: World,
    pub(crate) temporal: Client,
}

impl Place {
    pub(crate) async fn open(name: &str, choose: fn(Options) -> Options) -> Self {
        let address = dev_servers::temporal::shared_address().unwrap();
        let temporal = Connect::to(address.clone()).connect().await.unwrap();
        let harness = TemporalHarness::on(address, false).choosing(choose);
        let world = World::open(&harness, name, Timeouts::default()).await.unwrap();
        Self { world, temporal }
    }

    pub(crate) fn workflow(&self, run: &TestRun) -> WorkflowHandle<Client, UntypedWorkflow> {
        self.temporal.get_workflow_handle::<UntypedWorkflow>(run.run_id.to_string())
    }

    /// The history of the run's latest execution, as JSON.
    pub(crate) async fn history(&self, run: &TestRun) -> String {
        let history = self.workflow(run).fetch_history(WorkflowFetchHistoryOptions::default());
        String::from_utf8(history.to_json().await.unwrap()).unwrap()
    }

    /// How many executions the run's workflow has had, once Temporal lists so many; its list lags behind.
    pub(crate) async fn executions(&self, run: &TestRun, at_least: usize) -> usize {
        use futures_util::StreamExt as _;
        let query = format!("WorkflowId = '{}'", run.run_id);
        let counting = async {
            loop {
                let listed = self.temporal.list_workflows(&query, WorkflowListOptions::default());
                let statuses: Vec<WorkflowExecutionStatus> =
                    listed.map(|workflow| workflow.unwrap().status()).collect().await;
                if statuses.len() >= at_least {
                    return statuses.len();
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), counting).await.unwrap_or(0)
    }
}
