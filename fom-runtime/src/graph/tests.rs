use std::collections::BTreeSet;

use super::{Deadline, Graph, PhaseInfo};

static ROUTE: Graph = Graph::new(
    "Route",
    "RouteCall",
    "One call on its way.",
    &[
        PhaseInfo::asynchronous(
            "Locate",
            "Ask the locator | where the callee lives.\n\nMore.",
        )
        .to(&[1, 4])
        .start()
        .timed(Deadline::new().within_nanos(2_000_000_000)),
        PhaseInfo::asynchronous("Ring", "Ring the \"endpoint\".")
            .to(&[2, 1, 4])
            .timed(
                Deadline::new()
                    .within_nanos(92_500_000_000)
                    .late()
                    .keep(&[2]),
            )
            .on(&["Ack", "Bye"])
            .retry(3, 50_000_000, 2_000_000_000),
        PhaseInfo::synchronous("Talk", "")
            .to(&[3, 4])
            .on(&["Bye"])
            .timed(Deadline::new().late()),
        PhaseInfo::blocking("Write", "Write the record.")
            .to(&[5, 0])
            .timed(
                Deadline::new()
                    .within_adaptive(50_000_000, 30_000_000_000)
                    .late(),
            ),
        PhaseInfo::end("Rejected", "").failure(),
        PhaseInfo::end("Answered", ""),
    ],
);

/// Names that are words in the languages of the drawings, and an index that names no phase.
static ODD: Graph = Graph::new(
    "Odd",
    "Odd",
    "",
    &[
        PhaseInfo::synchronous("State", "")
            .to(&[1, 0, 2, 9])
            .start()
            .timed(Deadline::new().within_nanos(1_500)),
        PhaseInfo::synchronous("State_", "").to(&[3]),
        PhaseInfo::asynchronous("graph", "").to(&[3]),
        PhaseInfo::end("End", ""),
    ],
);

static EMPTY: Graph = Graph::new("Empty", "Empty", "", &[]);

#[test]
fn mermaid() {
    insta::assert_snapshot!(ROUTE.mermaid());
    insta::assert_snapshot!("mermaid_odd", ODD.mermaid());
}

#[test]
fn dot() {
    insta::assert_snapshot!(ROUTE.dot());
}

#[test]
fn table() {
    insta::assert_snapshot!(ROUTE.table());
}

#[test]
fn json() {
    insta::assert_snapshot!(ROUTE.json());
}

#[test]
fn drawing() {
    insta::assert_snapshot!(ROUTE.drawing());
    insta::assert_snapshot!("drawing_odd", ODD.drawing());
}

#[test]
fn nothing_to_draw_is_drawn_too() {
    for text in [
        EMPTY.mermaid(),
        EMPTY.dot(),
        EMPTY.table(),
        EMPTY.json(),
        EMPTY.drawing(),
    ] {
        assert!(!text.contains("-->"));
    }
}

type Edges = BTreeSet<(String, String)>;

fn edges(graph: &Graph) -> Edges {
    let edges: Edges = graph
        .edges()
        .map(|(from, to)| (from.name().to_owned(), to.name().to_owned()))
        .collect();
    assert_eq!(edges.len(), graph.edges().count(), "no edge is there twice");
    edges
}

/// A long machine in which every phase has several exits, so that lanes cross.
fn tangle() -> Graph {
    let names = [
        "A", "Bb", "Ccc", "Dddd", "Eeeee", "F", "G", "H", "I", "J", "K", "L",
    ];
    let phases: Vec<_> = names
        .iter()
        .enumerate()
        .map(|(index, name)| {
            let exits =
                [index * 5 + 1, index * 7 + 2, index + 1].map(|to| (to % names.len()) as u16);
            let exits: BTreeSet<u16> = exits.into_iter().collect();
            let exits: Vec<u16> = exits.into_iter().collect();
            PhaseInfo::synchronous(name, "").to(exits.leak())
        })
        .collect();
    Graph::new("Tangle", "Tangle", "", phases.leak())
}

