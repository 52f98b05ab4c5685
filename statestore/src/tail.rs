//! A live tail: events that are there, then each new one as it is stored.

use std::collections::VecDeque;
use std::sync::Arc;

use engine_core::Result;
use engine_core::event::Event;
use engine_core::port::store::ReadRequest;
use futures_core::future::BoxFuture;
use futures_core::stream::BoxStream;
use tokio::sync::watch;

use crate::page;
use crate::wake::Wakeups;

/// How a tail reads a page.
pub(crate) type ReadPage = Box<dyn Fn(ReadRequest) -> BoxFuture<'static, Result<Vec<Event>>> + Send + Sync>;

struct Tail {
    request: ReadRequest,
    read: ReadPage,
    news: watch::Receiver<()>,
    page: VecDeque<Event>,
}

/// Follows a run's log. Ends only with an error.
pub(crate) fn follow(
    mut request: ReadRequest,
    wakeups: &Arc<Wakeups>,
    read: ReadPage,
) -> BoxStream<'static, Result<Event>> {
    request.limit = request.limit.clamp(1, page::EVENTS);
    // Subscribed before the first read: what is stored between the two wakes the tail.
    let news = wakeups.tail(&request.run_id);
    let tail = Tail { request, read, news, page: VecDeque::new() };
    Box::pin(futures_util::stream::try_unfold(tail, |mut tail| async move {
        loop {
            if let Some(event) = tail.page.pop_front() {
                return Ok(Some((event, tail)));
            }
            tail.news.mark_unchanged();
            tail.page = (tail.read)(tail.request.clone()).await?.into();
            match tail.page.back() {
                Some(last) => tail.request.after = last.run_seq,
                // The sender lives as long as the store; when that is gone, nothing will come any more.
                None if tail.news.changed().await.is_err() => return Ok(None),
                None => {}
            }
        }
    }))
}
