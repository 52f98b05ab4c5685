//! The registry of engines: a name, and how to connect to it or serve it.
//!
//! Serving drives runs in this process, with a worker. Connecting only starts runs and delivers signals; somebody else
//! drives. Nothing else in the product knows an adapter.
//!
//! - [`embedded`]: the engine inside the process, and its client side;
//! - [`temporal`]: a Temporal cluster.

pub mod embedded;
pub mod temporal;

use std::fmt::{self, Debug};
use std::sync::Arc;

#[cfg(feature = "conformance")]
use conformance::Harness;
use engine_core::port::{Engine, StateStore};
use engine_core::{Code, Error, Result};
use futures_core::future::BoxFuture;
use worker::Worker;

use crate::config::Config;
use crate::config::keys::nearest;

/// An engine that there is, in this program or in another build of it.
#[derive(Clone, Copy, Debug)]
pub struct EngineEntry {
    /// Its name, as it stands in RunStarted.
    pub name: &'static str,
    /// Other names for it.
    pub aliases: &'static [&'static str],
    /// What it is, for people.
    pub about: &'static str,
    /// How to use it; `None` when this program was built without it.
    adapter: Option<Adapter>,
}

type Connecting = BoxFuture<'static, Result<Arc<dyn Engine>>>;

/// Makes what has an engine tested, on stores that a URL names.
#[cfg(feature = "conformance")]
type MakeHarness = fn(&str) -> Result<Arc<dyn Harness>>;

#[derive(Clone, Copy)]
struct Adapter {
    connect: fn(Arc<dyn StateStore>, &Config) -> Connecting,
    serve: fn(Worker, &Config, Serving) -> BoxFuture<'static, Result<Served>>,
    #[cfg(feature = "conformance")]
    harness: Option<MakeHarness>,
}

impl Debug for Adapter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Adapter")
    }
}

/// Every engine.
pub const ENGINES: &[EngineEntry] = &[
    EngineEntry {
        name: "mock",
        aliases: &["embedded"],
        about: "inside this process, on the store alone; no server",
        adapter: embedded::ADAPTER,
    },
    EngineEntry { name: "temporal", aliases: &[], about: "a Temporal cluster", adapter: temporal::ADAPTER },
    EngineEntry { name: "conductor", aliases: &[], about: "a Conductor server", adapter: None },
];

/// Which runs a process drives, where a process of ours drives runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Serving {
    /// What is started here, and everything that nobody drives.
    #[default]
    Everything,
    /// What is started or signalled here. Other runs may need handlers that this process does not have.
    OnlyAsked,
}

/// An engine in use.
#[derive(Clone)]
pub struct Served {
    engine: Arc<dyn Engine>,
    stop: Option<Stop>,
    serving: bool,
}

type Stop = Arc<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>;

impl Debug for Served {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Served").field("engine", &self.engine).finish_non_exhaustive()
    }
}

impl Served {
    /// An engine that needs no stopping.
    #[must_use]
    pub fn new(engine: Arc<dyn Engine>) -> Self {
        Self { engine, stop: None, serving: false }
    }

    /// An engine that drives runs in this process until `stop` is called.
    #[must_use]
    pub fn with_stop(
        engine: Arc<dyn Engine>,
        stop: impl Fn() -> BoxFuture<'static, ()> + Send + Sync + 'static,
    ) -> Self {
        Self { engine, stop: Some(Arc::new(stop)), serving: true }
    }

    /// The engine.
    #[must_use]
    pub fn engine(&self) -> &Arc<dyn Engine> {
        &self.engine
    }

    /// Whether runs are driven in this process.
    #[must_use]
    pub fn is_serving(&self) -> bool {
        self.serving
    }

    /// Stops driving runs in this process.
    pub async fn shutdown(&self) {
        if let Some(stop) = &self.stop {
            stop().await;
        }
    }
}

impl EngineEntry {
    /// Whether this program has it.
    #[must_use]
    pub fn is_built(&self) -> bool {
        self.adapter.is_some()
    }

    /// Its name and other names, as `mock (embedded)`.
    #[must_use]
    pub fn names(&self) -> String {
        match self.aliases {
            [] => self.name.to_owned(),
            aliases => format!("{} ({})", self.name, aliases.join(", ")),
        }
    }

    fn adapter(&self) -> Result<Adapter> {
        self.adapter.ok_or_else(|| {
            Error::new(
                Code::Unsupported,
                format!("this program was built without the engine {}", self.names()),
            )
            .with_hint(available())
        })
    }

