//! Pictures: pixels, and their PNG.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::png;

/// A colour: red, green, blue.
pub type Colour = [u8; 3];

/// A picture of pixels, row by row from the top.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    width: usize,
    height: usize,
    pixels: Vec<Colour>,
}

impl Picture {
    /// A picture in one colour.
    #[must_use]
    pub fn new(width: usize, height: usize, colour: Colour) -> Self {
        Self {
            width,
            height,
            pixels: vec![colour; width.saturating_mul(height)],
        }
    }

    /// Its width in pixels.
    #[must_use]
    pub const fn width(&self) -> usize {
        self.width
    }

    /// Its height in pixels.
    #[must_use]
    pub const fn height(&self) -> usize {
        self.height
    }

    /// Fills a rectangle; what lies outside is left out.
    pub fn rectangle(&mut self, left: f64, top: f64, right: f64, bottom: f64, colour: Colour) {
        self.fill([left, top, right, bottom], colour, |_, _| true);
    }

    /// Draws a straight line of that thickness with round ends.
    pub fn line(&mut self, from: (f64, f64), to: (f64, f64), thickness: f64, colour: Colour) {
        let half = thickness / 2.0;
        let bounds = [
            from.0.min(to.0) - half,
            from.1.min(to.1) - half,
            from.0.max(to.0) + half,
            from.1.max(to.1) + half,
        ];
        let (dx, dy) = (to.0 - from.0, to.1 - from.1);
        let length = dx.mul_add(dx, dy * dy).max(f64::MIN_POSITIVE);
        self.fill(bounds, colour, |x, y| {
            let along = (x - from.0).mul_add(dx, (y - from.1) * dy) / length;
            let along = along.clamp(0.0, 1.0);
            let (px, py) = (along.mul_add(dx, from.0), along.mul_add(dy, from.1));
            (x - px).hypot(y - py) <= half
        });
    }

    /// Its bytes: red, green, blue of each pixel.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.pixels.as_flattened()
    }

    /// It as a PNG in base64.
    #[must_use]
    pub fn png_base64(&self) -> String {
        STANDARD.encode(png::encode(self))
    }

    /// It as Gymnasium has it, `shape` and `dtype` of an array, with its bytes in base64: as JSON
    /// numbers a small picture would be megabytes.
    #[must_use]
    pub fn array(&self) -> serde_json::Value {
        serde_json::json!({
            "shape": [self.height, self.width, 3],
            "dtype": "uint8",
            "data": STANDARD.encode(self.bytes()),
        })
    }

    /// Colours the pixels within bounds (left, top, right, bottom) whose middle is inside.
    fn fill(&mut self, bounds: [f64; 4], colour: Colour, inside: impl Fn(f64, f64) -> bool) {
        let [left, top, right, bottom] = bounds;
        let (columns, rows) = (
            cells(left, right, self.width),
            cells(top, bottom, self.height),
        );
        for row in rows {
            let start = row.saturating_mul(self.width);
            let line = self.pixels.get_mut(start..).unwrap_or_default();
            for column in columns.clone() {
                if let Some(pixel) = line.get_mut(column)
                    && inside(middle(column), middle(row))
                {
                    *pixel = colour;
                }
            }
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "pictures are small")]
fn middle(index: usize) -> f64 {
    index as f64 + 0.5
}

/// The pixels whose middle is between two places.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to the picture first"
)]
fn cells(from: f64, to: f64, end: usize) -> std::ops::Range<usize> {
    let clamped = |place: f64| (place - 0.5).ceil().clamp(0.0, end as f64) as usize;
    clamped(from)..clamped(to)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHITE: Colour = [255; 3];
    const RED: Colour = [255, 0, 0];

    fn shown(picture: &Picture) -> Vec<String> {
        let rows = picture.pixels.chunks(picture.width);
        let letter = |pixel: &Colour| if *pixel == RED { '#' } else { '.' };
        rows.map(|row| row.iter().map(letter).collect()).collect()
    }

    #[test]
    fn rectangles_and_lines_stay_in_the_picture() {
        let mut picture = Picture::new(5, 3, WHITE);
        picture.rectangle(1.0, 1.0, 3.0, 9.0, RED);
        assert_eq!(shown(&picture), [".....", ".##..", ".##.."]);
        picture.line((3.5, -10.0), (3.5, 10.0), 1.0, RED);
        assert_eq!(shown(&picture), ["...#.", ".###.", ".###."]);
        picture.rectangle(f64::NEG_INFINITY, f64::NAN, f64::INFINITY, 1.0, RED);
        assert_eq!(shown(&picture)[1], ".###.");
    }

    #[test]
    fn an_array_says_its_shape() {
        let array = Picture::new(2, 1, [1, 2, 3]).array();
        assert_eq!(array["shape"], serde_json::json!([1, 2, 3]));
        assert_eq!(array["data"], "AQIDAQID");
    }
}
