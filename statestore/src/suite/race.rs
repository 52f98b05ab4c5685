//! Many at once.

use std::sync::Arc;

use tokio::sync::Barrier;

use super::verdict::soon;

/// Lets so many tasks loose at the same moment; what each came to, in the order of their numbers.
pub(crate) async fn race<T, F>(contenders: usize, contend: impl Fn(usize) -> F) -> Vec<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let start = Arc::new(Barrier::new(contenders));
    let tasks: Vec<_> = (0..contenders)
        .map(|number| {
            let (start, task) = (start.clone(), contend(number));
            tokio::spawn(async move {
                start.wait().await;
                task.await
            })
        })
        .collect();
    let mut results = Vec::with_capacity(contenders);
    for task in tasks {
        match soon("a racing task", task).await {
            Ok(result) => results.push(result),
            Err(failure) => std::panic::resume_unwind(failure.into_panic()),
        }
    }
    results
}
