//! Reading all of a large run as a stream, and how much memory that takes.

use std::time::Instant;

use engine_core::port::store::ReadRequest;
use futures_util::StreamExt as _;

use crate::load::{Place, append, request, run, tenant};
use crate::{Report, Scale};

pub(crate) async fn measure(place: &Place, scale: Scale, report: &mut Report) {
    let store = place.open().await;
    let run_id = run(&*store).await;
    let mut size = 0;
    while size < scale.large_run {
        append(&*store, request(&run_id, size, 1_000)).await;
        size += 1_000;
    }
    let total = size + 1;
    let request = ReadRequest { tenant_id: tenant(), run_id, after: 0, limit: 1_000 };
    let mut events = store.tail(request);
    let started = Instant::now();
    let mut early = 0.0;
    for number in 1..=total {
        let event = events.next().await.expect("an event").expect("readable");
        assert_eq!(event.run_seq as usize, number);
        if number == total / 10 {
            early = resident_mib();
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    report.figure(
        format!("{}, reading {size} events as a stream, events/s", place.name),
        total as f64 / seconds,
    );
    let growth = resident_mib() - early;
    report.figure(format!("{}, memory from a tenth to all of them, MiB", place.name), growth);
}

/// The memory that this process has at the moment.
fn resident_mib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or("0");
    let kib: f64 = line.trim().trim_end_matches(" kB").trim().parse().unwrap_or(0.0);
    kib / 1024.0
}
