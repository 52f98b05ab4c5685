//! Side-by-side benchmarks. Nothing is here but the benchmarks themselves, in `benches/`:
//!
//! - `embedded`: the in-process engine beside what its database can do at all.
