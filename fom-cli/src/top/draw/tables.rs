//! The parts of the frame.

use ratatui::{
    buffer::Buffer,
    layout::{Constraint, Rect},
    style::Style,
    text::{Line, Text},
    widgets::{Cell, HighlightSpacing, Row, StatefulWidget as _, Table, TableState},
};

use super::super::{
    model::{Model, Panel},
    snapshot::Locality,
};
use crate::words::{brief, rate};

/// The columns of one locality.
const LOCALITY: u16 = 39;
/// The length of a bar of busy time.
const BAR: usize = 8;
/// The least width of the column that has the rest.
const NAME: u16 = 8;
/// A run that is shorter shows no fom: it is another one at the next look.
const LONG_RUN: f64 = 0.1;

/// Returns how many localities are in one row.
pub(super) fn localities_in_row(width: u16) -> usize {
    usize::from(width / LOCALITY).max(1)
}

/// One part as a table.
struct Listed<'a> {
    /// Names with widths. The width 0 is that of the rest.
    columns: &'a [(&'a str, u16)],
    /// From this column on, numbers are at the right. The columns before it and the last one are at the left.
    numbers: std::ops::Range<usize>,
    rows: Vec<(Vec<String>, Style)>,
    /// The panel of the keys, if this part is one.
    panel: Option<Panel>,
}

impl Listed<'_> {
    /// Leaves out the last columns of numbers for which there is no room.
    fn fit(&mut self, width: u16) {
        let needs = |columns: &[(&str, u16)]| -> u16 {
            columns.iter().map(|(_, width)| width.max(&NAME) + 1).sum()
        };
        while let [rest @ .., (_, 1..)] = self.columns
            && needs(self.columns) > width
        {
            self.columns = rest;
            self.rows
                .iter_mut()
                .for_each(|(texts, _)| texts.truncate(rest.len()));
        }
    }

    fn draw(mut self, model: &Model, area: Rect, to: &mut Buffer) {
        self.fit(area.width);
        let has_focus = self.panel == Some(model.panel);
        let side = |place: usize, text: String| {
            let text = Text::from(Line::from(text));
            match self.numbers.contains(&place) {
                true => Cell::from(text.right_aligned()),
                false => Cell::from(text),
            }
        };
        let rows = self.rows.iter().map(|(texts, style)| {
            let cells = texts.iter().enumerate();
            Row::new(cells.map(|(place, text)| side(place, text.clone()))).style(*style)
        });
        let names = self.columns.iter().enumerate();
        let head = names.map(|(place, (name, _))| side(place, (*name).to_owned()));
        let widths = self.columns.iter().map(|(_, width)| match width {
            0 => Constraint::Min(NAME),
            width => Constraint::Length(*width),
        });
        let table = Table::new(rows, widths)
            .header(Row::new(head).style(model.look.head(has_focus)))
            .highlight_symbol(">")
            .highlight_spacing(HighlightSpacing::Always)
            .row_highlight_style(model.look.chosen());
        let row = if has_focus { model.row() } else { None };
        let mut state = TableState::new().with_selected(row);
        table.render(area, to, &mut state);
    }
}

pub(super) fn machines(model: &Model, area: Rect, to: &mut Buffer) {
    let rows = model.snapshot.machines.iter().map(|of| {
        let texts = vec![
            of.name.clone(),
            of.in_flight.to_string(),
            rate(of.started),
            rate(of.ended),
            rate(of.failing),
            of.failed.to_string(),
            of.late.to_string(),
        ];
        (texts, Style::new())
    });
    Listed {
        columns: &[
            ("machine", 0),
            ("in flight", 10),
            ("started/s", 9),
            ("ended/s", 9),
            ("failed/s", 9),
            ("failed", 9),
            ("late", 9),
        ],
        numbers: 1..7,
        rows: rows.collect(),
        panel: Some(Panel::Machines),
    }
    .draw(model, area, to);
}

pub(super) fn phases(model: &Model, area: Rect, to: &mut Buffer) {
    let some = |time: Option<f64>| time.map_or_else(|| "-".to_owned(), brief);
    let rows = model.snapshot.phases.iter().map(|of| {
        let mark = if of.is_late { " !" } else { "" };
        let texts = vec![
            of.name.clone(),
            of.foms.to_string(),
            format!("{}{mark}", some(of.oldest)),
            rate(of.entered),
            rate(of.left),
            some(of.p50),
            some(of.p99),
        ];
        let style = if of.is_late {
            model.look.bad()
        } else {
            Style::new()
        };
        (texts, style)
    });
    let mut rows: Vec<_> = rows.collect();
    // If there is no room for all, those with foms come first.
    if rows.len() >= usize::from(area.height) {
        rows.sort_by_key(|(texts, _)| texts[1] == "0");
    }
    let name = format!("phase of {}", model.snapshot.machine);
    Listed {
        columns: &[
            (&name, 0),
            ("foms", 10),
            ("oldest", 9),
            ("in/s", 9),
            ("out/s", 9),
            ("p50", 9),
            ("p99", 9),
        ],
        numbers: 1..7,
        rows,
        panel: None,
    }
    .draw(model, area, to);
}

