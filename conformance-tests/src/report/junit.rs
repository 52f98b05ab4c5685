//! The report for test tools: JUnit XML.

use std::fmt::Write as _;

use super::{CaseReport, Report, ScenarioReport};

/// The report as JUnit XML: a suite a profile; failures and errors are told apart.
#[must_use]
pub fn junit(report: &Report) -> String {
    let mut total = report.counts();
    for scenario in &report.scenarios {
        match scenario.verdict.as_str() {
            "pass" => total.passed += 1,
            "fail" => total.failed += 1,
            _ => total.errors += 1,
        }
    }
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let _ = writeln!(
        text,
        "<testsuites name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\">",
        escaped(&report.implementation.name),
        total.total(),
        total.failed,
        total.errors,
        total.skipped
    );
    for profile in &report.profiles {
        let counts = profile.counts;
        let _ = writeln!(
            text,
            "  <testsuite name=\"{}{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\">",
            profile.name.name(),
            profile.variant.map(|variant| format!("/{variant}")).unwrap_or_default(),
            counts.total(),
            counts.failed,
            counts.errors,
            counts.skipped
        );
        let of = |case: &&CaseReport| case.profile == profile.name && case.variant == profile.variant;
        report.cases.iter().filter(of).for_each(|case| write_case(&mut text, case));
        text.push_str("  </testsuite>\n");
    }
    write_scenarios(&mut text, &report.scenarios);
    text.push_str("</testsuites>\n");
    text
}

fn write_scenarios(text: &mut String, scenarios: &[ScenarioReport]) {
    if scenarios.is_empty() {
        return;
    }
    let count = |verdict: &str| scenarios.iter().filter(|scenario| scenario.verdict == verdict).count();
    let (failed, broke) = (count("fail"), count("error"));
    let _ = writeln!(
        text,
        "  <testsuite name=\"scenarios\" tests=\"{}\" failures=\"{failed}\" errors=\"{broke}\" skipped=\"0\">",
        scenarios.len(),
    );
    for scenario in scenarios {
        let seconds = scenario.duration_ms as f64 / 1000.0;
        let name = escaped(&scenario.name);
        let _ = writeln!(text, "    <testcase classname=\"scenario\" name=\"{name}\" time=\"{seconds:.3}\">");
        let what = escaped(scenario.what.as_deref().unwrap_or_default());
        let _ = match scenario.verdict.as_str() {
            "pass" => Ok(()),
            "fail" => writeln!(text, "      <failure message=\"{what}\"/>"),
            _ => writeln!(text, "      <error message=\"{what}\"/>"),
        };
        text.push_str("    </testcase>\n");
    }
    text.push_str("  </testsuite>\n");
}

fn write_case(text: &mut String, case: &CaseReport) {
    let (topic, name) = case.name.split_once('.').unwrap_or(("", &case.name));
    let seconds = case.duration_ms as f64 / 1000.0;
    let _ = writeln!(
        text,
        "    <testcase classname=\"{}\" name=\"{}\" time=\"{seconds:.3}\">",
        escaped(topic),
        escaped(name)
    );
    text.push_str("      <properties>\n");
    for id in &case.requirements {
        let _ = writeln!(text, "        <property name=\"requirement\" value=\"{}\"/>", escaped(id));
    }
    text.push_str("      </properties>\n");
    let what = escaped(case.what.as_deref().unwrap_or_default());
    let evidence = escaped(&case.evidence.join("\n"));
    let _ = match case.verdict.as_str() {
        "pass" => Ok(()),
        "fail" => writeln!(text, "      <failure message=\"{what}\">{evidence}</failure>"),
        "skipped" => writeln!(text, "      <skipped message=\"{what}\"/>"),
        _ => writeln!(text, "      <error message=\"{what}\"/>"),
    };
    text.push_str("    </testcase>\n");
}

/// The text with what means something in XML written otherwise, and without what XML cannot hold.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\n' => safe.push_str("&#10;"),
            '\t' => safe.push(' '),
            character if character.is_control() => safe.push('\u{fffd}'),
            character => safe.push(character),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_means_something_in_xml_is_written_otherwise() {
        assert_eq!(escaped("a<b & \"c\"\n\u{1}"), "a&lt;b &amp; &quot;c&quot;&#10;\u{fffd}");
    }
}
