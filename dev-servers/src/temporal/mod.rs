//! Temporal: the development server that its own command line carries, with a database file of its own.
//!
//! - `programs` finds `temporal`, and installs it into the cache folder when there is none;
//! - `data` starts a server on a directory; `server` is one that runs;
//! - `dev_server` is [`DevServer`], which ends with the process that started it;
//! - `shared` is [`shared_address`], for tests;
//! - `kept` is what [`crate::keep`] needs to know about Temporal.
//!
//! Servers listen on a loopback port, keep everything in one SQLite file, have the namespace `default` and no web page
//! unless they are kept.

mod data;
mod dev_server;
pub(crate) mod kept;
mod programs;
mod server;
mod shared;

pub use dev_server::DevServer;
pub use shared::{SHARED_VARIABLE, shared_address};

/// The address on the loopback port, as clients take it.
fn address(port: u16) -> String {
    format!("127.0.0.1:{port}")
}