pub(super) fn foms(model: &Model, area: Rect, to: &mut Buffer) {
    let rows = model.snapshot.foms.iter().map(|of| {
        let texts = vec![
            of.id.to_string(),
            of.named.clone(),
            of.phase.clone(),
            brief(of.in_phase),
            of.waits.clone(),
        ];
        (texts, Style::new())
    });
    Listed {
        columns: &[
            ("oldest", 7),
            ("operation and key", 18),
            ("phase", 12),
            ("in phase", 8),
            ("waits for", 0),
        ],
        numbers: 3..4,
        rows: rows.collect(),
        panel: Some(Panel::Foms),
    }
    .draw(model, area, to);
}

pub(super) fn warnings(model: &Model, area: Rect, to: &mut Buffer) {
    let alone = |text: &str| {
        let texts = vec![String::new(), String::new(), String::new(), text.to_owned()];
        vec![(texts, Style::new())]
    };
    let rows = match model.snapshot.warnings.as_deref() {
        None => alone("the program does not watch"),
        Some([]) => alone("none"),
        Some(warnings) => warnings
            .iter()
            .map(|of| {
                let texts = vec![
                    of.level.clone(),
                    of.kind.clone(),
                    first(&of.ids),
                    of.text.clone(),
                ];
                (texts, model.look.level(&of.level))
            })
            .collect(),
    };
    Listed {
        columns: &[("warnings", 8), ("kind", 10), ("foms", 8), ("what", 0)],
        numbers: 0..0,
        rows,
        panel: Some(Panel::Warnings),
    }
    .draw(model, area, to);
}

/// Returns the first id, and the number of others.
fn first(ids: &[u64]) -> String {
    match ids {
        [] => String::new(),
        [id] => id.to_string(),
        [id, others @ ..] => format!("{id} +{}", others.len()),
    }
}

/// The localities, several in a row: the share of busy time, the foms, and a run that lasts.
pub(super) fn localities(model: &Model, area: Rect, to: &mut Buffer) {
    let width = usize::from(area.width);
    let head = " localities: busy, foms, ready, the fom that runs";
    to.set_stringn(area.x, area.y, head, width, model.look.head(false));
    let in_row = localities_in_row(area.width);
    let rooms = usize::from(area.height - 1) * in_row;
    let all = &model.snapshot.localities;
    // If there is no room for all, the busiest ones are shown.
    let mut shown: Vec<&Locality> = all.iter().collect();
    if shown.len() > rooms {
        let busy = |of: &Locality| of.busy.unwrap_or_default();
        shown.sort_by(|one, other| busy(other).total_cmp(&busy(one)));
        shown.truncate(rooms);
    }
    for (place, of) in shown.into_iter().enumerate() {
        // Both are less than the size of the area.
        let (column, row) = (place % in_row, place / in_row);
        let x = area.x + 1 + u16::try_from(column).unwrap_or(0) * LOCALITY;
        let y = area.y + 1 + u16::try_from(row).unwrap_or(0);
        let is_long = of.running.is_some_and(|(_, time)| time >= LONG_RUN);
        let style = if is_long {
            model.look.bad()
        } else {
            Style::new()
        };
        let room = (width - 1 - usize::from(x - area.x - 1)).min(usize::from(LOCALITY) - 1);
        to.set_stringn(x, y, locality(of), room, style);
    }
}

fn locality(of: &Locality) -> String {
    let share = of.busy.unwrap_or_default().clamp(0.0, 1.0);
    // A share of a bar is at most the bar.
    let full = (share * BAR as f64).round() as usize;
    let bar = format!("{}{}", "#".repeat(full), "-".repeat(BAR - full.min(BAR)));
    let running = of.running.filter(|(_, time)| *time >= LONG_RUN);
    let running = running.map(|(id, time)| format!(" {id} for {}", brief(time)));
    format!(
        "{:<2} {bar} {:>3.0}% {} {}{}",
        of.index,
        share * 100.0,
        of.foms,
        of.ready,
        running.unwrap_or_default()
    )
}
