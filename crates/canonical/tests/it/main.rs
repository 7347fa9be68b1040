//! Canonical JSON against the profile's vectors and against two independent implementations.

mod oracles;
mod vectors;
