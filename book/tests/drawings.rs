//! The drawings in the book and in the README are those of the machines.
//!
//! `INSTA_UPDATE=always cargo test -p fom-book --test drawings` writes them anew.

use std::{env, fs, path::Path};

use fom_draw::prelude::*;
use fom_runtime::prelude::*;

#[path = "../../examples/hello.rs"]
#[allow(dead_code)]
mod hello;

#[path = "../../examples/layers.rs"]
#[allow(dead_code)]
mod layers;

#[test]
fn drawings_show_the_machines() {
    let drawings = [
        ("route", hello::graph().svg()),
        ("layers", layers::graph().svg()),
        ("stage", session_router::call::Call::GRAPH.svg()),
        ("step", session_router::registrar::Registration::GRAPH.svg()),
        ("fulfil", orders::order::Order::GRAPH.svg()),
    ];
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/drawings");
    let update = env::var("INSTA_UPDATE").is_ok_and(|update| update == "always");
    let mut stale = Vec::new();
    for (name, drawing) in &drawings {
        let file = folder.join(format!("{name}.svg"));
        if update {
            fs::write(&file, drawing).expect("the folder of the drawings");
        }
        if fs::read_to_string(&file).unwrap_or_default() != *drawing {
            stale.push(*name);
        }
        assert!(
            drawing.len() < 16 * 1024,
            "{name} is too large for the book"
        );
    }
    assert!(
        stale.is_empty(),
        "{stale:?} in book/src/drawings are not those of the machines; `INSTA_UPDATE=always cargo test -p fom-book \
         --test drawings` writes them anew"
    );
    assert_eq!(
        files(&folder),
        drawings.len(),
        "a drawing belongs to no machine"
    );
}

/// Each drawing is in a page of the book, or in the README.
#[test]
fn each_drawing_is_shown() {
    let book = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut pages = fs::read_to_string(book.join("../README.md")).unwrap();
    read(&book.join("src"), &mut pages);
    for entry in fs::read_dir(book.join("src/drawings")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(
            pages.contains(&format!("drawings/{name})")),
            "no page shows {name}"
        );
    }
}

fn files(folder: &Path) -> usize {
    fs::read_dir(folder).map_or(0, Iterator::count)
}

fn read(folder: &Path, pages: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read(&path, pages);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            pages.push_str(&fs::read_to_string(path).unwrap());
        }
    }
}
