//! The contract's rules, one file a topic, over a driver without an engine.

#![allow(unreachable_pub, reason = "a test crate has no users")]
#![allow(clippy::unwrap_used, clippy::needless_pass_by_value, reason = "a panic is how a test fails")]

mod cancel;
mod compensation;
mod drivers;
mod exhaustive;
mod failure;
mod manual;
mod order;
mod origin;
mod pause;
mod projection;
mod properties;
mod retry_step;
mod start;
mod support;
mod timers;
mod workers;
