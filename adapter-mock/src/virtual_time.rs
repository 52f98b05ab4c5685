//! Time that passes when nothing else happens. It stands still while a handler works, a store is asked or a wake-up is on
//! its way; when all wait, it jumps to the next moment that somebody waits for. So hours of backoff take milliseconds,
//! over a real store too, and the order of things does not depend on how fast the machine is.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use engine_core::Timestamp;
use engine_core::port::{Clock, Timekeeper};
use futures_core::future::BoxFuture;

/// Time that passes when nothing else happens. Clones share it.
#[derive(Clone)]
pub struct VirtualTime {
    state: Arc<Mutex<State>>,
}

struct State {
    now: Timestamp,
    /// How many are at work; time stands still while there are any.
    busy: usize,
    next_id: u64,
    waiting: BTreeMap<(Timestamp, u64), Waiting>,
}

struct Waiting {
    waker: Option<Waker>,
    /// Whether somebody is at work again when its time has come.
    works_then: bool,
}

impl VirtualTime {
    /// Time that begins at a moment.
    #[must_use]
    pub fn starting_at(now: Timestamp) -> Self {
        let state = State { now, busy: 0, next_id: 0, waiting: BTreeMap::new() };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// Keeps time from passing until what is returned is dropped.
    #[must_use]
    pub fn hold(&self) -> Hold {
        self.lock().busy += 1;
        Hold { time: self.clone() }
    }

    /// A task whose wake-ups keep time from passing until it has seen them. That it was made is the first of them.
    pub fn watch<F: Future>(&self, task: F) -> Watched<F> {
        self.begin();
        let made = Woken { on_its_way: true, ..Woken::default() };
        Watched {
            task: Box::pin(task),
            wakeup: Arc::new(Wakeup { time: self.clone(), state: Mutex::new(made) }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self) {
        self.lock().busy += 1;
    }

    fn end(&self) {
        let mut state = self.lock();
        state.busy = state.busy.saturating_sub(1);
        let due = state.pass();
        drop(state);
        self.wake(due);
    }

    /// Wakes whose time has come. An alarm's task counts its own wake-up; until it has, time stands still for it.
    fn wake(&self, due: Vec<Waiting>) {
        for waiting in due {
            if let Some(waker) = waiting.waker {
                waker.wake();
            }
            if !waiting.works_then {
                self.end();
            }
        }
    }

    fn wait(&self, at: Timestamp, works_then: bool) -> Wait {
        Wait { time: self.clone(), at, id: None, works_then }
    }
}

impl State {
    /// Lets time pass to the next moment that somebody waits for, when nobody is at work; gives whom to wake.
    fn pass(&mut self) -> Vec<Waiting> {
        let mut woken = Vec::new();
        if self.busy > 0 {
            return woken;
        }
        let Some((&(at, _), _)) = self.waiting.first_key_value() else { return woken };
        self.now = self.now.max(at);
        while let Some(entry) = self.waiting.first_entry() {
            if entry.key().0 > self.now {
                break;
            }
            woken.push(entry.remove());
            self.busy += 1;
        }
        woken
    }
}

impl Clock for VirtualTime {
    fn now(&self) -> Timestamp {
        self.lock().now
    }
}

impl Timekeeper for VirtualTime {
    fn sleep_until(&self, at: Timestamp) -> BoxFuture<'static, ()> {
        Box::pin(self.wait(at, true))
    }

    fn alarm(&self, at: Timestamp) -> BoxFuture<'static, ()> {
        Box::pin(self.wait(at, false))
    }
}

impl fmt::Debug for VirtualTime {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        formatter
            .debug_struct("VirtualTime")
            .field("now", &state.now)
            .field("busy", &state.busy)
            .field("waiting", &state.waiting.len())
            .finish()
    }
}

/// Keeps time from passing.
#[derive(Debug)]
pub struct Hold {
    time: VirtualTime,
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.time.end();
    }
}

/// Waits for a moment. One that sleeps is not at work meanwhile; an alarm rings beside somebody's work.
struct Wait {
    time: VirtualTime,
    at: Timestamp,
    id: Option<u64>,
    works_then: bool,
}

impl Future for Wait {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let time = self.time.clone();
        let mut state = time.lock();
        if let Some(id) = self.id {
            let key = (self.at, id);
            return match state.waiting.get_mut(&key) {
                Some(waiting) => {
                    waiting.waker = Some(context.waker().clone());
                    Poll::Pending
                }
                None => {
                    self.id = None;
                    Poll::Ready(())
                }
            };
        }
        if self.at <= state.now {
            return Poll::Ready(());
        }
        let id = state.next_id;
        state.next_id += 1;
        let waiting = Waiting { waker: Some(context.waker().clone()), works_then: self.works_then };
        state.waiting.insert((self.at, id), waiting);
        self.id = Some(id);
        if self.works_then {
            state.busy = state.busy.saturating_sub(1);
        }
        let due = state.pass();
        drop(state);
        time.wake(due);
        Poll::Pending
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        let Some(id) = self.id else { return };
        let mut state = self.time.lock();
        // Whoever gave up sleeping is at work again.
        if state.waiting.remove(&(self.at, id)).is_some() && self.works_then {
            state.busy += 1;
        }
    }
}

