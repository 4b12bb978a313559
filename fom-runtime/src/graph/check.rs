//! Checks a joined graph as a whole, at compile time.

use super::Graph;

/// The most phases of any graph: the number of a phase must fit into a byte, with one value to spare.
const MOST: usize = 255;

/// Stops the compiler if the graph has a mistake.
pub(super) const fn check(graph: &Graph) {
    if let Some(mistake) = mistake(graph) {
        panic!("{}", mistake);
    }
}

/// Returns the mistake of a graph, if it has one.
pub(super) const fn mistake(graph: &Graph) -> Option<&'static str> {
    let phases = graph.phases;
    if phases.len() > MOST {
        return Some("a graph has 255 phases at most");
    }
    let mut start = None;
    let mut index = 0;
    while index < phases.len() {
        let phase = &phases[index];
        if phase.start {
            if start.is_some() {
                return Some("two phases of the joined graph are its start");
            }
            start = Some(index);
        }
        if phase.is_end() != phase.exits.all.is_empty() {
            return Some(
                "a phase of the joined graph goes nowhere and is no end, or is an end and goes on",
            );
        }
        let mut exit = 0;
        while exit < phase.exits.all.len() {
            if phase.exits.all[exit] as usize >= phases.len() {
                return Some("a way in the joined graph leads to no phase");
            }
            exit += 1;
        }
        let mut other = 0;
        while other < index {
            if same(phases[other].name, phase.name) {
                return Some("two phases of the joined graph have one name");
            }
            other += 1;
        }
        index += 1;
    }
    let Some(start) = start else {
        return Some("no phase of the joined graph is its start");
    };
    let mut reached = [false; MOST];
    reached[start] = true;
    spread(graph, &mut reached, false);
    let mut ends = [false; MOST];
    let mut index = 0;
    while index < phases.len() {
        ends[index] = phases[index].is_end();
        index += 1;
    }
    spread(graph, &mut ends, true);
    let mut index = 0;
    while index < phases.len() {
        if !reached[index] {
            return Some("no way leads to a phase of the joined graph");
        }
        if !ends[index] {
            return Some("no end can be reached from a phase of the joined graph");
        }
        index += 1;
    }
    None
}

/// Marks all phases that the marked ones can reach; backwards, all phases that can reach a marked one.
const fn spread(graph: &Graph, marked: &mut [bool; MOST], backwards: bool) {
    let phases = graph.phases;
    let mut changed = true;
    while changed {
        changed = false;
        let mut index = 0;
        while index < phases.len() {
            let mut exit = 0;
            while exit < phases[index].exits.all.len() {
                let to = phases[index].exits.all[exit] as usize;
                let (known, new) = if backwards { (to, index) } else { (index, to) };
                if marked[known] && !marked[new] {
                    marked[new] = true;
                    changed = true;
                }
                exit += 1;
            }
            index += 1;
        }
    }
}

const fn same(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    if one.len() != other.len() {
        return false;
    }
    let mut at = 0;
    while at < one.len() {
        if one[at] != other[at] {
            return false;
        }
        at += 1;
    }
    true
}
