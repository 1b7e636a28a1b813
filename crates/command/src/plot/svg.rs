//! A picture as SVG text: shapes, legends, and texts with a known width.

use std::fmt::Write;

use super::scale::Scale;
use crate::html::escaped;

/// The colour of text and of important lines.
pub const INK: &str = "#202124";
/// The colour of explanations and of axis labels.
pub const FAINT: &str = "#5f6368";
/// The colour of lines behind the data.
pub const GRID: &str = "#e4e6e9";
/// Colours that colour-blind readers can distinguish, alternately dark and light (Okabe and Ito's).
pub const PALETTE: [&str; 8] = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#999999"];
/// The directions in a layer's order: their names, their names in legends, and their colours.
pub const DIRECTIONS: [(&str, &str, &str); 3] = [
    ("F", "forward (F)", PALETTE[0]),
    ("BD", "backward data (BD)", PALETTE[1]),
    ("BF", "backward filter (BF)", PALETTE[2]),
];

/// The font size of most texts, in pixels.
pub const SIZE: f64 = 12.0;

/// The part of a text that is at its place.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

/// The looks of a text.
#[derive(Clone, Copy)]
pub struct Style {
    pub size: f64,
    pub colour: &'static str,
    pub anchor: Anchor,
    pub bold: bool,
}

impl Style {
    pub const PLAIN: Self = Self { size: SIZE, colour: INK, anchor: Anchor::Start, bold: false };
    pub const SMALL: Self = Self { size: 11.0, colour: FAINT, ..Self::PLAIN };
    pub const TITLE: Self = Self { size: 16.0, bold: true, ..Self::PLAIN };

    pub const fn at(self, anchor: Anchor) -> Self {
        Self { anchor, ..self }
    }

    pub const fn colour(self, colour: &'static str) -> Self {
        Self { colour, ..self }
    }
}

/// The elements drawn so far.
#[derive(Default)]
pub struct Picture {
    body: String,
}

