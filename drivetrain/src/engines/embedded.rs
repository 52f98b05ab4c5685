//! The engine inside the process. Its client side needs no server either: whoever serves the store finds new runs and
//! signals there.

use std::sync::Arc;

use async_trait::async_trait;
use engine_core::Result;
use engine_core::port::{
    Capabilities, Engine, EngineRun, EngineRunRequest, EngineStatus, SignalRequest, StartRequest, StateStore,
};
use futures_core::future::BoxFuture;

use super::Adapter;
use crate::config::Config;

/// How to use it.
#[cfg(feature = "embedded")]
pub(super) const ADAPTER: Option<Adapter> = Some(Adapter {
    connect,
    serve,
    #[cfg(feature = "conformance")]
    harness: Some(harness),
});

/// This program was built without it.
#[cfg(not(feature = "embedded"))]
pub(super) const ADAPTER: Option<Adapter> = None;

/// Tests it in virtual time.
#[cfg(all(feature = "embedded", feature = "conformance"))]
fn harness(store: &str) -> Result<Arc<dyn conformance::Harness>> {
    use conformance::in_process::InProcessHarness;

    let harness = InProcessHarness::on(store)
        .map_err(|error| engine_core::Error::new(engine_core::Code::Unsupported, error.what))?;
    Ok(Arc::new(harness))
}

/// Drives runs in this process.
#[cfg(feature = "embedded")]
fn serve(
    worker: worker::Worker,
    config: &Config,
    serving: super::Serving,
) -> BoxFuture<'static, Result<super::Served>> {
    use adapter_mock::{InProcess, Options, Recover};

    let options = Options {
        lease: config.embedded_lease(),
        shutdown_grace: config.embedded_shutdown_grace(),
        recover: match serving {
            super::Serving::Everything => Recover::All,
            super::Serving::OnlyAsked => Recover::OnlyAsked,
        },
        ..Options::default()
    };
    Box::pin(async move {
        let engine = InProcess::open(worker, options).await?;
        let stopped = engine.clone();
        Ok(super::Served::with_stop(Arc::new(engine), move || {
            let engine = stopped.clone();
            Box::pin(async move { engine.shutdown().await })
        }))
    })
}

/// Starts runs and delivers signals; a process that serves the same store drives them.
#[cfg_attr(not(feature = "embedded"), expect(dead_code, reason = "the adapter uses it"))]
fn connect(store: Arc<dyn StateStore>, _: &Config) -> BoxFuture<'static, Result<Arc<dyn Engine>>> {
    Box::pin(async { Ok(Arc::new(Client { store }) as Arc<dyn Engine>) })
}

#[derive(Debug)]
struct Client {
    store: Arc<dyn StateStore>,
}

#[async_trait]
impl Engine for Client {
    fn name(&self) -> &str {
        "mock"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            immediate_pause: true,
            fail_fast_cancel: true,
            native_schedule: false,
            native_handlers: false,
        }
    }

    /// The run is in the store: whoever serves it takes the run from there.
    async fn start(&self, request: StartRequest) -> Result<EngineRun> {
        self.describe(EngineRunRequest { tenant_id: request.tenant_id, run_id: request.run_id }).await
    }

    async fn signal(&self, request: SignalRequest) -> Result<()> {
        self.store.submit(&request.tenant_id, &request.run_id, request.signal).await
    }

    async fn describe(&self, request: EngineRunRequest) -> Result<EngineRun> {
        let record = self.store.find(&request.tenant_id, &request.run_id).await?;
        let status = if record.status.is_terminal() { EngineStatus::Closed } else { EngineStatus::Open };
        Ok(EngineRun { reference: request.run_id.to_string(), status })
    }
}
