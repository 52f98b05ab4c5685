//! Reading into a plain value, counting what it costs.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::{DEEPEST_NESTING, MOST_NODES, MOST_VALUE_BYTES, TOO_DEEP, TOO_LARGE};

/// What one document may still use. Aliases repeat text that stands once, so the size of the text alone
/// bounds nothing.
#[derive(Debug)]
pub(super) struct Allowance {
    bytes: Cell<usize>,
    nodes: Cell<usize>,
}

impl Default for Allowance {
    fn default() -> Self {
        Self { bytes: Cell::new(MOST_VALUE_BYTES), nodes: Cell::new(MOST_NODES) }
    }
}

impl Allowance {
    fn take<E: Error>(&self, bytes: usize) -> Result<(), E> {
        match (self.bytes.get().checked_sub(bytes), self.nodes.get().checked_sub(1)) {
            (Some(bytes), Some(nodes)) => {
                self.bytes.set(bytes);
                self.nodes.set(nodes);
                Ok(())
            }
            _ => Err(E::custom(TOO_LARGE)),
        }
    }
}

/// Reads one value at a known depth.
#[derive(Clone, Copy)]
pub(super) struct PlainValue<'a> {
    allowance: &'a Allowance,
    depth: usize,
    refuse_repeated_keys: bool,
}

impl<'a> PlainValue<'a> {
    pub(super) fn root(allowance: &'a Allowance) -> Self {
        Self { allowance, depth: 0, refuse_repeated_keys: false }
    }

    /// Refuses repeated keys, for a reader that does not do so itself.
    pub(super) fn refusing_repeated_keys(self) -> Self {
        Self { refuse_repeated_keys: true, ..self }
    }

    fn below<E: Error>(self) -> Result<Self, E> {
        if self.depth < DEEPEST_NESTING {
            Ok(Self { depth: self.depth + 1, ..self })
        } else {
            Err(E::custom(TOO_DEEP))
        }
    }
}

impl<'de> DeserializeSeed<'de> for PlainValue<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for PlainValue<'_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value that JSON can hold")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        self.allowance.take(0)?;
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        self.allowance.take(0)?;
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        self.allowance.take(0)?;
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        self.allowance.take(0)?;
        Number::from_f64(value)
            .map(Value::Number)
            .ok_or_else(|| E::custom("infinity and not-a-number are no values here"))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        self.allowance.take(value.len())?;
        Ok(value.into())
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        self.allowance.take(value.len())?;
        Ok(value.into())
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        self.allowance.take(0)?;
        Ok(Value::Null)
    }

    fn visit_none<E: Error>(self) -> Result<Value, E> {
        self.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        self.allowance.take(0)?;
        let below = self.below()?;
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(below)? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        self.allowance.take(0)?;
        let below = self.below()?;
        let mut object = Map::new();
        while let Some(name) = fields.next_key::<String>()? {
            self.allowance.take(name.len())?;
            let value = fields.next_value_seed(below)?;
            if object.insert(name, value).is_some() && self.refuse_repeated_keys {
                return Err(A::Error::custom("a key stands twice in one object"));
            }
        }
        Ok(Value::Object(object))
    }
}
