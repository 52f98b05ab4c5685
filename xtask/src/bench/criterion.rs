//! What criterion leaves in its folder, as figures and ratios.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde_json::{Map, Value, json};

/// What a run came to.
#[derive(Debug)]
pub(crate) struct Results {
    /// Times and rates.
    pub(crate) figures: Map<String, Value>,
    /// The cost at the largest size over that at the smallest.
    pub(crate) ratios: Map<String, Value>,
}

/// The results in a folder; none when criterion wrote nothing there.
pub(crate) fn read(folder: &Path) -> Result<Option<Results>> {
    if !folder.exists() {
        return Ok(None);
    }
    let measurements = read_measurements(folder)?;
    let results = || Results { figures: figures(&measurements), ratios: ratios(&measurements) };
    Ok((!measurements.is_empty()).then(results))
}

/// One function of a benchmark at one size.
#[derive(Clone, Debug, PartialEq)]
struct Measurement {
    /// Group and function.
    series: String,
    /// The parameter, often a size.
    parameter: Option<String>,
    /// Nanoseconds for one iteration, the median.
    nanoseconds: f64,
    /// What one iteration handles, as events.
    elements: Option<f64>,
}

impl Measurement {
    fn name(&self) -> String {
        match &self.parameter {
            Some(parameter) => format!("{}/{parameter}", self.series),
            None => self.series.clone(),
        }
    }

    fn cost(&self) -> f64 {
        self.nanoseconds / self.elements.unwrap_or(1.0)
    }

    /// From what criterion leaves in a folder: `benchmark.json` and `estimates.json`.
    fn read(benchmark: &Value, estimates: &Value) -> Option<Self> {
        let text = |name: &str| benchmark[name].as_str().map(str::to_owned);
        let group = text("group_id")?;
        let throughput = &benchmark["throughput"];
        Some(Self {
            series: text("function_id").map_or(group.clone(), |function| format!("{group}/{function}")),
            parameter: text("value_str"),
            nanoseconds: estimates["median"]["point_estimate"].as_f64()?,
            elements: throughput["Elements"]
                .as_f64()
                .or_else(|| throughput["ElementsAndBytes"]["elements"].as_f64()),
        })
    }
}

fn read_measurements(folder: &Path) -> Result<Vec<Measurement>> {
    let mut found = Vec::new();
    let mut folders: Vec<PathBuf> = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries =
            std::fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
        for entry in entries {
            let path = entry?.path();
            if !path.is_dir() {
                continue;
            }
            let (benchmark, estimates) = (path.join("benchmark.json"), path.join("estimates.json"));
            // `base` holds the same again, for the next comparison.
            if path.ends_with("new") && benchmark.exists() && estimates.exists() {
                let measurement = Measurement::read(&read_json(&benchmark)?, &read_json(&estimates)?);
                found.push(
                    measurement.with_context(|| {
                        format!("{} is not as criterion used to write it", path.display())
                    })?,
                );
            } else {
                folders.push(path);
            }
        }
    }
    Ok(found)
}

fn read_json(path: &Path) -> Result<Value> {
    let text = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("{} is not JSON", path.display()))
}

/// Nanoseconds for an iteration, and how many elements a second where the benchmark counts them.
fn figures(measurements: &[Measurement]) -> Map<String, Value> {
    let mut figures = BTreeMap::new();
    for measurement in measurements {
        let name = measurement.name();
        if let Some(elements) = measurement.elements {
            let rate = elements * 1e9 / measurement.nanoseconds;
            figures.insert(format!("{name} elementsPerSecond"), json!(rate.round()));
        }
        figures.insert(format!("{name} nanoseconds"), json!(measurement.nanoseconds.round()));
    }
    figures.into_iter().collect()
}

/// For each function that was measured at several sizes: the cost of one element (of one iteration, when the
/// benchmark counts none) at the largest size over that at the smallest.
fn ratios(measurements: &[Measurement]) -> Map<String, Value> {
    let mut series: BTreeMap<&str, Vec<(f64, &Measurement)>> = BTreeMap::new();
    for measurement in measurements {
        if let Some(size) = measurement.parameter.as_ref().and_then(|text| text.parse().ok()) {
            series.entry(&measurement.series).or_default().push((size, measurement));
        }
    }
    let mut ratios = Map::new();
    for (name, mut sizes) in series {
        sizes.sort_by(|left, right| left.0.total_cmp(&right.0));
        if let [(small, smallest), .., (large, largest)] = sizes.as_slice() {
            let ratio = largest.cost() / smallest.cost();
            ratios.insert(format!("{name} {large}:{small}"), json!((ratio * 1000.0).round() / 1000.0));
        }
    }
    ratios
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(parameter: &str, nanoseconds: f64, elements: u64) -> Measurement {
        let benchmark = json!({
            "group_id": "decider", "function_id": "fold", "value_str": parameter,
            "throughput": {"Elements": elements},
        });
        Measurement::read(&benchmark, &json!({"median": {"point_estimate": nanoseconds}})).unwrap()
    }

    #[test]
    fn a_folder_without_measurements_has_no_figures() {
        assert!(read(Path::new("no/such/folder")).unwrap().is_none());
    }

    #[test]
    fn figures_say_time_and_rate() {
        let figures = figures(&[measured("10", 2000.0, 20)]);
        assert_eq!(figures["decider/fold/10 nanoseconds"], 2000.0);
        assert_eq!(figures["decider/fold/10 elementsPerSecond"], 10_000_000.0);
    }

    #[test]
    fn a_ratio_compares_the_cost_of_one_element_at_the_largest_and_smallest_size() {
        // As text 10000 sorts before 9: sizes are numbers.
        let ratios = ratios(&[
            measured("9", 900.0, 9),
            measured("10000", 3_000_000.0, 10_000),
            measured("50", 1.0, 1),
        ]);
        assert_eq!(ratios["decider/fold 10000:9"], 3.0);
        assert_eq!(ratios.len(), 1);
    }

    #[test]
    fn one_size_or_none_gives_no_ratio() {
        assert!(ratios(&[measured("10", 1.0, 1)]).is_empty());
        assert!(ratios(&[measured("small", 1.0, 1), measured("large", 2.0, 1)]).is_empty());
    }

    #[test]
    fn a_benchmark_without_function_or_parameter_is_named_after_its_group() {
        let benchmark =
            json!({"group_id": "plan", "function_id": null, "value_str": null, "throughput": null});
        let measurement = Measurement::read(&benchmark, &json!({"median": {"point_estimate": 7.0}})).unwrap();
        assert_eq!(measurement.name(), "plan");
        assert_eq!(figures(&[measurement])["plan nanoseconds"], 7.0);
    }
}
