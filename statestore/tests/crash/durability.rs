//! What SIGKILL cannot show, because the system keeps what a killed process wrote: whether an acknowledged commit is on
//! the disk. The settings say that it should be; counting shows that it is.

use std::time::Duration;

use dev_servers::postgres::Cluster;
use sqlx::Row as _;
use sqlx::postgres::PgConnection;
use statestore::{Durability, PostgresStore, SqliteStore};

use super::errand::{Errand, patient};
use super::patience::{runtime, soon};
use super::place::{Place, connect};
use super::process::Process;
use super::strace::{Seen, watch};

/// Appends one after another.
const APPENDS: u32 = 200;

fn pairs(settings: &[(String, String)]) -> Vec<(&str, &str)> {
    settings.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
}

pub(crate) fn sqlite_settings() {
    runtime().block_on(async {
        for (durability, parameter, synchronous) in [
            (Durability::Full, "", "2"),
            (Durability::Normal, "", "1"),
            (Durability::Normal, "?durability=full", "2"),
            (Durability::Full, "?durability=normal", "1"),
        ] {
            let place = Place::file();
            let options = statestore::Options { durability, ..patient() };
            let store =
                SqliteStore::open(&format!("{}{parameter}", place.url()), options).await.expect("opened");
            let settings = store.settings();
            let expected = [("journal_mode", "wal"), ("synchronous", synchronous)];
            assert_eq!(pairs(settings), expected, "{durability:?} {parameter}");
        }
    });
}

pub(crate) fn sqlite_full() {
    let place = Place::file();
    let seen = appends(&watch(&Errand::OneByOne { url: place.url(), count: APPENDS }));
    let synced: usize = seen.iter().sum();
    eprintln!("FULL: {synced} syncs for {APPENDS} appends");
    for (number, syncs) in seen.iter().enumerate() {
        assert!(*syncs > 0, "append {} was acknowledged before it was on the disk", number + 1);
    }
    // More would be waste: one for each commit, and a few when the log in front of the file is copied into it.
    assert!(synced <= APPENDS as usize + 20, "{synced} syncs for {APPENDS} appends");
}

pub(crate) fn sqlite_normal() {
    let place = Place::file();
    let url = format!("{}?durability=normal", place.url());
    let synced: usize = appends(&watch(&Errand::OneByOne { url, count: APPENDS })).iter().sum();
    eprintln!("NORMAL: {synced} syncs for {APPENDS} appends");
    assert!(synced <= APPENDS as usize / 10, "{synced} syncs for {APPENDS} appends");
}

/// How many syncs there were between each acknowledgement and the one before it. The first one is that of the run.
fn appends(seen: &[Seen]) -> Vec<usize> {
    let mut lines = seen.split(|seen| *seen == Seen::Acknowledges).map(<[Seen]>::len);
    // Before the first line the database was made; after the last it is closed.
    lines.next();
    let appends: Vec<usize> = lines.take(APPENDS as usize).collect();
    assert_eq!(appends.len(), APPENDS as usize);
    appends
}

pub(crate) fn postgres_settings() {
    let place = Place::database();
    runtime().block_on(async {
        let store = PostgresStore::open(&place.url(), patient()).await.expect("opened");
        let settings = store.settings().await.expect("settings");
        let expected = [("fsync", "on"), ("synchronous_commit", "on"), ("full_page_writes", "on")];
        assert_eq!(pairs(&settings), expected);
    });
}

/// The server counts how often it waited for the disk. A cluster of its own: nobody else's commits count.
pub(crate) fn postgres_commits() {
    let cluster = Cluster::start().expect("a cluster");
    let place = Place::database_on(&cluster.url());
    let durable = syncs_while_appending(&place, &place.url(), |syncs| syncs >= i64::from(APPENDS));
    // The same without waiting for the disk, to know that the count tells the difference.
    let separator = if place.url().contains('?') { '&' } else { '?' };
    let lax = format!("{}{separator}options=-c%20synchronous_commit%3Doff", place.url());
    let not_durable = syncs_while_appending(&place, &lax, |_| true);
    eprintln!("Postgres: {durable} syncs for {APPENDS} appends, {not_durable} when commits do not wait");
    assert!(durable >= i64::from(APPENDS), "{durable} syncs for {APPENDS} appends");
    assert!(not_durable <= i64::from(APPENDS) / 2, "{not_durable} syncs for {APPENDS} appends");
}

/// How many syncs the server counts for [`APPENDS`] appends, once it has counted `enough`. It counts what a connection
/// did when that ends, or a little later.
fn syncs_while_appending(place: &Place, url: &str, enough: fn(i64) -> bool) -> i64 {
    let Place::Database(options) = place else { panic!("a server is needed") };
    let runtime = runtime();
    let mut connection = runtime.block_on(connect(options));
    let before = runtime.block_on(syncs(&mut connection));
    let lines = Process::start(&Errand::OneByOne { url: url.to_owned(), count: APPENDS }).finish();
    assert_eq!(lines.len(), APPENDS as usize + 1);
    runtime.block_on(soon("the server to count its syncs", async {
        loop {
            let others = "SELECT count(*) FROM pg_stat_activity
                 WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'";
            let others = sqlx::query(others).fetch_one(&mut connection).await.expect("an answer");
            let counted = syncs(&mut connection).await - before;
            if others.get::<i64, _>(0) == 0 && enough(counted) {
                return counted;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }))
}

async fn syncs(connection: &mut PgConnection) -> i64 {
    let row = sqlx::query("SELECT wal_sync FROM pg_stat_wal").fetch_one(connection).await.expect("the count");
    row.get(0)
}
