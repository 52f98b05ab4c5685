//! The server that all tests of a process share.

use std::sync::OnceLock;

use anyhow::{Result, anyhow};

use super::DevServer;

/// The variable with the address of a server that tests use, in place of starting one. `cargo xtask test` sets it,
/// so that not every test program starts its own.
pub const SHARED_VARIABLE: &str = "DRIVETRAIN_TEST_TEMPORAL";

/// The address of a Temporal for tests: the one in [`SHARED_VARIABLE`], or else that of a server which this process
/// starts on the first call and which ends with the process.
///
/// Others use the same server at the same time: a test takes a task queue of its own, and does not stop the server; for
/// that there is [`DevServer::start`].
///
/// # Errors
///
/// When Temporal cannot be had. Tests fail then; they never skip.
pub fn shared_address() -> Result<String> {
    static SERVER: OnceLock<Result<DevServer, String>> = OnceLock::new();
    if let Some(address) = std::env::var(SHARED_VARIABLE).ok().filter(|address| !address.is_empty()) {
        return Ok(address);
    }
    // The failure is kept too: a hundred tests need not wait for the same one.
    let server = SERVER.get_or_init(|| DevServer::start().map_err(|error| format!("{error:#}")));
    server.as_ref().map(DevServer::address).map_err(|error| {
        anyhow!("{error}; or set {SHARED_VARIABLE} to the address of a server that tests may use")
    })
}
