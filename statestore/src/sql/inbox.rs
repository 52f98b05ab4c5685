//! Signals on their way to the driver.

use std::sync::Arc;

use async_trait::async_trait;
use engine_core::port::store::SignalInbox;
use engine_core::signal::Signal;
use engine_core::{Result, RunId, SignalId, TenantId};
use futures_core::stream::BoxStream;
use sqlx::Row as _;

use super::log::facts;
use super::{Store, announce_signal, broken};
use crate::content;
use crate::page::{self, limit};

#[async_trait]
impl SignalInbox for Store {
    async fn submit(&self, tenant_id: &TenantId, run_id: &RunId, signal: Signal) -> Result<()> {
        let text = Arc::<str>::from(content::write_signal(&signal)?);
        let slot = content::decision_slot(&signal.signal_id);
        let signal_id = signal.signal_id;
        let (tenant_id, run) = (tenant_id.clone(), run_id.clone());
        let new = self
            .write(move |connection, _| {
                let (tenant_id, run_id, text) = (tenant_id.clone(), run.clone(), text.clone());
                let (signal_id, slot) = (signal_id.clone(), slot.clone());
                Box::pin(async move {
                    let facts = facts(connection, &tenant_id, &run_id).await?;
                    let added = sqlx::query(
                        "INSERT INTO signals (run_no, signal_id, signal)
                         SELECT r.run_no, $2, $3 FROM runs r WHERE r.run_no = $1
                         AND NOT EXISTS (SELECT 1 FROM events e WHERE e.run_no = $1 AND e.takes = $4)
                         ON CONFLICT (run_no, signal_id) DO NOTHING",
                    )
                    .bind(facts.run_no)
                    .bind(signal_id.as_str())
                    .bind(text)
                    .bind(slot)
                    .execute(&mut *connection)
                    .await
                    .map_err(broken)?;
                    let new = added.rows_affected() > 0;
                    if new {
                        announce_signal(connection, &run_id).await?;
                    }
                    Ok(new)
                })
            })
            .await?;
        if new {
            self.shared.wakeups.arrived(std::slice::from_ref(run_id));
        }
        Ok(())
    }

    async fn undecided(&self, run_id: &RunId) -> Result<Vec<Signal>> {
        let run_id = run_id.clone();
        self.read(move |connection| {
            let run_id = run_id.clone();
            Box::pin(async move {
                let found = sqlx::query(
                    "SELECT s.signal FROM signals s JOIN runs r ON r.run_no = s.run_no WHERE r.run_id = $1
                     AND NOT EXISTS
                     (SELECT 1 FROM events e WHERE e.run_no = s.run_no AND e.takes = '|signal|' || s.signal_id)
                     ORDER BY s.position",
                )
                .bind(run_id.as_str())
                .fetch_all(&mut *connection)
                .await
                .map_err(broken)?;
                let mut signals = Vec::with_capacity(found.len());
                for row in &found {
                    signals.push(content::read_signal(row.try_get(0).map_err(broken)?)?);
                }
                Ok(signals)
            })
        })
        .await
    }

    async fn awaited(&self, most: usize) -> Result<Vec<RunId>> {
        self.read(move |connection| {
            Box::pin(async move {
                let found = sqlx::query(
                    "SELECT r.run_id FROM runs r WHERE r.run_no IN (SELECT s.run_no FROM signals s WHERE NOT EXISTS
                     (SELECT 1 FROM events e WHERE e.run_no = s.run_no AND e.takes = '|signal|' || s.signal_id))
                     ORDER BY r.run_no LIMIT $1",
                )
                .bind(limit(most, page::ROWS))
                .fetch_all(&mut *connection)
                .await
                .map_err(broken)?;
                found.iter().map(|row| Ok(RunId::new(row.try_get::<&str, _>(0).map_err(broken)?)?)).collect()
            })
        })
        .await
    }

    async fn decided(&self, run_id: &RunId, signal_id: &SignalId) -> Result<()> {
        let (run_id, signal_id) = (run_id.clone(), signal_id.clone());
        self.write(move |connection, _| {
            let (run_id, signal_id) = (run_id.clone(), signal_id.clone());
            Box::pin(async move {
                sqlx::query(
                    "DELETE FROM signals WHERE run_no = (SELECT run_no FROM runs WHERE run_id = $1)
                     AND signal_id = $2",
                )
                .bind(run_id.as_str())
                .bind(signal_id.as_str())
                .execute(&mut *connection)
                .await
                .map_err(broken)?;
                Ok(())
            })
        })
        .await
    }

    fn arrivals(&self) -> BoxStream<'static, RunId> {
        self.shared.wakeups.arrivals()
    }
}
