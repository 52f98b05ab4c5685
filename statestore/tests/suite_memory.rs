//! The store suite against the store in memory.

#![cfg(feature = "suite")]

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use engine_core::port::{Clock, StateStore};
use engine_core::{CheckpointId, RunId};
use statestore::suite::Harness;
use statestore::{MemoryStore, Options};

/// A store in memory; nobody else can share its data.
#[derive(Debug, Default)]
struct InMemory(OnceLock<Arc<MemoryStore>>);

#[async_trait]
impl Harness for InMemory {
    async fn open(&self, clock: Arc<dyn Clock>) -> Arc<dyn StateStore> {
        let store = Arc::new(MemoryStore::new(Options { clock: Some(clock), ..Options::default() }));
        self.0.set(store.clone()).expect("a harness opens one store");
        store
    }

    async fn reopen(&self, _: Arc<dyn Clock>) -> Option<Arc<dyn StateStore>> {
        None
    }

    async fn damage_checkpoint(&self, run_id: &RunId, checkpoint_id: &CheckpointId) {
        self.0.get().expect("a store").damage_checkpoint(run_id, checkpoint_id);
    }
}

statestore::store_suite!(InMemory::default());
