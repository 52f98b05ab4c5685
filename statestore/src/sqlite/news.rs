//! Hearing of what other processes write to the same file. SQLite tells nobody; but it keeps a number that changes with
//! every commit of another connection, and reading it costs next to nothing. Only while somebody waits for news.

use std::sync::{Arc, Weak};
use std::time::Duration;

use engine_core::RunId;
use sqlx::Row as _;

use super::{Connection, broken};
use crate::page::count;
use crate::retry::Failure;
use crate::wake::Wakeups;

/// Runs with events after a position, the last position, and the last place in the log. The sign keeps SQLite from
/// reading a whole index in the order of runs: what is new is little, and together.
const EVENTS_AFTER: &str = "SELECT r.run_id, n.last, n.place FROM \
    (SELECT run_no, MAX(position) AS last, MAX(run_seq) AS place FROM events WHERE position > $1 GROUP BY +run_no) n \
    JOIN runs r ON r.run_no = n.run_no";

/// The same for signals, which have no place.
const SIGNALS_AFTER: &str = "SELECT r.run_id, n.last, 0 FROM \
    (SELECT run_no, MAX(position) AS last FROM signals WHERE position > $1 GROUP BY +run_no) n \
    JOIN runs r ON r.run_no = n.run_no";

/// Looks for news until nobody holds `wakeups` any more.
pub(super) fn listen(connection: Connection, wakeups: &Arc<Wakeups>, every: Duration) {
    let mut listener = Listener { connection, seen: None };
    let wakeups: Weak<Wakeups> = Arc::downgrade(wakeups);
    tokio::spawn(async move {
        let mut ticks = tokio::time::interval(every.max(Duration::from_millis(1)));
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let Some(wakeups) = wakeups.upgrade() else { return };
            if !wakeups.anybody() {
                listener.seen = None;
            } else if let Err(failure) = listener.look(&wakeups).await {
                // The next look makes good for this one.
                tracing::debug!(error = %failure.error, "cannot look for news of other processes");
            }
        }
    });
}

struct Listener {
    connection: Connection,
    /// Up to where everybody was told; `None` when nobody has been waiting.
    seen: Option<Seen>,
}

#[derive(Clone, Copy)]
struct Seen {
    data_version: i64,
    events: i64,
    signals: i64,
}

impl Listener {
    async fn look(&mut self, wakeups: &Wakeups) -> Result<(), Failure> {
        let data_version = self.number("PRAGMA data_version").await?;
        let Some(seen) = self.seen else {
            // Somebody has begun to wait since the last look: what came in between is looked for once, in full.
            let events = self.number("SELECT COALESCE(MAX(position), 0) FROM events").await?;
            let signals = self.number("SELECT COALESCE(MAX(position), 0) FROM signals").await?;
            self.seen = Some(Seen { data_version, events, signals });
            wakeups.everybody();
            let (waiting, _) = self.news_in(SIGNALS_AFTER, 0).await?;
            wakeups.arrived(&waiting.into_iter().map(|(run_id, _)| run_id).collect::<Vec<RunId>>());
            return Ok(());
        };
        if data_version == seen.data_version {
            return Ok(());
        }
        let (runs, events) = self.news_in(EVENTS_AFTER, seen.events).await?;
        wakeups.stored(runs.iter().map(|(run_id, last)| (run_id, *last)));
        let (runs, signals) = self.news_in(SIGNALS_AFTER, seen.signals).await?;
        wakeups.arrived(&runs.into_iter().map(|(run_id, _)| run_id).collect::<Vec<RunId>>());
        self.seen = Some(Seen { data_version, events, signals });
        Ok(())
    }

    /// Runs with rows after a position and up to where they go, and the last position.
    async fn news_in(&mut self, sql: &'static str, after: i64) -> Result<(Vec<(RunId, u64)>, i64), Failure> {
        let found = sqlx::query(sql).bind(after).fetch_all(&mut self.connection).await.map_err(broken)?;
        let mut runs = Vec::with_capacity(found.len());
        let mut last = after;
        for row in &found {
            let run_id = RunId::new(row.try_get::<&str, _>(0).map_err(broken)?)?;
            last = last.max(row.try_get(1).map_err(broken)?);
            runs.push((run_id, count(row.try_get(2).map_err(broken)?)));
        }
        Ok((runs, last))
    }

    async fn number(&mut self, sql: &'static str) -> Result<i64, Failure> {
        let row = sqlx::query(sql).fetch_one(&mut self.connection).await.map_err(broken)?;
        row.try_get(0).map_err(broken)
    }
}
