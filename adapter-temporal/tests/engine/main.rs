//! What only Temporal has: histories that are cut off, tools of its own, local activities. On a real server.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, its supporting functions too")]

#[path = "../harness/mod.rs"]
mod harness;
mod history;
mod local;
mod lost;
mod place;
mod replay;
