//! Hearing of what other processes write to the same file. SQLite tells nobody; but it keeps a number that changes with
//! every commit of another connection, and reading it costs next to nothing. Only while somebody waits for news.

use std::sync::{Arc, Weak};
use std::time::Duration;

use engine_core::RunId;
use sqlx::Row as _;

use super::{Connection, broken};
use crate::retry::Failure;
use crate::wake::{ANYWHERE, Wakeups};

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
            let (waiting, _) = self.runs_in("signals", 0).await?;
            wakeups.arrived(&waiting);
            return Ok(());
        };
        if data_version == seen.data_version {
            return Ok(());
        }
        let (runs, events) = self.runs_in("events", seen.events).await?;
        wakeups.stored(runs.iter().map(|run_id| (run_id, ANYWHERE)));
        let (runs, signals) = self.runs_in("signals", seen.signals).await?;
        wakeups.arrived(&runs);
        self.seen = Some(Seen { data_version, events, signals });
        Ok(())
    }

    /// Runs with rows after a position, and the last position.
    async fn runs_in(&mut self, table: &'static str, after: i64) -> Result<(Vec<RunId>, i64), Failure> {
        let sql = match table {
            "events" => {
                "SELECT r.run_id, n.last FROM (SELECT run_no, MAX(position) AS last FROM events WHERE position > $1
                 GROUP BY run_no) n JOIN runs r ON r.run_no = n.run_no"
            }
            _ => {
                "SELECT r.run_id, n.last FROM (SELECT run_no, MAX(position) AS last FROM signals WHERE position > $1
                 GROUP BY run_no) n JOIN runs r ON r.run_no = n.run_no"
            }
        };
        let found = sqlx::query(sql).bind(after).fetch_all(&mut self.connection).await.map_err(broken)?;
        let mut runs = Vec::with_capacity(found.len());
        let mut last = after;
        for row in &found {
            runs.push(RunId::new(row.try_get::<&str, _>(0).map_err(broken)?)?);
            last = last.max(row.try_get(1).map_err(broken)?);
        }
        Ok((runs, last))
    }

    async fn number(&mut self, sql: &'static str) -> Result<i64, Failure> {
        let row = sqlx::query(sql).fetch_one(&mut self.connection).await.map_err(broken)?;
        row.try_get(0).map_err(broken)
    }
}