#[test]
fn every_drawing_has_the_edges_of_the_graph() {
    for graph in [ROUTE, ODD, EMPTY, tangle()] {
        assert_eq!(
            edges_of_mermaid(&graph),
            edges(&graph),
            "{}",
            graph.mermaid()
        );
        assert_eq!(edges_of_dot(&graph), edges(&graph), "{}", graph.dot());
        assert_eq!(edges_of_table(&graph), edges(&graph), "{}", graph.table());
        assert_eq!(edges_of_json(&graph), edges(&graph), "{}", graph.json());
        assert_eq!(
            edges_of_drawing(&graph),
            edges(&graph),
            "{}",
            graph.drawing()
        );
    }
}

fn edges_of_mermaid(graph: &Graph) -> Edges {
    let text = graph.mermaid();
    let name = |id: &str| {
        text.lines()
            .find_map(|line| {
                let (label, alias) = line.trim().strip_prefix("state \"")?.split_once("\" as ")?;
                (alias == id).then(|| label.split("<br/>").next().unwrap().to_owned())
            })
            .unwrap()
    };
    text.lines()
        .filter_map(|line| line.trim().split_once(" --> "))
        .filter(|(from, to)| *from != "[*]" && *to != "[*]")
        .map(|(from, to)| (name(from), name(to)))
        .collect()
}

fn edges_of_dot(graph: &Graph) -> Edges {
    graph
        .dot()
        .lines()
        .filter_map(|line| line.trim().trim_end_matches(';').split_once(" -> "))
        .map(|(from, to)| {
            (
                from.trim_matches('"').to_owned(),
                to.trim_matches('"').to_owned(),
            )
        })
        .filter(|(from, _)| !from.is_empty())
        .collect()
}

fn edges_of_table(graph: &Graph) -> Edges {
    let mut edges = Edges::new();
    for row in graph.table().lines().skip(2) {
        let cells: Vec<_> = row.split(" | ").collect();
        let from = cells[0].trim_start_matches("| ").trim_matches('`');
        for to in cells[1].split(", ").filter(|to| !to.is_empty()) {
            edges.insert((from.to_owned(), to.trim_matches('`').to_owned()));
        }
    }
    edges
}

fn edges_of_json(graph: &Graph) -> Edges {
    let json: serde_json::Value = serde_json::from_str(&graph.json()).unwrap();
    let mut edges = Edges::new();
    for (from, state) in json["states"].as_object().unwrap() {
        let lists = [&state["on"], &state["after"]]
            .into_iter()
            .filter_map(|of| of.as_object())
            .flat_map(|of| of.values())
            .chain([&state["always"]]);
        for target in lists.filter_map(|list| list.as_array()).flatten() {
            edges.insert((from.clone(), target["target"].as_str().unwrap().to_owned()));
        }
    }
    edges
}

/// Follows the lines from each joint, up and down, to the row with the arrow.
fn edges_of_drawing(graph: &Graph) -> Edges {
    let drawing = graph.drawing();
    let rows: Vec<Vec<char>> = drawing.lines().map(|line| line.chars().collect()).collect();
    let at = |row: usize, column: usize| {
        rows.get(row)
            .and_then(|row| row.get(column))
            .copied()
            .unwrap_or(' ')
    };
    let name = |row: usize| {
        let row: String = rows[row].iter().collect();
        row.trim_start_matches(['>', ' '])
            .split(' ')
            .next()
            .unwrap()
            .to_owned()
    };
    let mut edges = Edges::new();
    for (row, cells) in rows.iter().enumerate() {
        if cells.get(2) != Some(&'└') {
            continue;
        }
        for column in (0..cells.len()).filter(|&column| cells[column] == 'o') {
            // A lane has one target: above or below, with other joints of the lane between.
            let up = ((0..row).rev().collect::<Vec<_>>(), ['┤', '┐']);
            let down = ((row + 1..rows.len()).collect(), ['┤', '┘']);
            for (steps, heads) in [up, down] {
                for next in steps {
                    match at(next, column) {
                        '│' | '┼' | 'o' => {}
                        head if heads.contains(&head) => {
                            edges.insert((name(row - 1), name(next)));
                            break;
                        }
                        _ => break,
                    }
                }
            }
        }
    }
    edges
}

