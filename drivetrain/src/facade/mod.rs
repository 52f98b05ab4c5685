//! The facade: everything that a program does with runs, on whatever engine and store it was built with.
//!
//! [`Drivetrain`] is a [`Client`] together with the engine that it was built with; what one does with runs is the
//! client's, and its modules stand here under their names:
//!
//! - [`builder`]: engine, store, handlers, and who acts;
//! - [`start`]: a plan and its input become a run;
//! - [`ask`]: signals, and the decision on each; [`complete`]: steps that a person ends;
//! - [`read`]: snapshots, lists, live events, waiting for the end;
//! - [`origin`]: runs made from other runs;
//! - [`checkpoint`]: stored states of a run.

pub mod builder;

use std::ops::Deref;

pub use client::{Client, Scope, ask, checkpoint, complete, origin, read, start};

use crate::engines::Served;

/// Runs plans. Cheap to clone; all clones are the same.
///
/// Every call is for one tenant, the one it was built for; another tenant's run is `NOT_FOUND`.
#[derive(Clone, Debug)]
pub struct Drivetrain {
    client: Client,
    served: Served,
}

impl Drivetrain {
    pub(crate) fn over(client: Client, served: Served) -> Self {
        Self { client, served }
    }

    /// What one does with runs, without the engine's start and stop.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Stops driving runs in this process: nothing new starts, and leases are given back, so that another process can
    /// go on at once. Runs stay as they are.
    pub async fn shutdown(&self) {
        self.served.shutdown().await;
    }
}

/// Everything that a client does.
impl Deref for Drivetrain {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}
