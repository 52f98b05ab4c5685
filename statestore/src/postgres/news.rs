//! Hearing of what other processes write: Postgres tells whoever listens, at the moment of the commit.

use std::sync::Arc;

use engine_core::RunId;
use sqlx::postgres::PgListener;
use sqlx::{PgPool, Row as _};
use tokio::task::JoinHandle;

use super::broken;
use super::connect::Settings;
use crate::retry::{Backoff, Failure};
use crate::wake::{ANYWHERE, Wakeups};

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
    let mut listener = connect(pool, &settings.channel()).await.map_err(broken)?;
    let (channel, pool, wakeups) = (settings.channel(), pool.clone(), Arc::clone(wakeups));
    Ok(Listening(tokio::spawn(async move {
        loop {
            while let Ok(Some(news)) = listener.try_recv().await {
                tell(&wakeups, news.payload());
            }
            // The connection is lost. What was told meanwhile was not heard, and is looked for; but only once somebody
            // listens again, or what comes between the look and the listening would be missed.
            drop(listener);
            let mut backoff = Backoff::new();
            listener = loop {
                match connect(&pool, &channel).await {
                    Ok(listener) => break listener,
                    Err(error) => {
                        tracing::debug!(%error, "cannot listen for news of other processes");
                        backoff.wait().await;
                    }
                }
            };
            while let Err(error) = catch_up(&pool, &wakeups).await {
                tracing::debug!(%error, "cannot look for what was not heard");
                backoff.wait().await;
            }
        }
    })))
}

async fn connect(pool: &PgPool, channel: &str) -> Result<PgListener, sqlx::Error> {
    let mut listener = PgListener::connect_with(pool).await?;
    listener.eager_reconnect(false);
    listener.listen(channel).await?;
    Ok(listener)
}

/// News are `e` and the runs with new events, or `s` and a run that a signal came for.
fn tell(wakeups: &Wakeups, news: &str) {
    let runs = |list: &str| list.split(',').filter_map(|id| RunId::new(id).ok()).collect::<Vec<RunId>>();
    if let Some(list) = news.strip_prefix('e') {
        wakeups.stored(runs(list).iter().map(|run_id| (run_id, ANYWHERE)));
    } else if let Some(list) = news.strip_prefix('s') {
        wakeups.arrived(&runs(list));
    }
}

/// Wakes everybody who may have missed something.
async fn catch_up(pool: &PgPool, wakeups: &Wakeups) -> Result<(), sqlx::Error> {
    wakeups.everybody();
    let waiting = "SELECT DISTINCT r.run_id FROM signals s JOIN runs r ON r.run_no = s.run_no";
    let found = sqlx::query(waiting).fetch_all(pool).await?;
    let runs = found.iter().filter_map(|row| RunId::new(row.try_get::<&str, _>(0).ok()?).ok());
    wakeups.arrived(&runs.collect::<Vec<RunId>>());
    Ok(())
}
