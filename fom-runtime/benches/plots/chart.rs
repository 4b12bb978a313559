//! A line chart as SVG. Text, lines and series have colours that are readable on white and on black, because the
//! picture does not know the background of the book. The series also have different marks, for readers without colour
//! vision.

use std::fmt::Write as _;

use crate::axis::{Axis, Scale, label};

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 84.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 72.0;
const BOTTOM: f64 = 60.0;

const COLOURS: [&str; 4] = ["#1f9e89", "#e1743c", "#8f78d1", "#b58a00"];

/// The content of a chart.
#[derive(Debug)]
pub(crate) struct Chart<'a> {
    pub(crate) title: String,
    pub(crate) x: (&'a str, Scale),
    pub(crate) y: (&'a str, Scale),
    pub(crate) series: Vec<Series<'a>>,
}

/// One line of the chart.
#[derive(Debug)]
pub(crate) struct Series<'a> {
    pub(crate) name: &'a str,
    pub(crate) points: Vec<Point>,
}

/// A median, and the range of its values.
#[derive(Debug)]
pub(crate) struct Point {
    pub(crate) x: f64,
    pub(crate) low: f64,
    pub(crate) y: f64,
    pub(crate) high: f64,
}

impl Chart<'_> {
    /// Returns the whole file.
    pub(crate) fn svg(&self) -> String {
        let points = || self.series.iter().flat_map(|series| &series.points);
        let xs: Vec<f64> = points().map(|point| point.x).collect();
        let ys: Vec<f64> = points().flat_map(|point| [point.low, point.high]).collect();
        let x = Axis::new(self.x.1, &xs, false, LEFT, WIDTH - RIGHT);
        let y = Axis::new(self.y.1, &ys, true, HEIGHT - BOTTOM, TOP);
        let title = escaped(&self.title);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
             aria-label=\"{title}\" font-family=\"system-ui, sans-serif\" font-size=\"13\" fill=\"#808080\">\n\
             <text x=\"{LEFT}\" y=\"22\" font-size=\"15\" font-weight=\"600\">{title}</text>\n"
        );
        self.axes(&mut svg, &x, &y, &xs);
        let mut legend = LEFT;
        for (n, series) in self.series.iter().enumerate() {
            series.draw(&mut svg, n, &x, &y);
            let colour = COLOURS[n % COLOURS.len()];
            mark(&mut svg, n, legend + 6.0, 46.0);
            let _ = writeln!(
                svg,
                "<text x=\"{}\" y=\"50.5\" fill=\"{colour}\">{}</text>",
                legend + 18.0,
                escaped(series.name)
            );
            legend += 44.0 + 7.2 * series.name.len() as f64;
        }
        svg.push_str("</svg>\n");
        svg
    }

    fn axes(&self, svg: &mut String, x: &Axis, y: &Axis, xs: &[f64]) {
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        for tick in y.ticks() {
            let at = y.at(tick);
            let _ = writeln!(
                svg,
                "<path d=\"M{LEFT} {at:.1}H{right}\" stroke=\"#808080\" stroke-opacity=\"0.25\"/>\
                 <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 8.0,
                at + 4.5,
                label(tick)
            );
        }
        // If there are few values, each is written as it is: there are no 1.5 localities.
        let mut own = xs.to_vec();
        own.sort_by(f64::total_cmp);
        own.dedup();
        let ticks = if own.len() <= 8 { own } else { x.ticks() };
        for tick in ticks {
            let at = x.at(tick);
            let _ = writeln!(
                svg,
                "<path d=\"M{at:.1} {bottom}v5\" stroke=\"#808080\"/>\
                 <text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                bottom + 20.0,
                label(tick)
            );
        }
        let middle = f64::midpoint(TOP, bottom);
        let _ = writeln!(
            svg,
            "<path d=\"M{LEFT} {bottom}H{right}\" stroke=\"#808080\"/>\n\
             <text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n\
             <text transform=\"translate(20 {middle}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            f64::midpoint(LEFT, right),
            HEIGHT - 14.0,
            escaped(self.x.0),
            escaped(self.y.0)
        );
    }
}

impl Series<'_> {
    fn draw(&self, svg: &mut String, n: usize, x: &Axis, y: &Axis) {
        let colour = COLOURS[n % COLOURS.len()];
        let mut line = String::new();
        for point in &self.points {
            let (at, low, high) = (x.at(point.x), y.at(point.low), y.at(point.high));
            // From the worst round to the best: how reliable the median is.
            let _ = write!(
                svg,
                "<path d=\"M{at:.1} {low:.1}V{high:.1}\" stroke=\"{colour}\" stroke-opacity=\"0.5\" \
                 stroke-width=\"3\"/>"
            );
            let command = if line.is_empty() { 'M' } else { 'L' };
            let _ = write!(line, "{command}{at:.1} {:.1}", y.at(point.y));
        }
        let _ = writeln!(
            svg,
            "<path d=\"{line}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>"
        );
        for point in &self.points {
            mark(svg, n, x.at(point.x), y.at(point.y));
        }
    }
}

/// Draws the mark of the `n`th series.
fn mark(svg: &mut String, n: usize, x: f64, y: f64) {
    let colour = COLOURS[n % COLOURS.len()];
    let _ = match n % 4 {
        0 => writeln!(
            svg,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"{colour}\"/>"
        ),
        1 => writeln!(
            svg,
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"7\" height=\"7\" fill=\"{colour}\"/>",
            x - 3.5,
            y - 3.5
        ),
        2 => writeln!(
            svg,
            "<path d=\"M{x:.1} {:.1}l4.5 8h-9z\" fill=\"{colour}\"/>",
            y - 5.0
        ),
        _ => writeln!(
            svg,
            "<path d=\"M{x:.1} {:.1}l5 5l-5 5l-5 -5z\" fill=\"{colour}\"/>",
            y - 5.0
        ),
    };
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('"', "&quot;")
}
