//! The schema's history: each step once, in order, and never a step back.

use engine_core::{Code, Error};

/// One step of the schema.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Migration {
    /// From 1, without gaps.
    pub(crate) version: i64,
    pub(crate) name: &'static str,
    pub(crate) sql: &'static str,
}

/// SQLite's.
pub(crate) const SQLITE: &[Migration] =
    &[Migration { version: 1, name: "log", sql: include_str!("../migrations/sqlite/0001_log.sql") }];

/// Postgres's.
pub(crate) const POSTGRES: &[Migration] =
    &[Migration { version: 1, name: "log", sql: include_str!("../migrations/postgres/0001_log.sql") }];

/// The steps that a database at `version` lacks (STORE-12). `place` names it.
///
/// # Errors
/// `STORE_SCHEMA_NEWER` when it is ahead of this code.
pub(crate) fn missing(
    migrations: &'static [Migration],
    version: i64,
    place: &str,
) -> Result<&'static [Migration], Error> {
    let known = migrations.last().map_or(0, |last| last.version);
    if version > known {
        let message =
            format!("{place} has schema version {version}; this program knows versions up to {known}");
        return Err(Error::new(Code::StoreSchemaNewer, message)
            .with_hint("use the version of Drivetrain that wrote it, or a newer one"));
    }
    let done = migrations.iter().take_while(|migration| migration.version <= version).count();
    Ok(&migrations[done..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_count_from_one_without_gaps_and_are_the_same_for_both_databases() {
        for migrations in [SQLITE, POSTGRES] {
            let versions: Vec<i64> = migrations.iter().map(|migration| migration.version).collect();
            let expected: Vec<i64> = (1..).take(migrations.len()).collect();
            assert_eq!(versions, expected);
        }
        let names = |migrations: &[Migration]| migrations.iter().map(|step| step.name).collect::<Vec<_>>();
        assert_eq!(names(SQLITE), names(POSTGRES));
    }

    #[test]
    fn a_newer_schema_is_refused_and_an_older_one_brought_up_to_date() {
        let newest = SQLITE.last().unwrap().version;
        assert_eq!(missing(SQLITE, 0, "x").unwrap().len(), SQLITE.len());
        assert!(missing(SQLITE, newest, "x").unwrap().is_empty());
        let error = missing(SQLITE, newest + 1, "sqlite://runs.db").unwrap_err();
        assert_eq!(error.code(), Code::StoreSchemaNewer);
        assert!(error.message().contains("sqlite://runs.db"), "{error}");
    }
}
