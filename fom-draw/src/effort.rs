//! How much work the rows of a graph are, before the work begins.

use crate::parts::Parts;

/// Returns the number of cells that the boxes and the edges take in the rows, about. An edge takes two cells in each row
/// that it passes.
pub(crate) fn cells(parts: &Parts) -> usize {
    let order = order(parts);
    let mut place = vec![0; order.len()];
    for (at, &index) in order.iter().enumerate() {
        place[index] = at;
    }
    let mut exits = vec![Vec::new(); order.len()];
    for edge in &parts.edges {
        let (from, to) = (edge.from, edge.to);
        // A way back is turned around.
        let (upper, lower) = match place[from] < place[to] {
            true => (from, to),
            false => (to, from),
        };
        exits[upper].push(lower);
    }
    let mut rows = vec![0_usize; order.len()];
    for &index in &order {
        for &exit in exits[index].iter().filter(|&&exit| exit != index) {
            rows[exit] = rows[exit].max(rows[index] + 1);
        }
    }
    let passed = parts.edges.iter().map(|edge| {
        let between = rows[edge.from].abs_diff(rows[edge.to]);
        2 * between
    });
    parts.boxes.len() + passed.sum::<usize>()
}

/// Returns all boxes, each before those that it leads to, except for ways back.
fn order(parts: &Parts) -> Vec<usize> {
    let mut exits = vec![Vec::new(); parts.boxes.len()];
    for edge in &parts.edges {
        exits[edge.from].push(edge.to);
    }
    let mut seen = vec![false; exits.len()];
    let mut order = Vec::with_capacity(exits.len());
    for first in parts.start.into_iter().chain(0..exits.len()) {
        if std::mem::replace(&mut seen[first], true) {
            continue;
        }
        // Each box with the number of its exits that are done.
        let mut open = vec![(first, 0)];
        while let Some((index, done)) = open.last_mut() {
            match exits[*index].get(*done) {
                None => {
                    order.push(*index);
                    open.pop();
                }
                Some(&exit) => {
                    *done += 1;
                    if !std::mem::replace(&mut seen[exit], true) {
                        open.push((exit, 0));
                    }
                }
            }
        }
    }
    order.reverse();
    order
}
