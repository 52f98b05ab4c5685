//! The engine as its users see it: plans run to their end on real stores, in virtual time.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod crashing;
mod recovery;
mod running;
mod signals;
mod world;
