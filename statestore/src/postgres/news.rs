//! Hearing of what other processes write: Postgres tells whoever listens, at the moment of the commit.

use std::sync::Arc;

use engine_core::RunId;
use sqlx::postgres::PgListener;
use sqlx::{PgPool, Row as _};
use tokio::task::JoinHandle;

use super::broken;
use super::connect::Settings;
use crate::retry::{Backoff, Failure};
use crate::wake::Wakeups;

/// Listens as long as it is held.
#[derive(Debug)]
pub(super) struct Listening(JoinHandle<()>);

impl Drop for Listening {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Begins to listen. Returning means that nothing that is told from now on is missed.
pub(super) async fn listen(
    settings: &Settings,
    pool: &PgPool,
    wakeups: &Arc<Wakeups>,
) -> Result<Listening, Failure> {
    let mut listener = PgListener::connect_with(pool).await.map_err(broken)?;
    listener.listen(&settings.channel()).await.map_err(broken)?;
    let (pool, wakeups) = (pool.clone(), Arc::clone(wakeups));
    Ok(Listening(tokio::spawn(async move {
        let mut backoff = Backoff::new();
        loop {
            match listener.try_recv().await {
                Ok(Some(news)) => {
                    backoff = Backoff::new();
                    tell(&wakeups, news.payload());
                }
                // The connection was lost and is there again: what was told in between was not heard.
                Ok(None) => catch_up(&pool, &wakeups).await,
                Err(error) => {
                    tracing::debug!(%error, "cannot listen for news of other processes");
                    backoff.wait().await;
                    catch_up(&pool, &wakeups).await;
                }
            }
        }
    })))
}

/// News are `e` and the runs with new events, or `s` and a run that a signal came for.
fn tell(wakeups: &Wakeups, news: &str) {
    let runs = |list: &str| list.split(',').filter_map(|id| RunId::new(id).ok()).collect::<Vec<RunId>>();
    if let Some(list) = news.strip_prefix('e') {
        wakeups.stored(&runs(list));
    } else if let Some(list) = news.strip_prefix('s') {
        wakeups.arrived(&runs(list));
    }
}

async fn catch_up(pool: &PgPool, wakeups: &Wakeups) {
    wakeups.everybody();
    let waiting = "SELECT DISTINCT r.run_id FROM signals s JOIN runs r ON r.run_no = s.run_no";
    // When this fails the connection is lost again, and so is the listener's: it comes back here.
    if let Ok(found) = sqlx::query(waiting).fetch_all(pool).await {
        let runs = found.iter().filter_map(|row| RunId::new(row.try_get::<&str, _>(0).ok()?).ok());
        wakeups.arrived(&runs.collect::<Vec<RunId>>());
    }
}
