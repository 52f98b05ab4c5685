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
use crate::retry::Backoff;
use crate::wake::{ANYWHERE, News, Wakeups};

/// How a tail reads a page.
pub(crate) type ReadPage = Box<dyn Fn(ReadRequest) -> BoxFuture<'static, Result<Vec<Event>>> + Send + Sync>;

struct Tail {
    request: ReadRequest,
    read: ReadPage,
    news: watch::Receiver<News>,
    page: VecDeque<Event>,
}

impl Tail {
    async fn next_page(&self) -> Result<VecDeque<Event>> {
        let mut backoff = Backoff::new();
        loop {
            match (self.read)(self.request.clone()).await {
                Ok(page) => return Ok(page.into()),
                Err(error) if error.is_retryable() => {
                    tracing::debug!(%error, "a tail waits for the store");
                    backoff.wait().await;
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// Follows a run's log. A store that is away is waited for, however long; any other error ends it.
pub(crate) fn follow(
    mut request: ReadRequest,
    wakeups: &Arc<Wakeups>,
    read: ReadPage,
) -> BoxStream<'static, Result<Event>> {
    request.limit = request.limit.clamp(1, page::EVENTS);
    // Subscribed before the first read: what is stored between the two wakes the tail.
    let (news, last) = wakeups.tail(&request.tenant_id, &request.run_id);
    // The first page is where a run that is not there, or another tenant's, is refused: it is read, unless the run is
    // known and has nothing to read yet.
    let must_read = last.is_none_or(|last| last > request.after);
    let tail = Tail { request, read, news, page: VecDeque::new() };
    Box::pin(futures_util::stream::try_unfold((tail, must_read), |(mut tail, mut must_read)| async move {
        loop {
            if let Some(event) = tail.page.pop_front() {
                tail.request.after = event.run_seq;
                return Ok(Some((event, (tail, must_read))));
            }
            if must_read {
                tail.news.mark_unchanged();
                tail.page = tail.next_page().await?;
                // A page that is not full is the last.
                must_read = tail.page.len() >= tail.request.limit;
                continue;
            }
            // The sender lives as long as the store; when that is gone, nothing will come any more.
            if tail.news.changed().await.is_err() {
                return Ok(None);
            }
            let news = tail.news.borrow_and_update();
            tail.page = news.after(tail.request.after);
            // What ends before the place where this tail begins is none of its business.
            must_read = tail.page.is_empty() && (news.told == ANYWHERE || news.told > tail.request.after);
        }
    }))
}
