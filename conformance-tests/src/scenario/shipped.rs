//! The scenarios that the suite brings along, each with the trace that every engine must linearise.

use super::Scenario;
use crate::trace::Order;

/// A scenario of the suite.
#[derive(Clone, Copy, Debug)]
pub struct Shipped {
    /// Its name.
    pub name: &'static str,
    text: &'static str,
    golden: &'static str,
}

macro_rules! shipped {
    ($($name:literal),+ $(,)?) => {
        /// Every scenario of the suite, by name.
        pub const SHIPPED: &[Shipped] = &[$(Shipped {
            name: $name,
            text: include_str!(concat!("../../scenarios/", $name, ".yaml")),
            golden: include_str!(concat!("../../golden/", $name, ".json")),
        }),+];
    };
}

shipped![
    "approved-and-completed-by-hand",
    "cancelled-in-flight",
    "diamond",
    "drain-timeout",
    "held-and-retried",
    "held-and-skipped",
    "partial",
    "pause-with-two-in-flight",
    "paused-twice",
    "retried-after-success",
    "saga",
    "transient-failure",
];

impl Shipped {
    /// The scenario.
    ///
    /// # Errors
    /// When it cannot be read: a slip of the suite.
    pub fn scenario(&self) -> Result<Scenario, String> {
        Scenario::read(self.text)
    }

    /// What every engine must linearise.
    ///
    /// # Errors
    /// When it cannot be read: a slip of the suite.
    pub fn golden(&self) -> Result<Order, String> {
        serde_json::from_str(self.golden).map_err(|cause| format!("golden/{}.json: {cause}", self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scenario_of_the_folder_is_shipped_and_can_be_read() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().replace(".yaml", ""))
            .collect();
        files.sort();
        let names: Vec<&str> = SHIPPED.iter().map(|shipped| shipped.name).collect();
        assert_eq!(names, files, "list them in src/scenario/shipped.rs");
        for shipped in SHIPPED {
            shipped.scenario().unwrap();
            shipped.golden().unwrap();
        }
    }
}
