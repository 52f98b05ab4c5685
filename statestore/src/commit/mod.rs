//! Group commit: one writer takes all that waits, commits once, and acknowledges then. No write waits for others to
//! come; while one group is on its way to the disk, the next one gathers.
//!
//! - [`job`]: what a caller hands to the writer, and how it hears back;
//! - [`queue`]: the writer's loop: gathering, the write budget, a database that is away;
//! - [`group`]: what one transaction does, step by step, whatever the database;
//! - [`names`], [`heads`]: what the writer remembers of runs, so that it need not ask.

mod group;
mod heads;
mod job;
mod names;
mod queue;

pub(crate) use group::{Begun, CheckpointRow, Database, EventRow, HeadRow, Identity, Log, Wanted, Writes};
pub(crate) use heads::Heads;
pub(crate) use job::{AppendJob, CreateJob, Job, LogJob, Reply, answer};
pub(crate) use queue::{Group, Queue, Writer};
