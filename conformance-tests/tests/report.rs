//! The report: what it comes to, and each form of it.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use conformance::report::Conclusion;
use conformance::report::badge::badge;
use conformance::report::junit::junit;
use conformance::report::markdown::markdown;
use conformance::{
    Case, Fault, Harness, HarnessError, Implementation, Need, Options, Outcome, Profile, Report, Setup, Stop,
    Subject, Timeouts, World, cases, run,
};
use serde_json::Value;

/// A harness whose subjects cannot be opened.
#[derive(Debug)]
struct Broken;

#[async_trait]
impl Harness for Broken {
    fn describe(&self) -> Implementation {
        Implementation {
            name: "broken".into(),
            version: "0".into(),
            engine: "none".into(),
            engine_version: "0".into(),
            store: "none".into(),
        }
    }

    async fn open(&self, _: Setup) -> Result<Subject, HarnessError> {
        Err(HarnessError::new("the server is away"))
    }
}

async fn fails(_: &World) -> Outcome {
    Err(Stop::Fail("it is <wrong> & \"so\"".into()))
}

async fn panics(_: &World) -> Outcome {
    panic!("a slip")
}

async fn hangs(_: &World) -> Outcome {
    std::future::pending().await
}

async fn slips(world: &World) -> Outcome {
    let run =
        world.start("id: x\nversion: 1.0.0\nsteps:\n  - {id: a, handler: script, with: {gaet: a}}\n").await?;
    run.ended().await.map(|_| ())
}

async fn passes(_: &World) -> Outcome {
    Ok(())
}

const PASSES: Case = Case {
    name: "report.passes",
    profile: Profile::Core,
    requirements: &["RUN-1"],
    needs: &[],
    run: |world| Box::pin(passes(world)),
};
const FAILS: Case =
    Case { name: "report.fails", requirements: &["RUN-2"], run: |world| Box::pin(fails(world)), ..PASSES };
const PANICS: Case = Case { name: "report.panics", run: |world| Box::pin(panics(world)), ..PASSES };
const HANGS: Case = Case { name: "report.hangs", run: |world| Box::pin(hangs(world)), ..PASSES };
const SLIPS: Case = Case { name: "report.slips", run: |world| Box::pin(slips(world)), ..PASSES };
const NEEDS: Case =
    Case { name: "report.needs", profile: Profile::Durability, needs: &[Need::Can(Fault::Kill)], ..PASSES };

async fn report(harness: Arc<dyn Harness>, cases: &[Case]) -> Report {
    let timeouts = Timeouts { case: Duration::from_secs(3), ..Timeouts::default() };
    run(&harness, cases, Options { timeouts, ..Options::default() }, |_| {}).await
}

fn ours() -> Arc<dyn Harness> {
    Arc::new(conformance::in_process::InProcessHarness::on("memory:").unwrap())
}

fn verdict<'a>(report: &'a Report, name: &str) -> &'a str {
    &report.cases.iter().find(|case| case.name == name).unwrap().verdict
}

#[tokio::test(flavor = "multi_thread")]
async fn failing_panicking_hanging_and_slipping_are_told_apart() {
    let report = report(ours(), &[PASSES, FAILS, PANICS, HANGS, SLIPS]).await;
    assert_eq!(verdict(&report, "report.passes"), "pass");
    for name in ["report.fails", "report.panics", "report.hangs"] {
        assert_eq!(verdict(&report, name), "fail", "{name}");
    }
    assert_eq!(verdict(&report, "report.slips"), "error");
    assert_eq!((report.result, report.result.exit_code()), (Conclusion::Error, 2));
    let must = report.requirements["must"];
    assert_eq!((must.tried, must.held), (2, 0), "a requirement holds when every case that cites it passed");
    check_forms(&report);
    assert!(junit(&report).contains("message=\"it is &lt;wrong&gt; &amp; &quot;so&quot;\""));
    let text = markdown(&report);
    assert!(text.contains("### report.fails\n\nit is <wrong> & \"so\"\n\n- **RUN-2** "), "{text}");
    assert!(text.contains("| cases | 1 passed, 3 failed, 1 broke; "), "{text}");
}

#[tokio::test]
async fn a_harness_that_breaks_is_an_error_and_says_nothing_about_conformance() {
    let report = report(Arc::new(Broken), &[PASSES, NEEDS]).await;
    assert_eq!(verdict(&report, "report.passes"), "error");
    assert_eq!(verdict(&report, "report.needs"), "skipped");
    assert_eq!(report.result, Conclusion::Error);
    check_forms(&report);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_report_comes_to() {
    let comes_to = async |cases: &[Case]| report(ours(), cases).await.result;
    assert_eq!(comes_to(&[PASSES]).await, Conclusion::Success);
    assert_eq!(comes_to(&[PASSES, FAILS]).await, Conclusion::Failure);
    assert_eq!(comes_to(&[]).await, Conclusion::Nothing);
    let skipped = Case { needs: &[Need::Lacks(engine_core::port::Capability::ImmediatePause)], ..PASSES };
    assert_eq!(comes_to(&[skipped]).await, Conclusion::Partial, "nothing of the core may be skipped");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_whole_suite_gives_a_report_of_every_form() {
    let report = report(ours(), &cases::all()).await;
    assert_eq!(report.result, Conclusion::Success, "{}", markdown(&report));
    check_forms(&report);
    assert!(markdown(&report).starts_with("# adapter-mock 0.1.0 conforms\n"));
}

/// JSON as the schema says, and XML and SVG with every tag closed.
fn check_forms(report: &Report) {
    let schema: Value = serde_json::from_str(include_str!("../schema/report.v1.schema.json")).unwrap();
    let written: Value = serde_json::from_str(&report.to_json()).unwrap();
    let validator = jsonschema::draft202012::new(&schema).unwrap();
    let wrong: Vec<String> =
        validator.iter_errors(&written).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(serde_json::from_value::<Report>(written).unwrap(), *report);
    let xml = junit(report);
    assert_eq!(xml.matches("<testcase ").count(), report.cases.len() + report.scenarios.len());
    assert_eq!(xml.matches("<testcase ").count(), xml.matches("</testcase>").count());
    assert!(badge(report).starts_with("<svg ") && badge(report).ends_with("</svg>\n"));
}
