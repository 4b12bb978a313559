//! What is in a layout and in a picture.

use std::collections::BTreeSet;

use fom_draw::{EdgeKind, NodeKind, Placing, Scheme, prelude::*};
use fom_runtime::machine::{Graph, PhaseInfo};
use roxmltree::Document;

use crate::machines::{EMPTY, LAYERED, PAYMENT, SMALL, STAGE};

#[test]
fn the_field_names_of_a_layout_are_fixed() {
    let layout = serde_json::to_string_pretty(&SMALL.layout()).unwrap();
    insta::assert_snapshot!("layout_small", layout);
    let layout = serde_json::to_string_pretty(&PAYMENT.layout()).unwrap();
    insta::assert_snapshot!("layout_payment", layout);
}

#[test]
fn pictures() {
    insta::assert_snapshot!("picture_stage", STAGE.svg());
    insta::assert_snapshot!("picture_payment", PAYMENT.svg());
    insta::assert_snapshot!("picture_layered", LAYERED.layout().svg_in(Scheme::Dark));
}

#[test]
fn edges_say_when_foms_take_them() {
    let layout = PAYMENT.layout();
    let edge = |from, to| {
        let mut edges = layout.edges.iter();
        edges
            .find(|edge| edge.from == from && edge.to == to)
            .unwrap()
    };
    assert_eq!(edge("Confirm", "Paid").kind, EdgeKind::Plain);
    assert_eq!(edge("Reserve", "Refund").kind, EdgeKind::Failed);
    assert_eq!(edge("Confirm", "Refund").kind, EdgeKind::FailedOrCancelled);
    assert_eq!(edge("Confirm", "Confirm").name, Some("ask again"));
    assert!(!edge("Confirm", "Confirm").late);

    let stage = STAGE.layout();
    let late = stage.edges.iter().filter(|edge| edge.late);
    let late: Vec<_> = late.map(|edge| (edge.from, edge.to)).collect();
    let expected = [
        ("Locate", "Ring"),
        ("Locate", "Record"),
        ("Talk", "Talk"),
        ("Talk", "Record"),
    ];
    assert_eq!(late, expected);
}

#[test]
fn a_phase_is_below_the_phases_that_lead_to_it() {
    let layout = STAGE.layout();
    assert_eq!(layout.placing, Placing::Rows);
    let y = |name| {
        layout
            .nodes
            .iter()
            .find(|node| node.name == name)
            .unwrap()
            .y
    };
    assert!(y("Locate") < y("Ring") && y("Ring") < y("Talk") && y("Talk") < y("Record"));
    assert!(y("Record") < y("Linger") && y("Linger") < y("Completed"));
}

/// Failures differ from the rest by dashes, crosses and arrows, so that the colours are not needed.
#[test]
fn each_sign_differs_in_its_form() {
    let text = PAYMENT.layout().svg_in(Scheme::Light);
    let picture = Document::parse(&text).unwrap();
    let with = |class: &str| {
        let nodes = picture.descendants();
        nodes
            .filter(|node| {
                node.attribute("class")
                    .is_some_and(|all| all.split(' ').any(|one| one == class))
            })
            .count()
    };
    // One in a marker.
    assert_eq!(with("fom-start"), 1 + 1);
    assert_eq!(with("fom-end"), 2);
    assert_eq!((with("fom-bad"), with("fom-cross")), (1, 1));
    assert_eq!((with("fom-edge"), with("fom-failed")), (9, 2));
    assert!(text.contains("fom-failed{stroke-dasharray"));
    let open = picture.descendants().filter(|node| {
        node.attribute("marker-end")
            .is_some_and(|marker| marker.ends_with("open)"))
    });
    assert_eq!(open.count(), 2);
}

#[test]
fn a_picture_follows_the_scheme_of_its_reader() {
    let layout = STAGE.layout();
    let reader = layout.svg();
    assert!(reader.contains("@media(prefers-color-scheme:dark)"));
    assert!(reader.contains("var(--fom-ink,"));
    for fixed in [Scheme::Light, Scheme::Dark] {
        let fixed = layout.svg_in(fixed);
        assert!(!fixed.contains("var(") && !fixed.contains("@media"));
        assert!(!reader.eq(&fixed));
    }
    assert_ne!(layout.svg_in(Scheme::Light), layout.svg_in(Scheme::Dark));
}

