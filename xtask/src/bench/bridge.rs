//! `cargo xtask bench bridge`: a call through both protocols beside the sum of its parts.

use super::of_whole;
use crate::step::show;

pub(crate) fn run() -> Result<(), String> {
    show(&mut of_whole("bridge", &[])?)
}
