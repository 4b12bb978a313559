//! The drawing in text: a column of phases, and the ways between them as vertical lanes.

use std::fmt::Write as _;

use super::Graph;

/// Each phase with a way in has one vertical lane, from the rows of those ways to its own row.
pub(super) struct Drawing {
    rows: Vec<Row>,
    lanes: Vec<Lane>,
    columns: usize,
}

enum Row {
    /// The name of a phase, and the way into it.
    Name { phase: usize },
    /// The ways out of a phase.
    Exits { phase: usize },
}

struct Lane {
    target: usize,
    /// The row of the target's name.
    head: usize,
    /// The rows of its sources' exits.
    tails: Vec<usize>,
    column: usize,
}

impl Lane {
    fn top(&self) -> usize {
        self.tails
            .iter()
            .copied()
            .min()
            .map_or(self.head, |tail| tail.min(self.head))
    }

    fn bottom(&self) -> usize {
        self.tails
            .iter()
            .copied()
            .max()
            .map_or(self.head, |tail| tail.max(self.head))
    }
}

/// The width of a lane's column.
const STEP: usize = 3;

impl Drawing {
    pub(super) fn of(graph: &Graph) -> Self {
        let phases = graph.phases;
        let mut rows = Vec::new();
        let mut heads = Vec::new();
        let mut tails = vec![Vec::new(); phases.len()];
        for (index, phase) in phases.iter().enumerate() {
            heads.push(rows.len());
            rows.push(Row::Name { phase: index });
            let exits = phase
                .exits
                .all
                .iter()
                .map(|&exit| usize::from(exit))
                .filter(|&exit| exit < phases.len());
            let mut any = false;
            for exit in exits {
                any = true;
                if let Some(tails) = tails.get_mut(exit) {
                    tails.push(rows.len());
                }
            }
            if any {
                rows.push(Row::Exits { phase: index });
            }
        }
        let mut lanes: Vec<_> = heads
            .into_iter()
            .zip(tails)
            .enumerate()
            .filter(|(_, (_, tails))| !tails.is_empty())
            .map(|(target, (head, tails))| Lane {
                target,
                head,
                tails,
                column: 0,
            })
            .collect();
        // Short lanes are inside. Lanes that have no row in common can share a column.
        lanes.sort_by_key(|lane| (lane.bottom() - lane.top(), lane.target));
        let mut columns: Vec<Vec<(usize, usize)>> = Vec::new();
        for lane in &mut lanes {
            let (top, bottom) = (lane.top(), lane.bottom());
            let free = columns
                .iter()
                .position(|taken| taken.iter().all(|&(from, to)| bottom < from || to < top));
            lane.column = free.unwrap_or_else(|| {
                columns.push(Vec::new());
                columns.len() - 1
            });
            if let Some(taken) = columns.get_mut(lane.column) {
                taken.push((top, bottom));
            }
        }
        Self {
            rows,
            lanes,
            columns: columns.len(),
        }
    }

    pub(super) fn print(&self, graph: &Graph) -> String {
        let width = graph
            .phases
            .iter()
            .map(|phase| phase.name.chars().count())
            .max()
            .unwrap_or(0)
            + 5;
        let mut out = String::new();
        for (at, row) in self.rows.iter().enumerate() {
            let mut text = match *row {
                Row::Name { phase } => self.name_row(at, phase, graph, width),
                Row::Exits { phase } => self.exits_row(at, phase, width),
            };
            if let Row::Name { phase } = *row
                && let Some(phase) = graph.phases.get(phase)
            {
                let mut notes = graph.notes(phase);
                let exits = graph.exits(phase);
                let named = exits.filter_map(|exit| Some((exit, graph.edge_name(phase, exit)?)));
                notes.extend(named.map(|(exit, name)| format!("{name}: {}", exit.name)));
                let notes = notes.join("; ");
                if !notes.is_empty() {
                    text.push_str("  ");
                    text.push_str(&notes);
                }
            }
            let _ = writeln!(out, "{}", text.trim_end());
        }
        out
    }

    fn name_row(&self, at: usize, phase: usize, graph: &Graph, width: usize) -> String {
        let info = graph.phases.get(phase);
        let mark = if info.is_some_and(|phase| phase.start) {
            "> "
        } else {
            "  "
        };
        let text = format!("{mark}{}", info.map_or("", |phase| phase.name));
        let reach = self
            .lanes
            .iter()
            .find(|lane| lane.target == phase)
            .map(|lane| lane.column);
        self.row(at, &text, reach, width, |lane| {
            (lane.target == phase).then(|| match (lane.top() < at, at < lane.bottom()) {
                (true, true) => '┤',
                (true, false) => '┘',
                _ => '┐',
            })
        })
    }

    fn exits_row(&self, at: usize, phase: usize, width: usize) -> String {
        let joins = |lane: &Lane| lane.tails.contains(&at);
        let reach = self
            .lanes
            .iter()
            .filter(|lane| joins(lane))
            .map(|lane| lane.column)
            .max();
        debug_assert!(
            reach.is_some(),
            "a row of exits for phase {phase} that has none"
        );
        self.row(at, "  └", reach, width, |lane| joins(lane).then_some('o'))
    }

    /// Returns `text`, then a line to the lane at column `reach`, then the lanes that pass.
    fn row(
        &self,
        at: usize,
        text: &str,
        reach: Option<usize>,
        width: usize,
        joint: impl Fn(&Lane) -> Option<char>,
    ) -> String {
        let mut cells: Vec<char> = text.chars().collect();
        let blank = |column: usize| {
            if reach.is_some_and(|reach| column <= reach) {
                '─'
            } else {
                ' '
            }
        };
        // The line begins right of the text, with an arrow if it is the way in.
        let start = cells.len();
        let exits = text.ends_with('└');
        for place in start..width {
            cells.push(match reach {
                None => ' ',
                Some(_) if exits => '─',
                Some(_) if place == start => ' ',
                Some(_) if place == start + 1 => '<',
                Some(_) => '─',
            });
        }
        for column in 0..self.columns {
            cells.extend(std::iter::repeat_n(blank(column), STEP - 1));
            let here: Vec<&Lane> = self
                .lanes
                .iter()
                .filter(|lane| lane.column == column && lane.top() <= at && at <= lane.bottom())
                .collect();
            let joint = here.iter().find_map(|lane| joint(lane));
            let through = reach.is_some_and(|reach| column < reach);
            cells.push(match joint {
                Some(joint) => joint,
                None if !here.is_empty() && through => '┼',
                None if !here.is_empty() => '│',
                None if through => '─',
                None => ' ',
            });
        }
        cells.into_iter().collect()
    }
}
