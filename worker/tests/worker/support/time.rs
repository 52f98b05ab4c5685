//! Time that passes when a test says so.

use std::sync::{Arc, Mutex};

use engine_core::Timestamp;
use engine_core::port::{Clock, Timekeeper};
use futures_core::future::BoxFuture;
use tokio::sync::watch;

/// A clock that stands still until it is told to go on.
#[derive(Debug)]
pub(crate) struct VirtualTime {
    now: watch::Sender<Timestamp>,
    /// For what times somebody waits.
    waits: Mutex<Vec<Timestamp>>,
    made: watch::Sender<usize>,
}

impl VirtualTime {
    pub(crate) fn new() -> Arc<Self> {
        let now = Timestamp::from_millis(1_770_805_800_123);
        Arc::new(Self { now: watch::Sender::new(now), waits: Mutex::default(), made: watch::Sender::new(0) })
    }

    /// Lets time pass.
    pub(crate) fn advance(&self, millis: u64) {
        self.now.send_modify(|now| *now = now.plus_millis(millis));
    }

    /// How often somebody began to wait.
    pub(crate) fn waits(&self) -> usize {
        *self.made.borrow()
    }

    /// Until somebody waits for a time that is `millis` away from now.
    pub(crate) async fn until_awaited(&self, millis: u64) {
        let mut made = self.made.subscribe();
        loop {
            made.borrow_and_update();
            let wanted = self.now().plus_millis(millis);
            if self.waits.lock().unwrap().contains(&wanted) {
                return;
            }
            made.changed().await.unwrap();
        }
    }
}

impl Clock for VirtualTime {
    fn now(&self) -> Timestamp {
        *self.now.borrow()
    }
}

impl Timekeeper for VirtualTime {
    fn sleep_until(&self, at: Timestamp) -> BoxFuture<'static, ()> {
        self.waits.lock().unwrap().push(at);
        self.made.send_modify(|made| *made += 1);
        let mut now = self.now.subscribe();
        Box::pin(async move {
            let _ = now.wait_for(|now| *now >= at).await;
        })
    }
}