/// A task whose wake-ups keep time from passing until it has seen them.
pub struct Watched<F> {
    task: Pin<Box<F>>,
    wakeup: Arc<Wakeup>,
}

impl<F> fmt::Debug for Watched<F> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Watched").finish_non_exhaustive()
    }
}

struct Wakeup {
    time: VirtualTime,
    state: Mutex<Woken>,
}

#[derive(Default)]
struct Woken {
    waker: Option<Waker>,
    /// Somebody has woken the task, and it has not run since.
    on_its_way: bool,
    /// The task is no more: waking it means nothing.
    gone: bool,
}

impl Wake for Wakeup {
    fn wake(self: Arc<Self>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.gone {
            return;
        }
        if !state.on_its_way {
            state.on_its_way = true;
            self.time.begin();
        }
        let waker = state.waker.clone();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<F: Future> Future for Watched<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let wakeup = Arc::clone(&self.wakeup);
        let seen = {
            let mut state = wakeup.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.waker = Some(context.waker().clone());
            std::mem::take(&mut state.on_its_way)
        };
        // Time stands still while the task runs, whoever polled it.
        if !seen {
            wakeup.time.begin();
        }
        let waker = Waker::from(Arc::clone(&wakeup));
        let result = self.task.as_mut().poll(&mut Context::from_waker(&waker));
        wakeup.time.end();
        result
    }
}

impl<F> Drop for Watched<F> {
    fn drop(&mut self) {
        let mut state = self.wakeup.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.gone = true;
        let on_its_way = std::mem::take(&mut state.on_its_way);
        drop(state);
        if on_its_way {
            self.wakeup.time.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::oneshot;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    #[tokio::test]
    async fn hours_pass_at_once_when_all_wait() {
        let time = VirtualTime::starting_at(at(0));
        time.alarm(at(3_600_000)).await;
        assert_eq!(time.now(), at(3_600_000));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn time_stands_still_while_somebody_works_and_until_a_wakeup_was_seen() {
        let time = VirtualTime::starting_at(at(0));
        let (send, receive) = oneshot::channel::<()>();
        let hold = time.hold();
        let alarm = tokio::spawn(time.watch({
            let time = time.clone();
            async move {
                time.alarm(at(10)).await;
                time.now()
            }
        }));
        let worker = tokio::spawn(time.watch({
            let time = time.clone();
            async move {
                receive.await.unwrap();
                let seen = time.now();
                drop(hold);
                seen
            }
        }));
        send.send(()).unwrap();
        assert_eq!(worker.await.unwrap(), at(0));
        assert_eq!(alarm.await.unwrap(), at(10));
    }

    #[tokio::test]
    async fn time_stands_still_until_a_new_task_has_begun() {
        let time = VirtualTime::starting_at(at(0));
        let clock = time.clone();
        let task = time.watch(async move { clock.now() });
        let alarm = time.alarm(at(5));
        tokio::pin!(alarm);
        assert!(futures_util::poll!(&mut alarm).is_pending());
        assert_eq!(task.await, at(0));
        alarm.await;
        assert_eq!(time.now(), at(5));
        drop(time.watch(std::future::pending::<()>()));
        time.alarm(at(6)).await;
    }

    #[tokio::test]
    async fn waking_a_task_that_is_gone_does_not_stop_time() {
        let time = VirtualTime::starting_at(at(0));
        let waker = Arc::new(Mutex::new(None));
        let kept = Arc::clone(&waker);
        let mut task = time.watch(std::future::poll_fn(move |context| {
            *kept.lock().unwrap() = Some(context.waker().clone());
            Poll::<()>::Pending
        }));
        assert!(futures_util::poll!(&mut task).is_pending());
        drop(task);
        waker.lock().unwrap().take().unwrap().wake();
        time.alarm(at(5)).await;
        assert_eq!(time.now(), at(5));
    }

    #[tokio::test]
    async fn a_sleeper_is_not_at_work_and_works_again_when_its_time_has_come() {
        let time = VirtualTime::starting_at(at(0));
        let hold = time.hold();
        time.sleep_until(at(5)).await;
        let late = time.alarm(at(50));
        tokio::pin!(late);
        assert!(futures_util::poll!(&mut late).is_pending());
        assert_eq!(time.now(), at(5));
        drop(hold);
        late.await;
        assert_eq!(time.now(), at(50));
    }
}
