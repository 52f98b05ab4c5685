//! A complete adapter of one's own, and how it is tested.
//!
//! The engine stands for a server elsewhere: it lives behind a queue of messages, and the adapter only knows that queue.
//! (Here the server drives runs with the embedded engine; yours does it its own way.) Time is the machine's.
//!
//! `cargo run -p conformance-tests --example own-adapter -- --profile core --report target/conformance`

use std::process::ExitCode;
use std::sync::Arc;

use adapter_mock::InProcess;
use async_trait::async_trait;
use conformance::command::{Request, execute, exit_code};
use conformance::{Fault, Harness, HarnessError, Implementation, Operator, Setup, Subject, Variant};
use engine_core::port::{
    Capabilities, Capability, Engine, EngineRun, EngineRunRequest, SignalRequest, StartRequest, Timekeeper,
};
use engine_core::signal::{Command, PauseMode};
use engine_core::{Code, Error, Result};
use tokio::sync::{mpsc, oneshot};
use worker::{Handlers, MachineTime, Worker};

/// What the server understands.
#[derive(Debug)]
enum Message {
    Start(StartRequest, oneshot::Sender<Result<EngineRun>>),
    Signal(SignalRequest, oneshot::Sender<Result<()>>),
    Describe(EngineRunRequest, oneshot::Sender<Result<EngineRun>>),
}

/// The server: it takes messages one after another and drives the runs that it was told of.
async fn serve(engine: InProcess, mut messages: mpsc::Receiver<Message>) {
    while let Some(message) = messages.recv().await {
        // Whoever asked may be gone by now.
        match message {
            Message::Start(request, answer) => drop(answer.send(engine.start(request).await)),
            Message::Signal(request, answer) => drop(answer.send(engine.signal(request).await)),
            Message::Describe(request, answer) => drop(answer.send(engine.describe(request).await)),
        }
    }
    engine.shutdown().await;
}

/// The adapter: it turns what Drivetrain asks into messages of the server.
#[derive(Clone, Debug)]
struct Adapter {
    server: mpsc::Sender<Message>,
}

impl Adapter {
    async fn send<T>(&self, message: impl FnOnce(oneshot::Sender<Result<T>>) -> Message) -> Result<T> {
        let away = || {
            Error::new(Code::EngineUnavailable, "the server does not answer")
                .with_hint("see that it runs; what was stored is safe")
        };
        let (answer, answered) = oneshot::channel();
        self.server.send(message(answer)).await.map_err(|_| away())?;
        answered.await.map_err(|_| away())?
    }
}

#[async_trait]
impl Engine for Adapter {
    fn name(&self) -> &str {
        adapter_mock::ENGINE
    }

    /// Nothing beyond the core: what is not declared is refused, and the suite checks that.
    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    async fn start(&self, request: StartRequest) -> Result<EngineRun> {
        self.send(|answer| Message::Start(request, answer)).await
    }

    async fn signal(&self, request: SignalRequest) -> Result<()> {
        if let Command::Pause { mode: PauseMode::Immediate } = request.signal.command {
            self.capabilities().require(Capability::ImmediatePause, self.name())?;
        }
        self.send(|answer| Message::Signal(request, answer)).await
    }

    async fn describe(&self, request: EngineRunRequest) -> Result<EngineRun> {
        self.send(|answer| Message::Describe(request, answer)).await
    }
}

/// What the suite needs to test it: a fresh server, store and scripted worker for each case.
#[derive(Debug)]
struct AdapterHarness;

#[async_trait]
impl Harness for AdapterHarness {
    fn describe(&self) -> Implementation {
        Implementation {
            name: "own-adapter".to_owned(),
            version: "0.1.0".to_owned(),
            engine: "a server behind a queue".to_owned(),
            engine_version: "0.1.0".to_owned(),
            store: "memory".to_owned(),
        }
    }

    /// Its server and worker use the store that the suite hands out, which is all that these need.
    fn faults(&self) -> Vec<Fault> {
        vec![Fault::SlowStore]
    }

    fn variants(&self) -> Vec<Variant> {
        vec![Variant::SlowStore, Variant::Rebuild]
    }

    async fn open(&self, setup: Setup) -> Result<Subject, HarnessError> {
        let time: Arc<dyn Timekeeper> = Arc::new(MachineTime);
        let store = statestore::open("memory:", statestore::Options::default()).await?;
        let mut handlers = Handlers::new();
        for (name, script) in setup.handlers(&time) {
            handlers.register(name, script)?;
        }
        let seen = setup.store(Arc::clone(&store), &time);
        let worker =
            Worker::builder(seen, handlers).secrets(setup.secrets()).time(Arc::clone(&time)).build()?;
        let engine = InProcess::open(worker, adapter_mock::Options::default()).await?;
        let (server, messages) = mpsc::channel(16);
        let serving = tokio::spawn(serve(engine, messages));
        let operator = Arc::new(Server { setup, serving });
        Ok(Subject { engine: Arc::new(Adapter { server }), store, time, operator })
    }
}

/// The server, so that it can be stopped. It can do more in a harness that declares faults.
#[derive(Debug)]
struct Server {
    setup: Setup,
    serving: tokio::task::JoinHandle<()>,
}

#[async_trait]
impl Operator for Server {
    async fn close(&self) {
        // Steps at a gate would wait for ever.
        self.setup.stage.kill();
        self.serving.abort();
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let harness: Arc<dyn Harness> = Arc::new(AdapterHarness);
    let request = match Request::read(std::env::args().skip(1)) {
        Ok((request, rest)) if rest.is_empty() => request,
        Ok((_, rest)) => return slipped(&format!("what is {}?", rest.join(" "))),
        Err(slip) => return slipped(&slip),
    };
    match execute(&harness, &request).await {
        Ok(report) => exit_code(&report),
        Err(error) => slipped(&format!("the reports cannot be written: {error}")),
    }
}

fn slipped(what: &str) -> ExitCode {
    eprintln!("{what}");
    ExitCode::from(2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use conformance::Profile;
    use conformance::report::Conclusion;
    use conformance::report::markdown::markdown;

    #[tokio::test(flavor = "multi_thread")]
    async fn it_passes_the_core() {
        let harness: Arc<dyn Harness> = Arc::new(AdapterHarness);
        let request = Request { profiles: vec![Profile::Core], ..Request::default() };
        let report = execute(&harness, &request).await.unwrap();
        assert_eq!(report.result, Conclusion::Success, "{}", markdown(&report));
        assert!(report.counts().passed > 10, "{}", markdown(&report));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn it_passes_under_the_variants_that_it_can_do() {
        let harness: Arc<dyn Harness> = Arc::new(AdapterHarness);
        let request = Request {
            cases: vec!["graph.*".to_owned(), "pause.a_pause*".to_owned()],
            variants: harness.variants(),
            ..Request::default()
        };
        let report = execute(&harness, &request).await.unwrap();
        assert_eq!(report.result, Conclusion::Success, "{}", markdown(&report));
        assert!(report.counts().passed > 10, "{}", markdown(&report));
    }
}
