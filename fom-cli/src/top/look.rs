//! Colours, or marks without colours.

use std::env;

use ratatui::style::{Color, Modifier, Style};

/// How the parts of a frame look. All that a colour says is also in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Look {
    has_color: bool,
}

impl Look {
    /// Without colours.
    pub(super) fn plain() -> Self {
        Self { has_color: false }
    }

    /// Returns the look for this terminal: without colours if the user or the terminal wants none.
    pub(super) fn of_terminal() -> Self {
        let is_set = |name: &str| env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_dumb = env::var_os("TERM").is_some_and(|terminal| terminal == "dumb");
        Self {
            has_color: !is_set("NO_COLOR") && !is_dumb,
        }
    }

    fn color(self, color: Color) -> Style {
        match self.has_color {
            true => Style::new().fg(color),
            false => Style::new(),
        }
    }

    /// The first line and the last.
    pub(super) fn bar(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// The head of a part of the frame.
    pub(super) fn head(self, has_focus: bool) -> Style {
        let head = self.color(Color::Cyan).add_modifier(Modifier::BOLD);
        match has_focus {
            true => head.add_modifier(Modifier::UNDERLINED),
            false => head,
        }
    }

    /// The row that the user chose.
    pub(super) fn chosen(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// A value that needs a look.
    pub(super) fn bad(self) -> Style {
        self.color(Color::Red).add_modifier(Modifier::BOLD)
    }

    /// A warning of this level.
    pub(super) fn level(self, level: &str) -> Style {
        match level {
            "severe" | "critical" => self.bad(),
            _ => self.color(Color::Yellow),
        }
    }
}
