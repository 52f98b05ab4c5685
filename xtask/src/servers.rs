//! Real servers: those a person keeps running for development, and those that tests get for a while.

use std::io::Write;

use anyhow::{Context as _, Result};
use clap::Subcommand;
use dev_servers::keep::{Keeper, ServerKind};
use dev_servers::postgres::{self, Cluster};
use dev_servers::temporal::{self, DevServer};
use serde_json::{Map, Value};

use crate::command::External;

/// What to do with the kept servers.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Servers {
    /// Start servers that do not run yet; the last line of the output is their addresses as JSON
    Up {
        /// Which servers, as postgres or temporal; all of them when none is named
        servers: Vec<ServerKind>,
    },
    /// Stop servers and remove their data
    Down {
        /// Which servers, as postgres or temporal; all of them when none is named
        servers: Vec<ServerKind>,
    },
    /// Say which servers run, and where
    Status {
        /// Which servers, as postgres or temporal; all of them when none is named
        servers: Vec<ServerKind>,
    },
}

/// Starts, stops or shows the kept servers.
pub(crate) fn run(task: &Servers, keeper: &Keeper, output: &mut dyn Write) -> Result<()> {
    let lines = match task {
        Servers::Up { servers } => {
            let mut addresses = Map::new();
            for kind in chosen(servers) {
                addresses.insert(kind.to_string(), keeper.up(kind)?.address.into());
            }
            vec![Value::Object(addresses).to_string()]
        }
        Servers::Down { servers } => each(servers, |kind| {
            Ok(if keeper.down(kind)? { "stopped, its data is removed" } else { "was not up" }.to_owned())
        })?,
        Servers::Status { servers } => each(servers, |kind| {
            Ok(match keeper.status(kind)? {
                Some(kept) => {
                    format!("{} (process {}, {})", kept.address, kept.process, kept.directory.display())
                }
                None => "does not run".to_owned(),
            })
        })?,
    };
    for line in lines {
        writeln!(output, "{line}").context("cannot write what became of the servers")?;
    }
    Ok(())
}

fn chosen(servers: &[ServerKind]) -> Vec<ServerKind> {
    if servers.is_empty() { ServerKind::ALL.to_vec() } else { servers.to_vec() }
}

fn each(servers: &[ServerKind], say: impl Fn(ServerKind) -> Result<String>) -> Result<Vec<String>> {
    chosen(servers).into_iter().map(|kind| Ok(format!("{kind}: {}", say(kind)?))).collect()
}

/// Servers that the programs of one task share, so that not every one of them starts its own. They end with this
/// value.
#[derive(Debug)]
pub(crate) struct TestServers {
    postgres: Option<Cluster>,
    temporal: Option<DevServer>,
}

impl TestServers {
    /// Starts what the environment does not name already.
    pub(crate) fn start() -> Result<Self> {
        let is_named = |variable| std::env::var_os(variable).is_some_and(|place| !place.is_empty());
        let mut servers = Self::none();
        if !is_named(postgres::SHARED_VARIABLE) {
            servers.postgres = Some(Cluster::start().context("the tests need a Postgres")?);
        }
        if !is_named(temporal::SHARED_VARIABLE) {
            servers.temporal = Some(DevServer::start().context("the tests need a Temporal")?);
        }
        Ok(servers)
    }

    /// Starts nothing; what the environment names is passed on as it is.
    pub(crate) fn none() -> Self {
        Self { postgres: None, temporal: None }
    }

    /// Tells a program where the servers are.
    pub(crate) fn offer(&self, program: External) -> External {
        let program = match &self.postgres {
            Some(cluster) => program.variable(postgres::SHARED_VARIABLE, cluster.url()),
            None => program,
        };
        match &self.temporal {
            Some(server) => program.variable(temporal::SHARED_VARIABLE, server.address()),
            None => program,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn up_ends_with_the_addresses_as_json_and_down_takes_them_away() {
        let folder = tempfile::tempdir().unwrap();
        let keeper = Keeper::in_folder(folder.path().to_owned());
        let written = |task: &Servers| {
            let mut output = Vec::new();
            run(task, &keeper, &mut output).unwrap();
            String::from_utf8(output).unwrap()
        };
        let servers = vec![ServerKind::Postgres];
        let (up, status) =
            (Servers::Up { servers: servers.clone() }, Servers::Status { servers: servers.clone() });
        let down = Servers::Down { servers };
        // Everything is done before anything is judged, so that a failure leaves no server behind.
        let [before, first, between, second] = [&status, &up, &status, &up].map(written);
        let [end, after] = [&down, &down].map(written);
        assert_eq!(before, "postgres: does not run\n");
        let addresses: Value = serde_json::from_str(first.lines().last().unwrap()).unwrap();
        let address = addresses["postgres"].as_str().unwrap();
        assert!(between.starts_with(&format!("postgres: {address} (process ")), "{between}");
        assert_eq!(second, first, "the running server is found again");
        assert_eq!(end, "postgres: stopped, its data is removed\n");
        assert_eq!(after, "postgres: was not up\n");
    }

    #[test]
    fn all_servers_are_meant_when_none_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let mut output = Vec::new();
        let task = Servers::Status { servers: vec![] };
        run(&task, &Keeper::in_folder(folder.path().to_owned()), &mut output).unwrap();
        let written = String::from_utf8(output).unwrap();
        assert_eq!(written, "postgres: does not run\ntemporal: does not run\n");
    }

    #[test]
    fn programs_learn_the_address_of_the_test_server() {
        let program = || External::program("true");
        assert_eq!(TestServers::none().offer(program()).to_string(), "true");
        let servers = TestServers {
            postgres: Some(Cluster::start().unwrap()),
            temporal: Some(DevServer::start().unwrap()),
        };
        let line = servers.offer(program()).to_string();
        assert!(line.contains("DRIVETRAIN_TEST_POSTGRES=postgres://drivetrain@127.0.0.1:"), "{line}");
        assert!(line.contains("DRIVETRAIN_TEST_TEMPORAL=127.0.0.1:"), "{line}");
    }
}