    /// Refuses an engine that this program was built without.
    ///
    /// # Errors
    /// `UNSUPPORTED` with what there is.
    pub fn check(&self) -> Result<()> {
        self.adapter().map(|_| ())
    }

    /// What has this engine tested, each case on a store of its own, of the kind that `store` names.
    ///
    /// # Errors
    /// `UNSUPPORTED` when this program has no harness for it, with those that it has one for; or when the harness does
    /// not know such a store.
    #[cfg(feature = "conformance")]
    pub fn harness(&self, store: &str) -> Result<Arc<dyn Harness>> {
        let make = self.adapter.and_then(|adapter| adapter.harness).ok_or_else(|| {
            let message =
                format!("this program cannot test the engine {}: it has no harness for it", self.names());
            Error::new(Code::Unsupported, message).with_hint(testable())
        })?;
        make(store)
    }

    /// Starts runs and delivers signals; somebody else drives.
    ///
    /// # Errors
    /// `UNSUPPORTED` when this program was built without it, `ENGINE_UNAVAILABLE` when it cannot be reached.
    pub async fn connect(&self, store: Arc<dyn StateStore>, config: &Config) -> Result<Served> {
        let engine = (self.adapter()?.connect)(store, config).await?;
        Ok(Served::new(engine))
    }

    /// Drives runs in this process: what is started here, and what others leave behind, as `serving` says.
    ///
    /// # Errors
    /// `UNSUPPORTED` when this program was built without it, `ENGINE_UNAVAILABLE` when it cannot be reached.
    pub async fn serve(&self, worker: Worker, config: &Config, serving: Serving) -> Result<Served> {
        (self.adapter()?.serve)(worker, config, serving).await
    }
}

/// The engine with a name or alias.
///
/// # Errors
/// `UNSUPPORTED` with what there is.
pub fn find(name: &str) -> Result<&'static EngineEntry> {
    let found = ENGINES.iter().find(|entry| entry.name == name || entry.aliases.contains(&name));
    found.ok_or_else(|| {
        let known = ENGINES.iter().flat_map(|entry| {
            std::iter::once(entry.name).chain(entry.aliases.iter().copied()).map(str::to_owned)
        });
        let hint = match nearest(name, known) {
            Some(near) => format!("did you mean {near:?}? {}", available()),
            None => available(),
        };
        Error::new(Code::Unsupported, format!("there is no engine {name:?}")).with_hint(hint)
    })
}

/// The engines that this program has, in a sentence.
fn available() -> String {
    let names: Vec<String> =
        ENGINES.iter().filter(|entry| entry.is_built()).map(EngineEntry::names).collect();
    if names.is_empty() {
        "this program has none".to_owned()
    } else {
        format!("this program has: {}", names.join(", "))
    }
}

/// The engines that this program can test, in a sentence.
#[cfg(feature = "conformance")]
fn testable() -> String {
    let has = |entry: &&EngineEntry| entry.adapter.is_some_and(|adapter| adapter.harness.is_some());
    let names: Vec<String> = ENGINES.iter().filter(has).map(EngineEntry::names).collect();
    if names.is_empty() {
        "it can test none".to_owned()
    } else {
        format!("it can test: {}; see docs/conformance.md for a harness of your own", names.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_is_found_by_name_and_alias() {
        assert_eq!(find("mock").unwrap().name, "mock");
        assert_eq!(find("embedded").unwrap().name, "mock");
    }

    #[test]
    fn an_unknown_engine_is_answered_with_what_there_is() {
        let error = find("temporla").unwrap_err();
        assert_eq!(error.code(), Code::Unsupported);
        assert!(error.hint().unwrap().starts_with("did you mean \"temporal\"? this program has"), "{error}");
    }

    #[cfg(feature = "conformance")]
    #[test]
    fn an_engine_without_a_harness_is_answered_with_those_that_have_one() {
        assert!(find("embedded").unwrap().harness("memory:").is_ok());
        let error = find("conductor").unwrap().harness("memory:").unwrap_err();
        assert_eq!(error.code(), Code::Unsupported);
        assert!(error.hint().unwrap().starts_with("it can test: mock (embedded)"), "{error}");
        let error = find("mock").unwrap().harness("oracle:").unwrap_err();
        assert!(error.message().contains("oracle:"), "{error}");
    }
}
