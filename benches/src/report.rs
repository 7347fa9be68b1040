//! What reports have in common.

use serde_json::{Value, json};

use crate::client::Slice;
use crate::median;

/// What several slices of time come to.
#[derive(Debug)]
pub struct Medians {
    /// Round trips per second.
    pub rate: f64,
    /// Half of the round trips take at most so many seconds, and 99 in 100.
    pub latency: Option<(f64, f64)>,
    /// The rates that the first is the median of.
    pub rates: Vec<f64>,
}

impl Medians {
    /// Of these slices.
    #[must_use]
    pub fn of(slices: &[Slice]) -> Self {
        let rates: Vec<f64> = slices.iter().map(|slice| slice.rate).collect();
        let (half, most): (Vec<f64>, Vec<f64>) =
            slices.iter().filter_map(|slice| slice.latency).unzip();
        Self {
            rate: median(rates.clone()),
            latency: (!half.is_empty()).then(|| (median(half), median(most))),
            rates,
        }
    }

    /// How many times the rate of another, which ran in turns with this: the median of what each two slices came to
    /// that were neighbours. The machine may be half as fast in the next second as in this, for both of them.
    #[must_use]
    pub fn ratio_to(&self, other: &Self) -> f64 {
        let both = self.rates.iter().zip(&other.rates);
        median(both.map(|(own, other)| own / other).collect())
    }
}

/// One figure with what it may be at most.
#[derive(Debug)]
pub struct Figure {
    /// What it is.
    pub name: String,
    /// How much.
    pub value: f64,
    /// Of what.
    pub unit: &'static str,
    /// How much it may be.
    pub most: Option<f64>,
}

impl Figure {
    /// A figure.
    #[must_use]
    pub fn new(name: &str, value: f64, unit: &'static str, most: Option<f64>) -> Self {
        Self {
            name: name.to_owned(),
            value,
            unit,
            most,
        }
    }

    /// The same for programs.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({"name": self.name, "value": self.value, "unit": self.unit, "at_most": self.most})
    }
}

/// A table of figures; counts what was missed.
#[must_use]
pub fn figures(title: &str, figures: &[Figure]) -> (String, usize) {
    let mut text = format!("\n{title:51} {:>10} {:>12}\n", "frith", "at most");
    let mut missed = 0;
    for Figure {
        name,
        value,
        unit,
        most,
    } in figures
    {
        let is_missed = most.is_some_and(|most| *value > most);
        missed += usize::from(is_missed);
        let most = most.map_or_else(|| "-".into(), |most| format!("{most:.0} {unit}"));
        let mark = if is_missed { " !" } else { "" };
        text += &format!(
            "{name:51} {:>10} {most:>12}{mark}\n",
            format!("{value:.1} {unit}")
        );
    }
    (text, missed)
}

/// A rate, without what is behind the point.
#[must_use]
pub fn whole(rate: Option<f64>) -> String {
    rate.map_or_else(|| "-".into(), |rate| format!("{rate:.0}"))
}

/// A ratio, with two digits behind the point.
#[must_use]
pub fn short(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "-".into(), |ratio| format!("{ratio:.2}"))
}
