//! The log of every run, and what belongs to it, behind engine-core's `StateStore`.
//!
//! - [`sqlite`]: one file, no server; [`postgres`]: several processes on one database; [`memory`]: for tests;
//! - [`mod@open`]: the URL decides which; [`options`]: what can be chosen;
//! - `append`: the rules of appending, pure, the same for all three;
//! - `commit`: group commit: one writer takes all that waits, commits once, acknowledges then;
//! - `sql`: every query that reads the same for both databases, compiled for each of them;
//! - `content`: what is stored beside the log, and how it is checked; `stored`: events as the columns of a row;
//! - `wake`: readers are told of new events and signals instead of asking for them;
//! - `suite` (feature): the tests that any store must pass.
//!
//! `docs/statestore.md` states the guarantees, the schema and the levels of durability.

#![allow(clippy::duplicate_mod, reason = "what is in `sql` is compiled once for each of the two drivers")]

mod append;
mod commit;
mod content;
pub mod memory;
mod migrations;
pub mod open;
pub mod options;
mod page;
pub mod postgres;
mod retry;
pub mod sqlite;
mod stored;

#[cfg(feature = "suite")]
pub mod suite;
mod tail;
mod wake;

pub use memory::MemoryStore;
pub use open::open;
pub use options::{Durability, Options, SystemClock};
pub use postgres::PostgresStore;
pub use sqlite::SqliteStore;

/// The examples of the guide are compiled.
#[cfg(doctest)]
#[doc = include_str!("../../docs/statestore.md")]
struct Guide;
