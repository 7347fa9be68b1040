//! `frith bench` on whatever machine this is.

use serde_json::Value;

use crate::frith;

#[test]
fn each_figure_has_its_limit() {
    let (status, out, error) = frith(&["bench", "--time", "1", "--json"], "");
    assert_eq!(status, 0, "{error}");
    let rows: Vec<Value> = serde_json::from_str(&out).unwrap();
    assert_eq!(rows.len(), 3);
    for row in &rows {
        for figure in ["microseconds", "limit_microseconds", "ratio"] {
            assert!(row[figure].as_f64().unwrap() > 0.0, "{row}");
        }
    }
    let (status, out, _) = frith(&["bench", "--time", "1"], "");
    assert_eq!(status, 0);
    assert!(out.contains("a command in the sandbox"), "{out}");
    assert_eq!(frith(&["bench", "--time", "0"], "").0, 2);
}
