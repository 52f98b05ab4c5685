//! Each plan run once without disturbance, by the same engine with the same handlers: so it would have ended.

use std::collections::BTreeMap;
use std::sync::Arc;

use engine_core::port::StateStore;
use statestore::MemoryStore;

use super::diary::{Diary, by_run};
use super::ending::Ending;
use super::entries;
use super::errand::engine;
use super::lawful::Lawful;
use super::operator::{Operator, list};
use super::patience::LIMIT;
use super::plans::{PLANS, plan};
use super::runs::{log, start};

/// How each plan ends, by its name.
pub(crate) async fn endings() -> BTreeMap<String, Ending> {
    let folder = tempfile::TempDir::new().expect("a directory");
    let diary = folder.path().join("diary");
    let store: Arc<dyn StateStore> = Arc::new(MemoryStore::new(statestore::Options::default()));
    let engine = engine(&store, &diary, 0).await;
    for plan in PLANS {
        start(&*store, &engine, plan, 0).await;
    }
    let mut operator = Operator::new(Arc::clone(&store), false);
    let ended = async {
        while !operator.round().await.is_empty() {
            operator.news().await;
        }
    };
    tokio::time::timeout(LIMIT, ended).await.expect("runs end when nobody disturbs them");
    engine.shutdown().await;
    let lines = by_run(Diary::read(&diary));
    let mut endings = BTreeMap::new();
    for record in list(&*store, &[]).await {
        let name = record.plan_id.to_string();
        let events = log(&*store, &record.run_id, 0).await.expect("the log can be read");
        let log = Lawful::check(&plan(&name), &events);
        entries::check(&log, &lines[&record.run_id]);
        endings.insert(name, Ending::of(&log));
    }
    endings
}
