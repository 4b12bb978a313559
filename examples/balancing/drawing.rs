//! Bars of times on a logarithmic scale, as an SVG.

use std::fmt::Write;

const COLOURS: [&str; 4] = ["#888888", "#2a78b5", "#d98c21", "#4b9b4b"];
const LEFT: f64 = 110.0;
const WIDTH: f64 = 520.0;
const BAR: f64 = 13.0;
const TOP: f64 = 40.0;

/// The scale goes from 10 us to 1 s.
fn length(nanos: u64) -> f64 {
    (nanos.max(1) as f64 / 1e4).log10().clamp(0.0, 5.0) / 5.0 * WIDTH
}

/// A group of bars for each row, one bar for each name.
pub(super) fn bars<const N: usize>(names: &[&str; N], rows: &[(&str, [u64; N])]) -> String {
    let group = BAR * N as f64 + 12.0;
    let bottom = TOP + group * rows.len() as f64;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        LEFT + WIDTH + 80.0,
        bottom + 40.0
    );
    let mut put = |line: std::fmt::Arguments<'_>| {
        // Writing into a string does not fail.
        let _ = writeln!(svg, "{line}");
    };
    for (at, name) in names.iter().enumerate() {
        let x = LEFT + 110.0 * at as f64;
        put(format_args!(
            "<rect x=\"{x}\" y=\"12\" width=\"10\" height=\"10\" fill=\"{}\"/><text x=\"{}\" y=\"21\">{name}</text>",
            COLOURS[at % COLOURS.len()],
            x + 15.0
        ));
    }
    for (power, label) in ["10 us", "100 us", "1 ms", "10 ms", "100 ms", "1 s"]
        .iter()
        .enumerate()
    {
        let x = LEFT + WIDTH * power as f64 / 5.0;
        put(format_args!(
            "<line x1=\"{x}\" y1=\"{TOP}\" x2=\"{x}\" y2=\"{bottom}\" stroke=\"#dddddd\"/>\
             <text x=\"{x}\" y=\"{}\" text-anchor=\"middle\">{label}</text>",
            bottom + 16.0
        ));
    }
    for (at, (row, times)) in rows.iter().enumerate() {
        let y = TOP + group * at as f64 + 6.0;
        put(format_args!(
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{row}</text>",
            LEFT - 8.0,
            y + group / 2.0 - 2.0
        ));
        for (bar, nanos) in times.iter().enumerate() {
            put(format_args!(
                "<rect x=\"{LEFT}\" y=\"{}\" width=\"{:.1}\" height=\"{}\" fill=\"{}\"/>",
                y + BAR * bar as f64,
                length(*nanos),
                BAR - 2.0,
                COLOURS[bar % COLOURS.len()]
            ));
        }
    }
    svg.push_str("</svg>\n");
    svg
}
