//! Groups the phases of a joined graph. The phases of the inner operation of a layer are together, under the name of the
//! phase that holds them.

use super::{Graph, PhaseInfo};

/// A part of a drawing. `depth` is the number of groups around it.
pub(super) enum Part<'a> {
    /// A group begins. `path` is the prefix of the names in the group.
    Open {
        depth: usize,
        path: &'a str,
        name: &'a str,
    },
    /// A phase. `name` is its name without the group.
    Phase {
        depth: usize,
        phase: &'a PhaseInfo,
        name: &'a str,
    },
    Close {
        depth: usize,
    },
}

impl Graph {
    /// Visits all phases and their groups. The phases of a group follow each other.
    pub(super) fn each_part(&self, mut draw: impl FnMut(Part<'_>)) {
        let mut open: Vec<&str> = Vec::new();
        for phase in self.phases {
            let groups: Vec<&str> = phase.name.split('.').collect();
            let (name, groups) = groups.split_last().unwrap_or((&phase.name, &[]));
            let same = open.iter().zip(groups).take_while(|(a, b)| a == b).count();
            close(&mut open, same, &mut draw);
            for group in &groups[same..] {
                let end = open.iter().map(|name| name.len() + 1).sum::<usize>() + group.len();
                draw(Part::Open {
                    depth: open.len(),
                    path: &phase.name[..end],
                    name: group,
                });
                open.push(group);
            }
            let depth = open.len();
            draw(Part::Phase { depth, phase, name });
        }
        close(&mut open, 0, &mut draw);
    }
}

fn close(open: &mut Vec<&str>, down_to: usize, draw: &mut impl FnMut(Part<'_>)) {
    while open.len() > down_to {
        open.pop();
        draw(Part::Close { depth: open.len() });
    }
}
