//! The cluster that all tests of a process share.

use std::sync::OnceLock;

use anyhow::{Result, anyhow};

use super::Cluster;

/// The variable with the address of a server that tests use, in place of starting one. `cargo xtask test` sets it,
/// so that not every test program starts its own.
pub const SHARED_VARIABLE: &str = "DRIVETRAIN_TEST_POSTGRES";

/// The address of a Postgres for tests: the one in [`SHARED_VARIABLE`], or else that of a cluster which this process
/// starts on the first call and which ends with the process.
///
/// Others use the same server at the same time: a test makes a database or a schema of its own, and does not stop
/// the server; for that there is [`Cluster::start`].
///
/// # Errors
///
/// When Postgres cannot be had. Tests fail then; they never skip.
pub fn shared_url() -> Result<String> {
    static CLUSTER: OnceLock<Result<Cluster, String>> = OnceLock::new();
    if let Some(url) = std::env::var(SHARED_VARIABLE).ok().filter(|url| !url.is_empty()) {
        return Ok(url);
    }
    // The failure is kept too: a hundred tests need not wait for the same one.
    let cluster = CLUSTER.get_or_init(|| Cluster::start().map_err(|error| format!("{error:#}")));
    cluster.as_ref().map(Cluster::url).map_err(|error| {
        anyhow!("{error}; or set {SHARED_VARIABLE} to the address of a server that tests may use")
    })
}
