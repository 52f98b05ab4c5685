//! Places within a document, from the root down.

use std::fmt;

use serde_json::Value;

/// One step down into a document.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Segment {
    /// A field of an object.
    Key(String),
    /// An element of a list, from 0.
    Index(usize),
}

/// The way from the root of a document to a value in it; reads `steps[3].dependsOn[0]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Path(Vec<Segment>);

impl Path {
    /// The document itself.
    #[must_use]
    pub fn root() -> Self {
        Self::default()
    }

    /// The field `name` of what stands here.
    #[must_use]
    pub fn key(mut self, name: impl Into<String>) -> Self {
        self.0.push(Segment::Key(name.into()));
        self
    }

    /// The element at `position` of the list that stands here.
    #[must_use]
    pub fn index(mut self, position: usize) -> Self {
        self.0.push(Segment::Index(position));
        self
    }

    /// Goes on with `rest`, which starts where this path ends.
    #[must_use]
    pub fn join(mut self, rest: &Self) -> Self {
        self.0.extend(rest.0.iter().cloned());
        self
    }

    /// The steps down, from the root.
    #[must_use]
    pub fn segments(&self) -> &[Segment] {
        &self.0
    }

    /// Reads a JSON pointer. `document` tells the key `0` of an object from the element 0 of a list.
    #[must_use]
    pub fn from_pointer(pointer: &str, document: &Value) -> Self {
        let mut path = Self::root();
        let mut here = Some(document);
        for part in pointer.split('/').skip(1) {
            let name = part.replace("~1", "/").replace("~0", "~");
            let position = name.parse::<usize>().ok();
            match (here, position) {
                (Some(Value::Array(items)), Some(position)) => {
                    here = items.get(position);
                    path.0.push(Segment::Index(position));
                }
                _ => {
                    here = here.and_then(|value| value.get(&name));
                    path.0.push(Segment::Key(name));
                }
            }
        }
        path
    }
}

impl fmt::Display for Path {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (depth, segment) in self.0.iter().enumerate() {
            match segment {
                Segment::Index(position) => write!(formatter, "[{position}]")?,
                Segment::Key(name) if !is_plain(name) => write!(formatter, "[{name:?}]")?,
                Segment::Key(name) if depth == 0 => formatter.write_str(name)?,
                Segment::Key(name) => write!(formatter, ".{name}")?,
            }
        }
        Ok(())
    }
}

/// Whether a key can stand in a path without quotes.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|letter| letter.is_alphanumeric() || "_-$".contains(letter))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_path_reads_like_the_code_that_would_reach_the_value() {
        let path = Path::root().key("steps").index(3).key("with").key("a b").key("c");
        assert_eq!(path.to_string(), r#"steps[3].with["a b"].c"#);
        assert_eq!(Path::root().to_string(), "");
    }

    #[test]
    fn a_pointer_into_an_object_with_numeric_keys_keeps_them_as_keys() {
        let document = json!({"0": [{"a/b": 1}]});
        let path = Path::from_pointer("/0/0/a~1b", &document);
        assert_eq!(path, Path::root().key("0").index(0).key("a/b"));
    }
}
