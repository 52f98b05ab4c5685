//! The real program, driving real runs on SQLite files: every command that acts on a run, from another process too.
//!
//! - `process`: starting the program and waiting for what it says;
//! - `examples`: every example plan and program; `signals`: from another process; `interrupt`: Ctrl-C;
//! - `origin`: reruns, copies and checkpoints; `bad`: full disks and folders that cannot be written.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod bad;
mod examples;
mod interrupt;
mod origin;
mod process;
mod signals;
