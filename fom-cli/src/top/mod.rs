//! `fom top`: the program in the terminal.
//!
//! | file | what |
//! | --- | --- |
//! | `fetch.rs` | asks the program for what a frame shows |
//! | `snapshot.rs` | what the program answered, as a frame shows it |
//! | `model.rs` | the state of the screen: a snapshot, and what the user chose by keys |
//! | `look.rs` | colours, or marks without colours |
//! | `draw/` | the frame of a model |
//! | `screen.rs` | the terminal |

mod draw;
mod fetch;
mod look;
mod model;
mod screen;
mod snapshot;
#[cfg(test)]
mod tests;

use std::io::{self, IsTerminal as _};

use ratatui::{buffer::Buffer, layout::Rect};

use crate::{client::Client, failure::Failure, output::Output};

use fetch::Answers;
use look::Look;
use model::Model;

/// The size of a frame that goes to a file or a pipe.
const SIZE: (u16, u16) = (80, 24);

/// Shows the program until the user ends it. If the output is no terminal, prints one frame. As JSON, prints what a frame shows.
pub(crate) fn run(client: Client, output: &mut Output<'_>) -> Result<(), Failure> {
    // Before the terminal is taken: without a program there is nothing to show.
    let first = Answers::fetch(&client, None)?;
    if output.is_json() {
        return Ok(output.object(&first)?);
    }
    let is_terminal = io::stdout().is_terminal();
    let look = if is_terminal {
        Look::of_terminal()
    } else {
        Look::plain()
    };
    let mut model = Model::new(look);
    model.take(Ok(first));
    if is_terminal {
        return Ok(screen::run(client, model)?);
    }
    for line in lines(&model, SIZE) {
        output.line(&line)?;
    }
    Ok(())
}

/// Returns the lines of a frame.
fn lines(model: &Model, (width, height): (u16, u16)) -> Vec<String> {
    let area = Rect::new(0, 0, width, height);
    let mut buffer = Buffer::empty(area);
    draw::frame(model, area, &mut buffer);
    let rows = buffer.content.chunks(usize::from(width));
    let line = |cells: &[ratatui::buffer::Cell]| -> String {
        let text: String = cells.iter().map(ratatui::buffer::Cell::symbol).collect();
        text.trim_end().to_owned()
    };
    rows.map(line).collect()
}
