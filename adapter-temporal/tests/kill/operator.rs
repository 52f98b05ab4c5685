//! Starts runs, kills processes, and waits until everything has healed.

use std::collections::BTreeSet;
use std::process::Child;
use std::sync::Arc;
use std::time::Duration;

use adapter_temporal::Temporal;
use client::{Client, Parts, Scope, Start};
use dev_servers::temporal::DevServer;
use engine_core::machine::RunStatus;
use engine_core::{RunId, TenantId};
use worker::MachineTime;

use crate::diary::Diary;
use crate::{judge, worker_process};

/// Lease and a little more: so long healing may take, on an ordinary machine.
const HEALS: Duration = Duration::from_secs(30);
/// What a machine with other things to do gets on top.
const PATIENCE: Duration = Duration::from_secs(60);

/// What dies, how often, and in what.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Kills {
    pub(crate) workers: usize,
    pub(crate) server: usize,
    pub(crate) local: bool,
    pub(crate) cut: bool,
}

pub(crate) struct Operator {
    kills: Kills,
    server: DevServer,
    folder: tempfile::TempDir,
    client: Client,
}

impl Operator {
    pub(crate) async fn open(kills: Kills) -> Self {
        let server = DevServer::start().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let store = worker_process::store(folder.path()).await;
        let options = worker_process::options(&server.address(), kills.cut);
        let engine = Temporal::connect(Arc::clone(&store), options).await.unwrap();
        let client = Client::new(Parts {
            engine: Arc::new(engine),
            store,
            authorizer: None,
            clock: Arc::new(MachineTime),
            scope: Scope {
                tenant_id: TenantId::new("acme").unwrap(),
                project_id: "kill".to_owned(),
                environment_id: "test".to_owned(),
            },
            actor: "ada".to_owned(),
            emitted_by: "operator".into(),
            handlers: Some(BTreeSet::from(["work".to_owned()])),
            signal_timeout: HEALS,
        });
        Self { kills, server, folder, client }
    }

    /// Two chains side by side and a join.
    fn plan(&self) -> String {
        let dispatch = if self.kills.local { "local" } else { "queued" };
        let mut plan = format!("id: mortal\nversion: 1.0.0\nmode: graph\ndispatch: {dispatch}\nsteps:\n");
        for chain in ["left", "right"] {
            for number in 0..6 {
                let after = if number == 0 { String::new() } else { format!("{chain}{}", number - 1) };
                plan +=
                    &format!("  - {{id: {chain}{number}, handler: work, dependsOn: [{after}], with: 250}}\n");
            }
        }
        plan + "  - {id: join, handler: work, dependsOn: [left5, right5], with: 10}\n"
    }

    pub(crate) async fn campaign(mut self, runs: usize) {
        let diary = Diary::at(self.folder.path());
        let mut worker = self.worker();
        let plan = self.client.read_plan(&self.plan()).unwrap();
        let mut started = Vec::new();
        for _ in 0..runs {
            started.push(self.client.start(Start::of(Arc::clone(&plan))).await.unwrap().run_id);
        }
        diary.grows(0, runs, PATIENCE).await;
        for _ in 0..self.kills.workers {
            diary.grows(diary.calls().len(), 3, HEALS + PATIENCE).await;
            worker.kill().unwrap();
            worker.wait().unwrap();
            let before = diary.calls().len();
            worker = self.worker();
            let healed = diary.grows(before, 1, HEALS + PATIENCE).await;
            println!("healed after {healed:?}");
        }
        for _ in 0..self.kills.server {
            diary.grows(diary.calls().len(), 3, HEALS + PATIENCE).await;
            self.server.kill().unwrap();
            self.server.start_again().unwrap();
        }
        for run_id in &started {
            let ended = tokio::time::timeout(HEALS + PATIENCE, self.ends(run_id)).await;
            assert!(ended.is_ok(), "run {run_id} has not ended: {}", self.told(run_id).await);
        }
        for run_id in &started {
            judge::lawful(&self.client, run_id, &diary, plan.len()).await;
        }
        worker.kill().unwrap();
        worker.wait().unwrap();
    }

    fn worker(&self) -> Child {
        worker_process::spawn(self.folder.path(), &self.server.address(), self.kills.cut)
    }

    async fn ends(&self, run_id: &RunId) {
        let snapshot = self.client.wait(run_id).await.unwrap();
        assert_eq!(snapshot.status, Some(RunStatus::Completed), "run {run_id}");
    }

    async fn told(&self, run_id: &RunId) -> String {
        judge::lines(&judge::log(&self.client, run_id).await)
    }
}
