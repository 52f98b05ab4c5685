//! Where every value and key of a document stands.

use std::collections::HashMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

use super::path::{Path, Segment};
use super::{Place, place_of};
use crate::plan::problem::{Problem, ProblemCode};

/// The places of a document. Values are not kept: those are read once, by [`super::PlanSource::value`].
#[derive(Debug)]
pub struct LocatedDocument {
    root: Node,
}

#[derive(Debug)]
struct Node {
    place: Place,
    content: Content,
}

#[derive(Debug)]
enum Content {
    Scalar,
    List(Vec<Node>),
    Object(HashMap<String, Field>, Vec<Repeated>),
}

/// A key that stood in the same object before.
#[derive(Debug)]
struct Repeated {
    name: String,
    place: Place,
}

#[derive(Debug)]
struct Field {
    key: Place,
    value: Node,
}

impl LocatedDocument {
    /// Where the value at `path` starts; for a path that leads nowhere, the last value on the way.
    #[must_use]
    pub fn value(&self, path: &Path) -> Place {
        self.walk(path).1
    }

    /// Where the key that ends `path` starts; where there is none, the same as [`Self::value`].
    #[must_use]
    pub fn key(&self, path: &Path) -> Place {
        let (key, value) = self.walk(path);
        key.unwrap_or(value)
    }

    /// Every key that stands in one object more than once.
    #[must_use]
    pub fn repeated_keys(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut open = vec![(Path::root(), &self.root)];
        while let Some((path, node)) = open.pop() {
            match &node.content {
                Content::Scalar => {}
                Content::List(items) => {
                    let items = items.iter().enumerate();
                    open.extend(items.map(|(position, item)| (path.clone().index(position), item)));
                }
                Content::Object(fields, repeated) => {
                    for Repeated { name, place } in repeated {
                        let mut problem = repeated_key(name).at(*place);
                        problem.path = path.clone().key(name.as_str()).to_string();
                        problems.push(problem);
                    }
                    open.extend(
                        fields.iter().map(|(name, field)| (path.clone().key(name.as_str()), &field.value)),
                    );
                }
            }
        }
        problems
    }

    fn walk(&self, path: &Path) -> (Option<Place>, Place) {
        let mut key = None;
        let mut node = &self.root;
        for segment in path.segments() {
            key = None;
            let next = match (segment, &node.content) {
                (Segment::Key(name), Content::Object(fields, _)) => fields.get(name).map(|field| {
                    key = Some(field.key);
                    &field.value
                }),
                (Segment::Index(position), Content::List(items)) => items.get(*position),
                _ => None,
            };
            match next {
                Some(next) => node = next,
                None => break,
            }
        }
        (key, node.place)
    }
}

impl<'de> Deserialize<'de> for LocatedDocument {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self { root: Node::from(Spanned::<Content>::deserialize(deserializer)?) })
    }
}

impl From<Spanned<Content>> for Node {
    fn from(spanned: Spanned<Content>) -> Self {
        Self { place: place_of(spanned.referenced), content: spanned.value }
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ContentVisitor)
    }
}

struct ContentVisitor;

impl<'de> Visitor<'de> for ContentVisitor {
    type Value = Content;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Content, E> {
        Ok(Content::Scalar)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Content, E> {
        Ok(Content::Scalar)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Content, E> {
        Ok(Content::Scalar)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Content, E> {
        Ok(Content::Scalar)
    }

    fn visit_str<E>(self, _: &str) -> Result<Content, E> {
        Ok(Content::Scalar)
    }

    fn visit_unit<E>(self) -> Result<Content, E> {
        Ok(Content::Scalar)
    }

    fn visit_none<E>(self) -> Result<Content, E> {
        Ok(Content::Scalar)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Content, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|_| Content::Scalar)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Content, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element::<Spanned<Content>>()? {
            list.push(item.into());
        }
        Ok(Content::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Content, A::Error> {
        let mut object = HashMap::new();
        let mut repeated = Vec::new();
        while let Some(key) = fields.next_key::<Spanned<String>>()? {
            let value = fields.next_value::<Spanned<Content>>()?.into();
            let place = place_of(key.referenced);
            if object.contains_key(&key.value) {
                repeated.push(Repeated { name: key.value.clone(), place });
            }
            object.insert(key.value, Field { key: place, value });
        }
        Ok(Content::Object(object, repeated))
    }
}

/// The problem of a key that stands twice.
pub(super) fn repeated_key(name: &str) -> Problem {
    Problem::new(
        ProblemCode::DuplicateKey,
        format!("the key {name:?} stands twice in this object"),
        "keep one of them",
    )
}

/// JSON text in a form that a YAML reader takes, with every character at its place: JSON allows tabs between
/// tokens and writes rare characters as two escapes, YAML does neither.
pub(super) fn as_yaml(json: &str) -> String {
    let mut bytes = json.as_bytes().to_vec();
    for start in 0..bytes.len() {
        if bytes[start] == b'\t' {
            bytes[start] = b' ';
        }
        let half_of_a_pair = matches!(
            bytes.get(start..start + 6),
            Some([b'\\', b'u', b'd' | b'D', b'8' | b'9' | b'a'..=b'f' | b'A'..=b'F', third, fourth])
                if third.is_ascii_hexdigit() && fourth.is_ascii_hexdigit()
        );
        if half_of_a_pair {
            bytes[start + 2..start + 6].copy_from_slice(b"0041");
        }
    }
    // Only whole ASCII characters were exchanged for others.
    String::from_utf8(bytes).unwrap_or_default()
}
