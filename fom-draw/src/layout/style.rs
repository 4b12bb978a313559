//! The colours of a drawing, and the style sheet in it.

use std::fmt::Write as _;

/// The colours of a drawing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Scheme {
    /// The scheme of the reader: `prefers-color-scheme`. A page that contains the drawing can set each colour, with the
    /// variables `--fom-back`, `--fom-rim`, `--fom-box`, `--fom-line`, `--fom-ink`, `--fom-soft`, `--fom-edge`,
    /// `--fom-failure`, `--fom-group` and `--fom-start`.
    #[default]
    Reader,
    /// Dark on light, without variables. Converters to other formats need this or [`Dark`](Self::Dark).
    Light,
    /// Light on dark, without variables.
    Dark,
}

/// A colour by its role: its variable, and its values on light and on dark.
type Colour = (&'static str, &'static str, &'static str);

const BACK: Colour = ("back", "#fdfdfe", "#11161d");
const RIM: Colour = ("rim", "#dfe5ec", "#232c38");
const BOX: Colour = ("box", "#f1f5f9", "#1b232e");
const LINE: Colour = ("line", "#93a3b5", "#46566a");
const INK: Colour = ("ink", "#131c27", "#edf1f6");
const SOFT: Colour = ("soft", "#526173", "#9fadbd");
const EDGE: Colour = ("edge", "#61738a", "#7f93ab");
const FAILURE: Colour = ("failure", "#b4232f", "#f57f86");
const GROUP: Colour = ("group", "#e7eef7", "#161e29");
const START: Colour = ("start", "#0b6fb8", "#5cc2f7");

const COLOURS: [Colour; 10] = [BACK, RIM, BOX, LINE, INK, SOFT, EDGE, FAILURE, GROUP, START];

/// A rule: its selector below the drawing, what it colours, and the rest.
type Rule = (
    &'static str,
    &'static [(&'static str, Colour)],
    &'static str,
);

const RULES: &[Rule] = &[
    (
        "text",
        &[("fill", INK)],
        "font-family:system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif",
    ),
    (".fom-back", &[("fill", BACK), ("stroke", RIM)], ""),
    (
        ".fom-group rect",
        &[("fill", GROUP), ("stroke", LINE)],
        "stroke-width:.8",
    ),
    (
        ".fom-group text",
        &[("fill", SOFT)],
        "font-size:11px;font-weight:600;letter-spacing:.04em",
    ),
    (
        ".fom-node rect",
        &[("fill", BOX), ("stroke", LINE)],
        "stroke-width:1.2",
    ),
    (".fom-label", &[], "font-size:13.5px;font-weight:600"),
    (
        ".fom-line,.fom-mode,.fom-on-edge",
        &[("fill", SOFT)],
        "font-size:11px",
    ),
    (
        ".fom-mode",
        &[],
        "font-size:10px;text-anchor:end;font-style:italic",
    ),
    (
        ".fom-on-edge",
        &[("stroke", BACK)],
        "text-anchor:middle;stroke-width:5;stroke-linejoin:round;paint-order:stroke",
    ),
    (
        ".fom-edge",
        &[("stroke", EDGE)],
        "fill:none;stroke-width:1.5",
    ),
    (".fom-arrow", &[("fill", EDGE)], ""),
    (
        ".fom-late",
        &[("fill", BACK), ("stroke", EDGE)],
        "stroke-width:1.3",
    ),
    (".fom-start", &[("fill", START)], ""),
    (
        ".fom-begin",
        &[("stroke", START)],
        "fill:none;stroke-width:1.5",
    ),
    (".fom-end .fom-inner", &[], "stroke-width:.9"),
    (
        ".fom-bad rect,.fom-cross,.fom-failed,.fom-open",
        &[("stroke", FAILURE)],
        "",
    ),
    (
        ".fom-bad .fom-outer,.fom-failed",
        &[],
        "stroke-dasharray:5 3",
    ),
    (
        ".fom-cross",
        &[],
        "stroke-width:1.6;fill:none;stroke-linecap:round",
    ),
    (".fom-open", &[], "fill:none;stroke-width:1.5"),
    (
        ".fom-on-edge.fom-why",
        &[("fill", FAILURE)],
        "font-style:italic",
    ),
];

/// Returns the style sheet. Its rules hold for this drawing and others of this package, and for nothing else on a page.
pub(super) fn sheet(scheme: Scheme) -> String {
    let mut sheet = String::new();
    if scheme == Scheme::Reader {
        sheet.push_str(".fom-graph{");
        variables(&mut sheet, |colour| colour.1);
        sheet.push_str("}@media(prefers-color-scheme:dark){.fom-graph{");
        variables(&mut sheet, |colour| colour.2);
        sheet.push_str("}}");
    }
    for (selectors, colours, rest) in RULES {
        let scoped: Vec<_> = selectors
            .split(',')
            .map(|selector| format!(".fom-graph {selector}"))
            .collect();
        let _ = write!(sheet, "{}{{", scoped.join(","));
        let mut declarations: Vec<String> = Vec::new();
        for (property, (name, light, dark)) in *colours {
            let plain = if scheme == Scheme::Dark { dark } else { light };
            declarations.push(format!("{property}:{plain}"));
            // A program without variables ignores this one.
            if scheme == Scheme::Reader {
                declarations.push(format!("{property}:var(--f-{name})"));
            }
        }
        declarations.extend((!rest.is_empty()).then(|| (*rest).to_owned()));
        let _ = write!(sheet, "{}}}", declarations.join(";"));
    }
    sheet
}

fn variables(sheet: &mut String, value: impl Fn(&Colour) -> &'static str) {
    let all = COLOURS.map(|colour| format!("--f-{0}:var(--fom-{0},{1})", colour.0, value(&colour)));
    sheet.push_str(&all.join(";"));
}
