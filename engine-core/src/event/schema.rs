//! The JSON Schema (2020-12) of each event type, and validation before append.
