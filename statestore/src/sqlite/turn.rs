//! Whose turn it is to write. SQLite lets one connection write at a time and makes the other look again after a while;
//! the two writers of one store take turns instead, first come first served, and lose no time.

use std::sync::Arc;

use tokio::sync::{Mutex, OwnedMutexGuard};

/// The turn of one of the writers. Clones share it.
#[derive(Debug, Default)]
pub(super) struct Turn {
    writing: Arc<Mutex<()>>,
    held: Option<OwnedMutexGuard<()>>,
}

impl Clone for Turn {
    fn clone(&self) -> Self {
        Self { writing: Arc::clone(&self.writing), held: None }
    }
}

impl Turn {
    /// Waits for the turn, unless this writer has it.
    pub(super) async fn take(&mut self) {
        if self.held.is_none() {
            self.held = Some(Arc::clone(&self.writing).lock_owned().await);
        }
    }

    /// Gives the turn to whoever waits longest.
    pub(super) fn give_back(&mut self) {
        self.held = None;
    }
}
