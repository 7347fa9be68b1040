//! `cargo xtask bench bridge`: a call through both protocols beside the sum of its parts.

use super::of_trained;
use crate::step::show;

pub(crate) fn run() -> Result<(), String> {
    show(&mut of_trained("bridge", &[])?)
}