/// A program that knows no variables takes the declaration before: the light colours.
#[test]
fn each_variable_has_a_plain_colour_before_it() {
    let picture = STAGE.svg();
    for (at, _) in picture.match_indices(":var(--f-") {
        let before = picture[..at].rsplit(['{', ';']).nth(1).unwrap();
        assert!(before.contains(":#"), "{before}");
    }
}

#[test]
fn text_of_the_machine_is_no_markup() {
    let text = PAYMENT.svg();
    let picture = Document::parse(&text).unwrap();
    let mut texts = picture.descendants().filter_map(|node| node.text());
    assert!(texts.any(|text| text == "no money & <no> \"credit\""));
}

#[test]
fn a_reader_that_sees_no_picture_gets_a_sentence() {
    let text = SMALL.svg();
    let picture = Document::parse(&text).unwrap();
    let find = |tag| {
        let mut nodes = picture.root_element().children();
        nodes
            .find(|node| node.has_tag_name(tag))
            .and_then(|node| node.text())
    };
    assert_eq!(find("title"), Some("Step, the phases of Job"));
    assert_eq!(find("desc"), Some("Work leads to Done. Done is an end."));
}

#[test]
fn layers_are_boxes_around_what_is_inside() {
    let layout = LAYERED.layout();
    let paths: Vec<_> = layout.groups.iter().map(|group| group.path).collect();
    assert_eq!(paths, ["Serve", "Serve.Trace"]);
    let [outer, inner] = &layout.groups[..] else {
        panic!("there are two")
    };
    assert!(outer.x < inner.x && inner.x + inner.width < outer.x + outer.width);
    assert!(outer.y < inner.y && inner.y + inner.height < outer.y + outer.height);
    let open = layout
        .nodes
        .iter()
        .find(|node| node.name == "Serve.Trace.Open")
        .unwrap();
    assert_eq!((&*open.label, open.kind), ("Open", NodeKind::Async));
}

#[test]
fn a_count_of_eight_digits_fits_beside_each_label() {
    for node in STAGE.layout().nodes {
        assert!(node.count.x <= node.x + node.width && node.count.y <= node.y + node.height);
        // A letter of 13.5 pixels is at most as wide as 0.7 of that, on the average.
        let label = node.label.len() as f64 * 13.5 * 0.7;
        assert!(
            node.count.x - (node.x + 12.0) >= label + 50.0 - 13.5,
            "{}",
            node.name
        );
    }
}

#[test]
fn a_graph_without_phases_is_an_empty_picture() {
    let layout = EMPTY.layout();
    assert!(layout.nodes.is_empty() && layout.start.is_none());
    Document::parse(&layout.svg()).unwrap();
}

/// Each phase leads to three others, far away: rows of these would take minutes.
#[test]
fn a_graph_that_is_too_large_for_rows_gets_a_column() {
    const COUNT: usize = 255;
    let phases = (0..COUNT).map(|index| {
        let exits = [(index * 3 + 1) % COUNT, (index * 10 + 6) % COUNT, index];
        let exits: BTreeSet<u16> = exits.map(|exit| exit as u16).into();
        let exits: Vec<u16> = exits.into_iter().collect();
        let phase = PhaseInfo::asynchronous(format!("Phase{index}").leak(), "");
        let phase = phase.to(exits.leak());
        if index == 0 { phase.start() } else { phase }
    });
    let graph = Graph::new("Large", "Large", "", phases.collect::<Vec<_>>().leak());
    let layout = graph.layout();
    assert_eq!(layout.placing, Placing::Column);
    crate::random::check(&graph, &layout);
    let tops = layout.nodes.windows(2);
    assert!(tops.into_iter().all(|pair| pair[0].y < pair[1].y));
}
