//! Draws chains.

use std::fmt::Write as _;

use a2e_caps::chains::{Drawn, Sketch};

use crate::screen::plain;

/// Sizes in an image, in pixels.
const WIDTH: usize = 180;
const HEIGHT: usize = 48;
const ACROSS: usize = 90;
const BELOW: usize = 28;
const MARGIN: usize = 16;
/// Characters of a name that stand in a box.
const SHOWN: usize = 24;

/// Nodes in the order in which they can run, each with where it leads.
pub(super) fn text(sketch: &Sketch) -> String {
    let width = sketch
        .nodes
        .iter()
        .map(|node| plain(&node.id).chars().count());
    let width = width.max().unwrap_or_default();
    let mut lines = Vec::new();
    for (_, node) in in_layers(sketch) {
        let (id, what) = (plain(&node.id), plain(&node.what));
        lines.push(format!("{id:width$}  {what}"));
        for (number, arrow) in node.arrows.iter().enumerate() {
            let corner = match number + 1 == node.arrows.len() {
                true => '\u{2514}',
                false => '\u{251c}',
            };
            let when = match arrow.when {
                "" => String::new(),
                when => format!(" {when}"),
            };
            let to = sketch.nodes.get(arrow.to).map(|node| plain(&node.id));
            let to = to.unwrap_or_default();
            lines.push(format!("  {corner}\u{2500}{when} \u{2192} {to}"));
        }
    }
    lines.join("\n")
}

/// An image: a column for each layer, arrows from left to right.
pub(super) fn svg(sketch: &Sketch) -> String {
    let mut rows: Vec<usize> = Vec::new();
    let mut places = vec![(0, 0); sketch.nodes.len()];
    for (index, node) in in_layers(sketch) {
        if rows.len() <= node.layer {
            rows.resize(node.layer + 1, 0);
        }
        if let (Some(place), Some(row)) = (places.get_mut(index), rows.get_mut(node.layer)) {
            *place = (
                MARGIN + node.layer * (WIDTH + ACROSS),
                MARGIN + *row * (HEIGHT + BELOW),
            );
            *row += 1;
        }
    }
    let wide = 2 * MARGIN + rows.len() * (WIDTH + ACROSS) - ACROSS.min(rows.len() * ACROSS);
    let high = 2 * MARGIN + rows.iter().max().unwrap_or(&0) * (HEIGHT + BELOW);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {wide} {high}\" \
         width=\"{wide}\" height=\"{high}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <defs><marker id=\"a\" markerWidth=\"8\" markerHeight=\"8\" refX=\"7\" refY=\"4\" \
         orient=\"auto\"><path d=\"M0,0 L8,4 L0,8 z\" fill=\"#555\"/></marker></defs>\n"
    );
    for (node, from) in sketch.nodes.iter().zip(&places) {
        for arrow in &node.arrows {
            if let Some(to) = places.get(arrow.to) {
                line(&mut out, *from, *to, arrow.when);
            }
        }
    }
    for (node, (x, y)) in sketch.nodes.iter().zip(&places) {
        let (middle, upper, lower) = (x + WIDTH / 2, y + 20, y + 36);
        // To write into a text never fails.
        let _ = writeln!(
            out,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" rx=\"6\" \
             fill=\"#f6f6f4\" stroke=\"#555\"/>\n\
             <text x=\"{middle}\" y=\"{upper}\" text-anchor=\"middle\" font-weight=\"bold\">{}</text>\n\
             <text x=\"{middle}\" y=\"{lower}\" text-anchor=\"middle\" fill=\"#555\">{}</text>",
            escaped(&node.id),
            escaped(&node.what),
        );
    }
    out.push_str("</svg>");
    out
}

fn line(out: &mut String, from: (usize, usize), to: (usize, usize), when: &str) {
    let (x1, y1) = (from.0 + WIDTH, from.1 + HEIGHT / 2);
    let (x2, y2) = (to.0, to.1 + HEIGHT / 2);
    let (left, right) = (x1 + ACROSS / 2, x2.saturating_sub(ACROSS / 2));
    let _ = writeln!(
        out,
        "<path d=\"M{x1},{y1} C{left},{y1} {right},{y2} {x2},{y2}\" fill=\"none\" \
         stroke=\"#555\" marker-end=\"url(#a)\"/>"
    );
    if !when.is_empty() {
        let (x, y) = (x1 + 8, y1.saturating_sub(5));
        let _ = writeln!(
            out,
            "<text x=\"{x}\" y=\"{y}\" font-size=\"10\">{when}</text>"
        );
    }
}

/// The nodes, those first that can run first, with their places in the chain.
fn in_layers(sketch: &Sketch) -> Vec<(usize, &Drawn)> {
    let mut nodes: Vec<(usize, &Drawn)> = sketch.nodes.iter().enumerate().collect();
    nodes.sort_by_key(|(index, node)| (node.layer, *index));
    nodes
}

/// A name as an image has it, cut if it is long.
fn escaped(text: &str) -> String {
    let text = plain(text);
    let mut out = String::new();
    for c in text.chars().take(SHOWN) {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
    if text.chars().count() > SHOWN {
        out.push('\u{2026}');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::chain;

    fn sketch(text: &str) -> Sketch {
        Sketch::of(&chain(text).unwrap(), a2e_caps::chains::Limits::default()).unwrap()
    }

    const CHAIN: &str = r#"{"entry_node": "a", "nodes": [
        {"node_id": "a", "kind": "tool", "name": "read", "next_node": "b"},
        {"node_id": "b", "kind": "branch", "condition": "a", "true_node": "c<"},
        {"node_id": "c<", "kind": "skill", "name": "sum", "on_error": "d"},
        {"node_id": "d", "kind": "tool", "name": "tell"}]}"#;

    #[test]
    fn each_node_stands_after_what_leads_to_it() {
        let layers: Vec<usize> = sketch(CHAIN).nodes.iter().map(|it| it.layer).collect();
        assert_eq!(layers, [0, 1, 2, 3]);
        let graph = r#"{"nodes": [
            {"node_id": "z", "kind": "tool", "name": "t", "deps": ["x", "y"]},
            {"node_id": "x", "kind": "tool", "name": "t"},
            {"node_id": "y", "kind": "tool", "name": "t", "input_map": {"i": "$.x"}}]}"#;
        let layers: Vec<usize> = sketch(graph).nodes.iter().map(|it| it.layer).collect();
        assert_eq!(layers, [2, 0, 1]);
    }

    #[test]
    fn a_text_says_where_nodes_lead() {
        let expected = "a   tool read\n  \u{2514}\u{2500} \u{2192} b\n\
                        b   branch\n  \u{2514}\u{2500} if so \u{2192} c<\n\
                        c<  skill sum\n  \u{2514}\u{2500} on error \u{2192} d\n\
                        d   tool tell";
        assert_eq!(text(&sketch(CHAIN)), expected);
    }

    #[test]
    fn an_image_has_a_box_for_each_node_and_names_as_they_must_be_written() {
        let image = svg(&sketch(CHAIN));
        assert_eq!(image.matches("<rect").count(), 4);
        assert_eq!(image.matches("marker-end").count(), 3);
        assert!(image.contains(">c&lt;</text>"), "{image}");
        assert!(image.ends_with("</svg>"));
    }
}