impl Picture {
    pub fn text(&mut self, x: f64, y: f64, words: &str, style: Style) {
        let Style { size, colour, anchor, bold } = style;
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let weight = if bold { " font-weight=\"bold\"" } else { "" };
        self.add(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" fill=\"{colour}\"{anchor}{weight}>{}</text>",
            escaped(words)
        ));
    }

    /// A filled rectangle with its corner at x and y; `says` is its tooltip.
    pub fn bar(&mut self, [x, y, width, height]: [f64; 4], colour: &str, says: &str) {
        let says = if says.is_empty() { String::new() } else { format!("<title>{}</title>", escaped(says)) };
        self.add(format_args!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.2}\" height=\"{height:.1}\" fill=\"{colour}\">{says}</rect>"
        ));
    }

    pub fn line(&mut self, [x1, y1, x2, y2]: [f64; 4], colour: &str, width: f64) {
        self.add(format_args!(
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{colour}\" \
             stroke-width=\"{width}\"/>"
        ));
    }

    /// A line through points; `dash` is SVG's stroke-dasharray, or empty.
    pub fn path(&mut self, points: &[(f64, f64)], colour: &str, width: f64, dash: &str) {
        let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let dash = if dash.is_empty() { String::new() } else { format!(" stroke-dasharray=\"{dash}\"") };
        self.add(format_args!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\" \
             stroke-linejoin=\"round\"{dash}/>",
            points.join(" ")
        ));
    }

    pub fn dot(&mut self, x: f64, y: f64, radius: f64, colour: &str, says: &str) {
        self.add(format_args!(
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\" fill=\"{colour}\" stroke=\"white\">\
             <title>{}</title></circle>",
            escaped(says)
        ));
    }

    /// Squares of colour with their labels, from the left, in as many rows as necessary. Returns the height.
    pub fn legend(&mut self, x: f64, y: f64, width: f64, entries: &[(&str, String)]) -> f64 {
        const ROW: f64 = 20.0;
        let (mut at, mut row) = (x, y);
        for (colour, words) in entries {
            let needs = 18.0 + text_width(words, SIZE) + 22.0;
            if at > x && at + needs > x + width {
                (at, row) = (x, row + ROW);
            }
            self.bar([at, row, 12.0, 12.0], colour, "");
            self.text(at + 18.0, row + 10.5, words, Style::PLAIN);
            at += needs;
        }
        row + ROW - y
    }

    /// The title and the lines that explain the picture. Returns their lower edge.
    pub fn heading(&mut self, title: &str, lines: &[String]) -> f64 {
        self.text(16.0, 28.0, title, Style::TITLE);
        for (number, line) in lines.iter().enumerate() {
            self.text(16.0, 49.0 + 17.0 * number as f64, line, Style::PLAIN.colour(FAINT));
        }
        40.0 + 17.0 * lines.len() as f64
    }

    /// The axes of a plot, each with about so many lines: y's from left to right, x's below, with the name of x.
    pub fn axes(
        &mut self,
        [left, right, bottom]: [f64; 3],
        (x, columns): (&Scale, usize),
        (y, rows): (&Scale, usize),
        name: &str,
    ) {
        for (value, words) in y.ticks(rows) {
            self.line([left, y.at(value), right, y.at(value)], GRID, 1.0);
            self.text(left - 8.0, y.at(value) + 4.0, &words, Style::SMALL.at(Anchor::End));
        }
        for (value, words) in x.ticks(columns) {
            self.line([x.at(value), bottom, x.at(value), bottom + 5.0], FAINT, 1.0);
            self.text(x.at(value), bottom + 19.0, &words, Style::SMALL.at(Anchor::Middle));
        }
        self.line([left, bottom, right, bottom], FAINT, 1.0);
        self.text((left + right) / 2.0, bottom + 40.0, name, Style::PLAIN.at(Anchor::Middle));
    }

    /// The whole file.
    pub fn finish(self, width: f64, height: f64, title: &str) -> String {
        let (width, height) = (width.ceil(), height.ceil());
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" font-family=\"'DejaVu Sans', Verdana, Helvetica, Arial, sans-serif\">\n\
             <title>{}</title>\n<rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>\n{}</svg>\n",
            escaped(title),
            self.body
        )
    }

    fn add(&mut self, element: std::fmt::Arguments) {
        // Writing to a string does not fail.
        let _ = writeln!(self.body, "{element}");
    }
}

/// The width of a heading.
pub fn heading_width(title: &str, lines: &[String]) -> f64 {
    // Bold is about a tenth wider.
    let title = text_width(title, Style::TITLE.size) * 1.12;
    32.0 + lines.iter().map(|line| text_width(line, SIZE)).fold(title, f64::max)
}

/// A text's width in pixels in DejaVu Sans, the widest font of the picture's list.
pub fn text_width(words: &str, size: f64) -> f64 {
    /// The characters' advances from the space on, in thousandths of the font's size.
    const ADVANCES: [u16; 95] = [
        318, 401, 460, 838, 636, 950, 780, 275, 390, 390, 500, 838, 318, 361, 318, 337, 636, 636, 636, 636, 636, 636,
        636, 636, 636, 636, 337, 337, 838, 838, 838, 531, 1000, 684, 686, 698, 770, 632, 575, 775, 752, 295, 295, 656,
        557, 863, 748, 787, 603, 787, 695, 635, 611, 732, 684, 989, 685, 611, 685, 390, 337, 390, 838, 500, 500, 613,
        635, 550, 635, 615, 352, 635, 634, 278, 278, 579, 278, 974, 634, 612, 635, 635, 411, 521, 392, 634, 592, 818,
        592, 592, 525, 636, 337, 636, 838,
    ];
    let advance = |c: char| (c as usize).checked_sub(32).and_then(|index| ADVANCES.get(index)).copied().unwrap_or(1000);
    words.chars().map(advance).map(f64::from).sum::<f64>() * size / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_measured() {
        assert!((text_width("00", 10.0) - 12.72).abs() < 1e-9);
    }
}
