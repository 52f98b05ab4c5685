//! How long it takes to read and check plans of ten thousand steps.

use std::fmt::Write as _;
use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use engine_core::plan::{self, CompiledPlan};

/// A plan whose steps each have two dependencies, an input with expressions and a retry policy.
fn yaml(steps: usize) -> String {
    let mut text = String::from("id: large\nversion: \"1\"\nsteps:\n");
    for step in 0..steps {
        let _ = write!(text, "  - id: step-{step}\n    handler: http\n    retry: {{maxAttempts: 5}}\n");
        if step >= 2 {
            let _ = write!(
                text,
                "    dependsOn: [step-{}, {{step: step-{}, required: false}}]\n    with: {{rows: \"${{ steps.step-{}.output.rows }}\"}}\n",
                step - 1,
                step - 2,
                step - 1
            );
        }
    }
    text.replace("steps.step-", "steps.\\\"step-").replace(".output.rows", "\\\".output.rows")
}

/// A plan whose steps have an id, a handler and one dependency.
fn short_yaml(steps: usize) -> String {
    let mut text = String::from("id: large\nversion: \"1\"\nsteps:\n");
    for step in 0..steps {
        let _ = write!(text, "  - id: step-{step}\n    handler: http\n");
        if step > 0 {
            let _ = writeln!(text, "    dependsOn: [step-{}]", step - 1);
        }
    }
    text
}

fn plans(criterion: &mut Criterion) {
    let short = short_yaml(10_000);
    let text = yaml(10_000);
    let broken = text.replace("handler: http", "handlr: http");
    let plan = plan::read(&text).unwrap_or_else(|problems| panic!("{problems}"));
    let json = serde_json::to_string(&plan).unwrap_or_default();
    let mut group = criterion.benchmark_group("plan of 10,000 steps");
    group.sample_size(20).measurement_time(Duration::from_secs(5));
    group.bench_function("read short YAML", |bencher| {
        bencher.iter(|| plan::read(black_box(&short)).is_ok());
    });
    group.bench_function("read YAML", |bencher| bencher.iter(|| plan::read(black_box(&text)).is_ok()));
    group.bench_function("read JSON", |bencher| bencher.iter(|| plan::read(black_box(&json)).is_ok()));
    group.bench_function("refuse YAML", |bencher| bencher.iter(|| plan::read(black_box(&broken)).is_err()));
    group.bench_function("validate", |bencher| bencher.iter(|| plan::validate(black_box(&plan)).is_ok()));
    group.bench_function("compile", |bencher| {
        bencher.iter(|| CompiledPlan::new(black_box(plan.clone())).is_ok());
    });
    group.finish();
}

criterion_group!(benches, plans);
criterion_main!(benches);
