//! One call of foreign code: its time limit, and that its panics are failures and not crashes.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use engine_core::Timestamp;
use engine_core::port::Timekeeper;
use futures_util::FutureExt;

/// How a call ended.
pub(crate) enum Ended<T> {
    Done(T),
    Panicked(String),
    TimedOut,
}

/// Runs a call until it ends or its time is over; meanwhile `aside` is polled. A call that ends at once registers no
/// timer.
pub(crate) async fn drive<'a, T>(
    call: Pin<Box<dyn Future<Output = T> + Send + 'a>>,
    time: &Arc<dyn Timekeeper>,
    deadline: Timestamp,
    mut aside: impl FnMut(&mut Context<'_>),
) -> Ended<T> {
    let mut call = Guarded(Some(call));
    let mut timer = None;
    poll_fn(move |context| {
        match call.poll(context) {
            Poll::Ready(ended) => return Poll::Ready(ended),
            Poll::Pending => {}
        }
        let timer = timer.get_or_insert_with(|| time.alarm(deadline));
        if timer.poll_unpin(context).is_ready() {
            call.drop_quietly();
            return Poll::Ready(Ended::TimedOut);
        }
        aside(context);
        Poll::Pending
    })
    .await
}

/// Foreign code that is polled and dropped without its panics getting out.
struct Guarded<'a, T>(Option<Pin<Box<dyn Future<Output = T> + Send + 'a>>>);

impl<T> Guarded<'_, T> {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Ended<T>> {
        // Nothing of ours is left half-changed by a panic: only the call itself, which is not polled again.
        let Some(call) = &mut self.0 else { return Poll::Pending };
        match catch_unwind(AssertUnwindSafe(|| call.as_mut().poll(context))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(done)) => {
                self.drop_quietly();
                Poll::Ready(Ended::Done(done))
            }
            Err(panic) => {
                self.drop_quietly();
                Poll::Ready(Ended::Panicked(text_of(&*panic)))
            }
        }
    }

    fn drop_quietly(&mut self) {
        let call = self.0.take();
        if catch_unwind(AssertUnwindSafe(|| drop(call))).is_err() {
            tracing::warn!("a handler panicked while it was dropped");
        }
    }
}

impl<T> Drop for Guarded<'_, T> {
    fn drop(&mut self) {
        self.drop_quietly();
    }
}

fn text_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text =
        panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("it gave no reason").to_owned()
}
