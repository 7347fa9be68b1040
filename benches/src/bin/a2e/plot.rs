//! The plot: a row for each transport and number in flight, a dot for each server, on a log scale.

use benches::turns::IN_FLIGHT;

use crate::contest::{Side, Transport};
use crate::report::Outcome;

const LEFT: f64 = 150.0;
const TOP: f64 = 86.0;
const ROW: f64 = 22.0;
/// Between transports.
const GAP: f64 = 12.0;
const PANEL: f64 = 470.0;
const BETWEEN: f64 = 40.0;
const BOTTOM: f64 = 46.0;

/// From 100 to a million round trips per second.
const DECADES: (f64, f64) = (2.0, 6.0);

pub(crate) fn svg(outcomes: &[Outcome]) -> String {
    let rows = (Transport::ALL.len() * IN_FLIGHT.len()) as f64;
    let height = TOP + rows * ROW + Transport::ALL.len() as f64 * GAP + BOTTOM;
    let width = LEFT + outcomes.len().max(1) as f64 * (PANEL + BETWEEN);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\" font-size=\"12\" fill=\"#222\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text x=\"16\" y=\"26\" font-size=\"16\" font-weight=\"bold\">Echo tool, round trips per second (median, log scale)</text>\n"
    );
    legend(&mut out);
    row_labels(&mut out);
    for (index, outcome) in outcomes.iter().enumerate() {
        let left = LEFT + index as f64 * (PANEL + BETWEEN);
        panel(&mut out, outcome, left, height - BOTTOM);
    }
    out + "</svg>\n"
}

fn legend(out: &mut String) {
    for (index, side) in Side::ALL.into_iter().enumerate() {
        let x = 24.0 + index as f64 * 140.0;
        mark(out, side, x, 46.0, side.name());
        text(out, x + 12.0, 50.0, "start", side.name());
    }
}

fn row_labels(out: &mut String) {
    for transport in Transport::ALL {
        text(out, 16.0, y(transport, 0) + 4.0, "start", transport.name());
        for (index, in_flight) in IN_FLIGHT.into_iter().enumerate() {
            let y = y(transport, index) + 4.0;
            text(out, LEFT - 8.0, y, "end", &in_flight.to_string());
        }
    }
    text(out, LEFT - 8.0, TOP - 14.0, "end", "in flight");
}

fn panel(out: &mut String, outcome: &Outcome, left: f64, bottom: f64) {
    let title = outcome.pinning.name();
    text(out, left + PANEL / 2.0, TOP - 14.0, "middle", title);
    for (exponent, label) in [
        (2.0, "100"),
        (3.0, "1k"),
        (4.0, "10k"),
        (5.0, "100k"),
        (6.0, "1M"),
    ] {
        let x = x(left, 10_f64.powf(exponent));
        line(out, (x, TOP - 6.0), (x, bottom), "#ddd");
        text(out, x, bottom + 18.0, "middle", label);
    }
    for transport in Transport::ALL {
        for (index, in_flight) in IN_FLIGHT.into_iter().enumerate() {
            let y = y(transport, index);
            line(out, (left, y), (left + PANEL, y), "#eee");
            for side in Side::ALL {
                if let Some(cell) = outcome.cell(transport, side, in_flight) {
                    let (name, rate) = (side.name(), cell.medians.rate);
                    mark(out, side, x(left, rate), y, &format!("{name}: {rate:.0}"));
                }
            }
        }
    }
}

/// Each server has a colour and a shape.
fn mark(out: &mut String, side: Side, x: f64, y: f64, title: &str) {
    let shape = match side {
        Side::Limit => format!(
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"3\" height=\"14\" fill=\"#444\">",
            x - 1.5,
            y - 7.0
        ),
        Side::Ours => format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"5.5\" fill=\"#0072b2\">"),
        Side::RustMcp => {
            let points = format!(
                "{:.1},{:.1} {:.1},{:.1} {:.1},{:.1}",
                x - 5.5,
                y + 5.0,
                x + 5.5,
                y + 5.0,
                x,
                y - 5.5
            );
            format!("<polygon points=\"{points}\" fill=\"#d55e00\">")
        }
        Side::PythonMcp => format!(
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"9\" height=\"9\" fill=\"#009e73\">",
            x - 4.5,
            y - 4.5
        ),
    };
    let name = match side {
        Side::Limit | Side::PythonMcp => "rect",
        Side::Ours => "circle",
        Side::RustMcp => "polygon",
    };
    *out += &format!("{shape}<title>{title}</title></{name}>\n");
}

fn x(left: f64, rate: f64) -> f64 {
    let (first, last) = DECADES;
    let share = (rate.max(1.0).log10() - first) / (last - first);
    left + share.clamp(0.0, 1.0) * PANEL
}

fn y(transport: Transport, index: usize) -> f64 {
    let above = Transport::ALL
        .into_iter()
        .take_while(|other| *other != transport)
        .count();
    TOP + above as f64 * (IN_FLIGHT.len() as f64 * ROW + GAP) + index as f64 * ROW + ROW / 2.0
}

fn line(out: &mut String, from: (f64, f64), to: (f64, f64), colour: &str) {
    let ((x1, y1), (x2, y2)) = (from, to);
    *out += &format!(
        "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{colour}\"/>\n"
    );
}

fn text(out: &mut String, x: f64, y: f64, anchor: &str, text: &str) {
    *out += &format!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>\n");
}
