//! What a worker does, with real stores, real programs and a real server; time is virtual.
//!
//! - [`data`]: what goes into a handler and what becomes of its output;
//! - [`calls`]: time limits, panics, cancellation, progress; [`hidden`]: secrets;
//! - [`deliveries`]: the whole way, on the memory and the SQLite store; [`lateness`]: with a store that is away;
//! - [`taken_over`]: outputs of other runs; [`artifacts`]; [`exec`], [`http`], [`simple`]: the built-in handlers.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod artifacts;
mod calls;
mod data;
mod deliveries;
mod exec;
mod hidden;
mod http;
mod lateness;
mod simple;
mod support;
mod taken_over;