/// SM-10: a joined graph is checked as a whole, and each mistake has its own message. SM-17: so is a joined machine of
/// more than 255 phases. A test in fom-macros shows that the attribute refuses the 256th phase of one enum.
#[test]
fn a_joined_graph_is_checked_as_a_whole() {
    use super::check::mistake;

    const END: PhaseInfo = PhaseInfo::end("End", "");
    const A: PhaseInfo = PhaseInfo::synchronous("A", "");
    const B: PhaseInfo = PhaseInfo::synchronous("B", "");
    let of = |phases: &'static [PhaseInfo]| {
        let said = mistake(&Graph::new("Machine", "Operation", "", phases));
        said.unwrap_or("nothing")
    };
    assert_eq!(of(const { &[A.to(&[1]).start(), END] }), "nothing");
    assert_eq!(
        of(const { &[A.to(&[1]), END] }),
        "no phase of the joined graph is its start"
    );
    assert_eq!(
        of(const { &[A.to(&[1]).start(), B.to(&[2]).start(), END] }),
        "two phases of the joined graph are its start"
    );
    assert_eq!(
        of(const { &[A.to(&[1]).start(), A.to(&[2]), END] }),
        "two phases of the joined graph have one name"
    );
    assert_eq!(
        of(const { &[A.to(&[2]).start(), END] }),
        "a way in the joined graph leads to no phase"
    );
    assert_eq!(
        of(const { &[A.to(&[1]).start(), B] }),
        "a phase of the joined graph goes nowhere and is no end, or is an end and goes on"
    );
    assert_eq!(
        of(const { &[A.to(&[2]).start(), B.to(&[2]), END] }),
        "no way leads to a phase of the joined graph"
    );
    assert_eq!(
        of(const { &[A.to(&[1, 2]).start(), B.to(&[1]), END] }),
        "no end can be reached from a phase of the joined graph"
    );
    assert_eq!(
        of(const { &[PhaseInfo::end("End", ""); 256] }),
        "a graph has 255 phases at most"
    );
}

/// SM-10: the places of the phases inside, their exits, and the phases in which a deadline goes on.
#[test]
fn two_graphs_are_joined() {
    use super::{Joined, Parts};

    struct Both;
    impl Parts for Both {
        const OPERATION_WAS: &'static [&'static [&'static str]] = &[];
        const OWN: &'static Graph = &Graph::new(
            "Outer",
            "",
            "",
            &[
                PhaseInfo::synchronous("Before", "")
                    .to(&[1])
                    .start()
                    .timed(Deadline::new().keep(&[1])),
                PhaseInfo::synchronous("Hold", "").inner(true).to(&[2, 1]),
                PhaseInfo::end("After", ""),
            ],
        );
        const OPERATION: &'static [&'static str] = &["Two<", ">"];
        const INNER: &'static Graph = &ROUTE;
    }
    let graph = Joined::<Both>::GRAPH;
    assert_eq!(graph.operation(), "Two<RouteCall>");
    let names: Vec<_> = graph.phases().iter().map(PhaseInfo::name).collect();
    assert_eq!(
        names,
        [
            "Before",
            "Hold.Locate",
            "Hold.Ring",
            "Hold.Talk",
            "Hold.Write",
            "Hold.Rejected",
            "Hold.Answered",
            "After"
        ]
    );
    let exits = |name| -> Vec<_> {
        let phase = graph.find(name).unwrap();
        graph.exits(phase).map(PhaseInfo::name).collect()
    };
    assert_eq!(exits("Before"), ["Hold.Locate"]);
    assert_eq!(
        exits("Hold.Ring"),
        ["Hold.Talk", "Hold.Ring", "Hold.Rejected"]
    );
    assert_eq!(exits("Hold.Rejected"), ["After", "Hold.Locate"]);
    let kept: Vec<_> = graph.kept_in(graph.find("Before").unwrap()).collect();
    assert_eq!(kept.len(), 6);
}
