//! A Temporal cluster. A process that serves it drives runs of every process that shares its task queue.

use super::Adapter;

/// How to use it.
#[cfg(feature = "temporal")]
pub(super) const ADAPTER: Option<Adapter> = Some(Adapter {
    connect: built::connect,
    serve: built::serve,
    // The suite needs a server that it may use as it likes: the adapter's own tests bring one.
    #[cfg(feature = "conformance")]
    harness: None,
});

/// This program was built without it.
#[cfg(not(feature = "temporal"))]
pub(super) const ADAPTER: Option<Adapter> = None;

#[cfg(feature = "temporal")]
mod built {
    use std::sync::Arc;

    use adapter_temporal::connect::Tls;
    use adapter_temporal::{Connect, Options, Temporal};
    use engine_core::port::{Engine, StateStore};
    use engine_core::{AgentName, Code, Error, Result};
    use futures_core::future::BoxFuture;
    use worker::Worker;

    use crate::config::Config;
    use crate::engines::{Served, Serving};

    /// Starts runs and delivers signals; processes that serve the cluster drive.
    pub(super) fn connect(
        store: Arc<dyn StateStore>,
        config: &Config,
    ) -> BoxFuture<'static, Result<Arc<dyn Engine>>> {
        let options = options(config);
        Box::pin(async move { Ok(Arc::new(Temporal::connect(store, options?).await?) as Arc<dyn Engine>) })
    }

    /// Drives runs and runs their steps in this process. Temporal hands out what there is to do, whoever started it.
    pub(super) fn serve(worker: Worker, config: &Config, _: Serving) -> BoxFuture<'static, Result<Served>> {
        let options = options(config);
        Box::pin(async move {
            let engine = Temporal::open(worker, options?).await?;
            let stopped = engine.clone();
            Ok(Served::with_stop(Arc::new(engine), move || {
                let engine = stopped.clone();
                Box::pin(async move { engine.shutdown().await })
            }))
        })
    }

    fn options(config: &Config) -> Result<Options> {
        let text = |path: &str| config.optional(path);
        let file = |path: &str| text(path).map(Into::into);
        let tls = Tls {
            ca: file("temporal.tls_ca"),
            certificate: file("temporal.tls_cert"),
            key: file("temporal.tls_key"),
            server_name: text("temporal.tls_server_name"),
        };
        let mut agent_queues = std::collections::BTreeMap::new();
        for entry in config.list("temporal.agents") {
            let (agent, queue) = entry.split_once('=').ok_or_else(|| {
                Error::new(
                    Code::InvalidId,
                    format!("temporal.agents has {entry:?}, which names no task queue"),
                )
                .with_hint("write it as agent=task-queue")
            })?;
            agent_queues.insert(AgentName::new(agent.trim())?, queue.trim().to_owned());
        }
        let serves = config.list("temporal.serves").iter().map(AgentName::new).collect::<Result<Vec<_>>>()?;
        Ok(Options {
            connect: Connect {
                address: text("temporal.address"),
                namespace: text("temporal.namespace"),
                api_key: text("temporal.api_key"),
                tls: (tls != Tls::default()).then_some(tls),
                profile: text("temporal.profile"),
                config_file: file("temporal.config_file"),
                identity: config.worker_name(),
                ..Connect::default()
            },
            task_queue: config.text("temporal.task_queue"),
            agent_queues,
            serves,
            heartbeat: config.millis("temporal.heartbeat_ms"),
            dispatch: match config.text("temporal.dispatch").as_str() {
                "local" => Some(engine_core::plan::Dispatch::Local),
                _ => None,
            },
            shutdown_grace: config.millis("temporal.shutdown_grace_ms"),
            ..Options::default()
        })
    }
}
