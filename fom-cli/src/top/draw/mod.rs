//! The frame of a model. It depends on the model and the size alone.

mod rows;
mod tables;

use ratatui::{
    buffer::Buffer,
    layout::Rect,
    text::Line,
    widgets::{Paragraph, Widget as _, Wrap},
};

use super::model::Model;
use crate::words::{brief, plural};

use rows::{Part, shares};

/// The smallest size that has room for a table.
const SMALLEST: (u16, u16) = (40, 8);

/// Draws a frame.
pub(super) fn frame(model: &Model, area: Rect, to: &mut Buffer) {
    if area.width < SMALLEST.0 || area.height < SMALLEST.1 {
        let (width, height) = SMALLEST;
        let text = format!("fom top needs {width} columns and {height} lines");
        return Paragraph::new(text)
            .wrap(Wrap { trim: true })
            .render(area, to);
    }
    let line = |y: u16| Rect::new(area.x, y, area.width, 1);
    bar(model, &title(model), line(area.y), to);
    bar(model, &foot(model), line(area.bottom() - 1), to);
    let middle = Rect {
        y: area.y + 1,
        height: area.height - 2,
        ..area
    };
    match model.open() {
        Some(lines) => open(lines, middle, to),
        None => parts(model, middle, to),
    }
}

fn bar(model: &Model, text: &str, area: Rect, to: &mut Buffer) {
    to.set_style(area, model.look.bar());
    to.set_stringn(
        area.x,
        area.y,
        text,
        usize::from(area.width),
        model.look.bar(),
    );
}

fn title(model: &Model) -> String {
    let program = &model.snapshot.program;
    let some = |number: u64, what: &str| (number > 0).then(|| format!("{number} {what}"));
    let incidents = plural(program.incidents, "incident");
    let parts = [
        Some(format!("{} {}", program.name, program.pid)),
        Some(format!("up {}", brief(program.now))),
        Some(plural(program.in_flight, "fom")),
        some(program.queued, "queued"),
        some(program.quarantine.unwrap_or_default(), "quarantined"),
        Some(incidents).filter(|_| program.incidents > 0),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join("  ")
}

fn foot(model: &Model) -> String {
    if let Some(trouble) = &model.trouble {
        return trouble.clone();
    }
    let pause = if model.is_paused {
        "p goes on"
    } else {
        "p pauses"
    };
    match model.open() {
        Some(_) => format!("Esc closes  q ends  {pause}"),
        None => format!("q ends  Tab next part  arrows other row  Enter shows it  {pause}"),
    }
}

/// Shows one fom or warning alone.
fn open(lines: &[String], area: Rect, to: &mut Buffer) {
    let lines: Vec<_> = lines.iter().map(|line| Line::from(line.as_str())).collect();
    Paragraph::new(lines)
        .wrap(Wrap { trim: false })
        .render(area, to);
}

/// Shows the parts below each other.
fn parts(model: &Model, area: Rect, to: &mut Buffer) {
    let wanted = Part::wanted(model, area.width);
    let shares = shares(usize::from(area.height), &wanted, Part::of(model.panel));
    let mut y = area.y;
    for part in Part::ALL {
        let rows = shares[part as usize];
        if rows == 0 {
            continue;
        }
        // A share is at most the height.
        let height = u16::try_from(rows + 1).unwrap_or(area.height);
        let area = Rect { y, height, ..area };
        y += height;
        match part {
            Part::Machines => tables::machines(model, area, to),
            Part::Phases => tables::phases(model, area, to),
            Part::Foms => tables::foms(model, area, to),
            Part::Localities => tables::localities(model, area, to),
            Part::Warnings => tables::warnings(model, area, to),
        }
    }
}
