//! Bringing the file to the current schema. The write lock is taken first, so that of several processes that open it
//! at once one does the work and the others find it done.

use sqlx::{AssertSqlSafe, Row as _};

use super::connect::Settings;
use super::{Connection, broken, time};
use crate::migrations::{SQLITE, missing};
use crate::retry::Failure;

pub(super) async fn run(connection: &mut Connection, settings: &Settings) -> Result<(), Failure> {
    sqlx::query("BEGIN IMMEDIATE").execute(&mut *connection).await.map_err(broken)?;
    let result = apply(connection, settings).await;
    let end = if result.is_ok() { "COMMIT" } else { "ROLLBACK" };
    sqlx::query(end).execute(&mut *connection).await.map_err(broken)?;
    result
}

async fn apply(connection: &mut Connection, settings: &Settings) -> Result<(), Failure> {
    sqlx::query(
        "CREATE TABLE IF NOT EXISTS drivetrain_schema
         (version INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at INTEGER NOT NULL) STRICT",
    )
    .execute(&mut *connection)
    .await
    .map_err(broken)?;
    let row = sqlx::query("SELECT COALESCE(MAX(version), 0) FROM drivetrain_schema")
        .fetch_one(&mut *connection)
        .await
        .map_err(broken)?;
    let version: i64 = row.try_get(0).map_err(broken)?;
    for migration in missing(SQLITE, version, &settings.place())? {
        sqlx::raw_sql(AssertSqlSafe(migration.sql)).execute(&mut *connection).await.map_err(broken)?;
        sqlx::query("INSERT INTO drivetrain_schema (version, name, applied_at) VALUES ($1, $2, $3)")
            .bind(migration.version)
            .bind(migration.name)
            .bind(time(None).as_millis())
            .execute(&mut *connection)
            .await
            .map_err(broken)?;
    }
    Ok(())
}
