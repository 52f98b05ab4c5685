//! Bringing the database to the current schema. A lock that only this does takes is taken first, so that of several
//! processes that open it at once one does the work and the others find it done.

use sqlx::{AssertSqlSafe, Connection as _, Row as _};

use super::connect::Settings;
use super::{Connection, broken};
use crate::migrations::{POSTGRES, missing};
use crate::retry::Failure;

pub(super) async fn run(connection: &mut Connection, settings: &Settings) -> Result<(), Failure> {
    let mut transaction = connection.begin().await.map_err(broken)?;
    sqlx::query("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))")
        .bind(settings.channel())
        .execute(&mut *transaction)
        .await
        .map_err(broken)?;
    apply(&mut transaction, settings).await?;
    transaction.commit().await.map_err(broken)
}

async fn apply(connection: &mut Connection, settings: &Settings) -> Result<(), Failure> {
    // Asked first: who may use the schema need not be allowed to make it.
    let there = sqlx::query("SELECT 1 FROM pg_namespace WHERE nspname = $1")
        .bind(settings.schema())
        .fetch_optional(&mut *connection)
        .await
        .map_err(broken)?;
    if there.is_none() {
        // The name was checked: it needs no quoting.
        let sql = format!("CREATE SCHEMA {}", settings.schema());
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut *connection).await.map_err(broken)?;
    }
    sqlx::raw_sql(
        "CREATE TABLE IF NOT EXISTS drivetrain_schema
         (version BIGINT PRIMARY KEY, name TEXT NOT NULL, applied_at TIMESTAMPTZ NOT NULL DEFAULT now())",
    )
    .execute(&mut *connection)
    .await
    .map_err(broken)?;
    let row = sqlx::query("SELECT COALESCE(MAX(version), 0) FROM drivetrain_schema")
        .fetch_one(&mut *connection)
        .await
        .map_err(broken)?;
    let version: i64 = row.try_get(0).map_err(broken)?;
    for migration in missing(POSTGRES, version, &settings.place())? {
        sqlx::raw_sql(AssertSqlSafe(migration.sql)).execute(&mut *connection).await.map_err(broken)?;
        sqlx::query("INSERT INTO drivetrain_schema (version, name) VALUES ($1, $2)")
            .bind(migration.version)
            .bind(migration.name)
            .execute(&mut *connection)
            .await
            .map_err(broken)?;
    }
    Ok(())
}
