//! Each graph has a drawing: random ones with cycles, edges to the same phase, parts that nothing reaches, and layers.

use std::collections::BTreeSet;

use fom_draw::{Layout, Placing, Point, prelude::*};
use fom_runtime::machine::{Deadline, Graph, PhaseInfo};

/// A generator of numbers that needs no crate: splitmix64.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((bits ^ (bits >> 31)) % end.max(1) as u64) as usize
    }

    fn chance(&mut self, of: usize) -> bool {
        self.below(of) == 0
    }
}

fn graph(seed: u64, most: usize) -> Graph {
    let mut random = Random(seed);
    let count = 1 + random.below(most);
    let dense = 1 + random.below(4);
    let layered = random.chance(3);
    let mut path = String::new();
    let start = match random.chance(4) {
        true => random.below(count),
        false => 0,
    };
    let phases = (0..count).map(|index| {
        if layered && random.chance(4) {
            path = match random.below(4) {
                0 => String::new(),
                1 if !path.is_empty() => format!("{path}In{index}."),
                _ => format!("Layer{index}."),
            };
        }
        let name = format!("{path}Phase{index}{}", "x".repeat(random.below(12)));
        phase(&mut random, name.leak(), index, count, dense, start)
    });
    let phases: Vec<_> = phases.collect();
    Graph::new("Random", "Random", "", phases.leak())
}

fn phase(
    random: &mut Random,
    name: &'static str,
    index: usize,
    count: usize,
    dense: usize,
    start: usize,
) -> PhaseInfo {
    let mut exits = BTreeSet::new();
    for _ in 0..random.below(2 * dense + 1) {
        exits.insert(match random.below(4) {
            0 => index,
            1 => random.below(count),
            _ => (index + 1 + random.below(4)).min(count - 1),
        } as u16);
    }
    let mut phase = match (exits.is_empty(), random.below(3)) {
        (true, 0) => PhaseInfo::end(name, "").failure(),
        (true, _) => PhaseInfo::end(name, "An end."),
        (_, 0) => PhaseInfo::synchronous(name, ""),
        (_, 1) => PhaseInfo::blocking(name, ""),
        _ => PhaseInfo::asynchronous(name, "A <phase> & \"more\"."),
    };
    if !exits.is_empty() {
        let all: &'static [u16] = exits.into_iter().collect::<Vec<_>>().leak();
        let plain = random.below(all.len() + 1);
        phase = phase.to(&all[..plain]);
        if plain < all.len() {
            phase = phase.failed(&all[plain..], all);
        }
        if random.chance(3) {
            phase = phase.timed(Deadline::new().within_nanos(1_500_000_000).late());
        }
        if random.chance(4) {
            phase = phase.on(&["Ack", "Bye", "Something", "More", "AndMore", "AndAgainMore"]);
        }
    }
    if index == start { phase.start() } else { phase }
}

/// Checks what each layout promises.
pub(crate) fn check(graph: &Graph, layout: &Layout) {
    let phases: Vec<_> = graph.phases().iter().map(PhaseInfo::name).collect();
    let names: Vec<_> = layout.nodes.iter().map(|node| node.name).collect();
    assert_eq!(names, phases);
    let edges: Vec<_> = graph.edges().map(|(a, b)| (a.name(), b.name())).collect();
    let drawn: Vec<_> = layout
        .edges
        .iter()
        .map(|edge| (edge.from, edge.to))
        .collect();
    assert_eq!(drawn, edges);

    let is_within = |point: &Point| {
        (0.0..=layout.width).contains(&point.x) && (0.0..=layout.height).contains(&point.y)
    };
    for (index, node) in layout.nodes.iter().enumerate() {
        let corners = [
            (node.x, node.y),
            (node.x + node.width, node.y + node.height),
        ];
        for (x, y) in corners {
            assert!((0.0..=layout.width).contains(&x) && (0.0..=layout.height).contains(&y));
        }
        for other in &layout.nodes[..index] {
            let is_apart = node.x >= other.x + other.width
                || other.x >= node.x + node.width
                || node.y >= other.y + other.height
                || other.y >= node.y + node.height;
            assert!(is_apart, "{} lies on {}", node.name, other.name);
        }
    }
    for edge in &layout.edges {
        assert!(edge.points.iter().all(is_within) && is_within(&edge.label));
        for (name, end) in [
            (edge.from, edge.points.first()),
            (edge.to, edge.points.last()),
        ] {
            let node = layout.nodes.iter().find(|node| node.name == name).unwrap();
            let end = end.unwrap();
            let beside = [node.x, node.x + node.width].map(|x| (end.x - x).abs() < 0.2);
            let at = [node.y, node.y + node.height].map(|y| (end.y - y).abs() < 0.2);
            assert!(
                beside.contains(&true) || at.contains(&true),
                "{} to {} does not meet {name}",
                edge.from,
                edge.to
            );
        }
    }
    for group in &layout.groups {
        let prefix = format!("{}.", group.path);
        for node in layout
            .nodes
            .iter()
            .filter(|node| node.name.starts_with(&prefix))
        {
            assert!(node.x >= group.x && node.x + node.width <= group.x + group.width + 0.2);
            assert!(node.y >= group.y && node.y + node.height <= group.y + group.height + 0.2);
        }
    }
}

/// `FOM_DRAW_CASES` sets another number of graphs.
#[test]
fn random_graphs_have_sound_layouts() {
    let cases = std::env::var("FOM_DRAW_CASES").ok();
    let cases = cases.and_then(|cases| cases.parse().ok()).unwrap_or(100);
    let mut rows = 0;
    for seed in 0..cases {
        let graph = graph(seed, if seed % 4 == 0 { 64 } else { 16 });
        let layout = graph.layout();
        check(&graph, &layout);
        if seed % 5 == 0 {
            assert_eq!(layout, graph.layout(), "the same graph, the same layout");
        }
        if let Err(error) = roxmltree::Document::parse(&layout.svg()) {
            panic!("seed {seed}: {error}");
        }
        match layout.placing {
            Placing::Rows => rows += 1,
            _ => println!("seed {seed} has a column: {} phases", graph.phases().len()),
        }
    }
    println!("{rows} of {cases} in rows");
    assert!(rows * 10 > cases * 9, "the column is the exception");
}
