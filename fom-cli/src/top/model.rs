//! The state of the screen: a snapshot, and what the user chose by keys.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::{fetch::Answers, look::Look, snapshot::Snapshot};
use crate::failure::Failure;

/// The part of the frame that the keys move in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Panel {
    Machines,
    Foms,
    Warnings,
}

/// Whether the screen goes on after a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    On,
    End,
}

/// What the user chose, by names that stay while rows move.
#[derive(Clone, Debug, Default)]
struct Chosen {
    machine: Option<String>,
    fom: Option<u64>,
    warning: Option<String>,
}

/// The state of the screen.
#[derive(Clone, Debug)]
pub(super) struct Model {
    pub(super) look: Look,
    pub(super) snapshot: Snapshot,
    /// Why the snapshot is old, or lacks a part.
    pub(super) trouble: Option<String>,
    pub(super) panel: Panel,
    chosen: Chosen,
    /// Whether the chosen fom or warning is shown alone.
    is_open: bool,
    pub(super) is_paused: bool,
}

impl Model {
    pub(super) fn new(look: Look) -> Self {
        Self {
            look,
            snapshot: Snapshot::default(),
            trouble: None,
            panel: Panel::Foms,
            chosen: Chosen::default(),
            is_open: false,
            is_paused: false,
        }
    }

    /// Takes the answers of the program, or the reason why there are none. Then the last snapshot stays.
    pub(super) fn take(&mut self, answers: Result<Answers, Failure>) {
        if self.is_paused {
            return;
        }
        match answers {
            Ok(answers) => {
                self.snapshot = Snapshot::of(&answers);
                self.trouble = answers.trouble.map(|why| format!("incomplete: {why}"));
            }
            Err(failure) => self.trouble = Some(format!("not up to date: {failure}")),
        }
    }

    /// Returns the machine that the user chose.
    pub(super) fn wanted(&self) -> Option<&str> {
        self.chosen.machine.as_deref()
    }

    /// Returns the lines of the fom or the warning that is shown alone.
    pub(super) fn open(&self) -> Option<&[String]> {
        let row = self.row().filter(|_| self.is_open)?;
        match self.panel {
            Panel::Machines => None,
            Panel::Foms => self.snapshot.foms.get(row).map(|fom| &*fom.detail),
            Panel::Warnings => {
                let warnings = self.snapshot.warnings.as_deref()?;
                warnings.get(row).map(|warning| &*warning.detail)
            }
        }
    }

    /// Returns the chosen row of the panel. Without a choice, or if it is gone, it is the first one.
    pub(super) fn row(&self) -> Option<usize> {
        let Snapshot { machines, foms, .. } = &self.snapshot;
        let warnings = self.snapshot.warnings.as_deref().unwrap_or_default();
        let (row, rows) = match self.panel {
            Panel::Machines => {
                // Without a choice, it is the machine of the phases.
                let name = self
                    .chosen
                    .machine
                    .as_ref()
                    .unwrap_or(&self.snapshot.machine);
                (
                    machines.iter().position(|one| one.name == *name),
                    machines.len(),
                )
            }
            Panel::Foms => {
                let id = self.chosen.fom;
                (foms.iter().position(|one| Some(one.id) == id), foms.len())
            }
            Panel::Warnings => {
                let name = self.chosen.warning.as_ref();
                (
                    warnings.iter().position(|one| Some(&one.name) == name),
                    warnings.len(),
                )
            }
        };
        (rows > 0).then(|| row.unwrap_or(0))
    }

    /// Acts on a key.
    pub(super) fn key(&mut self, key: KeyEvent) -> Flow {
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if is_control => return Flow::End,
            KeyCode::Char('q') => return Flow::End,
            KeyCode::Esc if self.is_open => self.is_open = false,
            KeyCode::Esc => return Flow::End,
            KeyCode::Enter => self.is_open = !self.is_open && self.panel != Panel::Machines,
            KeyCode::Char('p') => self.is_paused = !self.is_paused,
            KeyCode::Tab => self.go_to(match self.panel {
                Panel::Machines => Panel::Foms,
                Panel::Foms => Panel::Warnings,
                Panel::Warnings => Panel::Machines,
            }),
            KeyCode::BackTab => self.go_to(match self.panel {
                Panel::Machines => Panel::Warnings,
                Panel::Foms => Panel::Machines,
                Panel::Warnings => Panel::Foms,
            }),
            KeyCode::Down | KeyCode::Char('j') => self.choose(|row| row + 1),
            KeyCode::Up | KeyCode::Char('k') => self.choose(|row| row.saturating_sub(1)),
            KeyCode::Home => self.choose(|_| 0),
            KeyCode::End => self.choose(|_| usize::MAX),
            _ => {}
        }
        Flow::On
    }

    fn go_to(&mut self, panel: Panel) {
        self.panel = panel;
        self.is_open = false;
    }

    /// Chooses another row of the panel, at most its last one.
    fn choose(&mut self, next: impl FnOnce(usize) -> usize) {
        let Some(row) = self.row() else {
            return;
        };
        let row = next(row);
        let Snapshot { machines, foms, .. } = &self.snapshot;
        let warnings = self.snapshot.warnings.as_deref().unwrap_or_default();
        match self.panel {
            Panel::Machines => self.chosen.machine = at(machines, row).map(|one| one.name.clone()),
            Panel::Foms => self.chosen.fom = at(foms, row).map(|one| one.id),
            Panel::Warnings => self.chosen.warning = at(warnings, row).map(|one| one.name.clone()),
        }
    }
}

/// Returns an item, or the last one.
fn at<T>(items: &[T], place: usize) -> Option<&T> {
    items.get(place).or(items.last())
}
