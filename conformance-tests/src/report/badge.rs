//! The report for a README: a badge.

use super::{Conclusion, Report};

/// The report as an SVG: `conformance | core 20/20 · control 5/5`.
#[must_use]
pub fn badge(report: &Report) -> String {
    let colour = match report.result {
        Conclusion::Success => "#2e7d32",
        Conclusion::Partial => "#b26a00",
        Conclusion::Failure => "#c62828",
        Conclusion::Error | Conclusion::Nothing => "#616161",
    };
    let profiles: Vec<String> = report
        .profiles
        .iter()
        .filter(|profile| profile.variant.is_none())
        .map(|profile| {
            format!("{} {}/{}", profile.name.name(), profile.counts.passed, profile.counts.total())
        })
        .collect();
    let value = if profiles.is_empty() { "nothing ran".to_owned() } else { profiles.join(" · ") };
    let label = format!("conformance {}", report.suite.contract);
    let (left, right) = (width(&label), width(&value));
    let total = left + right;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{total}\" height=\"20\" role=\"img\" \
         aria-label=\"{label}: {value}\">\n  \
         <rect width=\"{left}\" height=\"20\" fill=\"#37474f\"/>\n  \
         <rect x=\"{left}\" width=\"{right}\" height=\"20\" fill=\"{colour}\"/>\n  \
         <g fill=\"#fff\" font-family=\"Verdana,sans-serif\" font-size=\"11\">\n    \
         <text x=\"6\" y=\"14\">{label}</text>\n    <text x=\"{x}\" y=\"14\">{value}</text>\n  </g>\n</svg>\n",
        x = left + 6,
    )
}

/// About how wide a text is: there is no font to ask.
fn width(text: &str) -> usize {
    12 + text.chars().count() * 7
}
