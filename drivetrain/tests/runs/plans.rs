//! Plans that more than one topic runs.

/// A step that takes long enough to be met, and one after it.
pub(crate) const SLOW: &str = r#"
id: slow
version: "1"
steps:
  - {id: first, handler: sleep, with: {ms: 800}}
  - {id: second, handler: sleep, with: {ms: 20}}
"#;

/// A step that ends only when somebody ends it.
pub(crate) const FOREVER: &str = r#"
id: forever
version: "1"
steps:
  - {id: wait, handler: sleep, with: {ms: 200000}}
"#;
