//! Makes a module of each chapter, and refuses a book whose code would not all be tested.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-changed=src");
    println!("cargo::rerun-if-changed=../README.md");
    let book = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let mut mistakes = Vec::new();

    let mut files = BTreeSet::new();
    chapters_under(&book.join("src"), &book.join("src"), &mut files);
    let summary = read(&book.join("src/SUMMARY.md"));
    let listed: BTreeSet<String> = links(&summary).collect();
    for chapter in listed.difference(&files) {
        mistakes.push(format!("SUMMARY.md lists {chapter}, which is not there"));
    }
    for chapter in files.difference(&listed) {
        mistakes.push(format!("{chapter} is not listed in SUMMARY.md"));
    }

    let mut modules = String::new();
    for chapter in &files {
        module(
            &mut modules,
            chapter,
            &book.join("src").join(chapter),
            &mut mistakes,
        );
    }
    let readme = book.join("../README.md");
    if readme.exists() {
        let whole = out.join("README.md");
        fs::write(&whole, joined(&read(&readme))).expect("the build's own folder can be written");
        module(&mut modules, "README.md", &whole, &mut mistakes);
    }

    for mistake in &mistakes {
        println!("cargo::error={mistake}");
    }
    fs::write(out.join("chapters.rs"), modules).expect("the build's own folder can be written");
}

/// The Markdown files below `folder`, as they are written in SUMMARY.md.
fn chapters_under(root: &Path, folder: &Path, chapters: &mut BTreeSet<String>) {
    let entries =
        fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    for entry in entries {
        let path = entry.expect("a folder that can be listed").path();
        if path.is_dir() {
            chapters_under(root, &path, chapters);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            let chapter = path.strip_prefix(root).expect("it was found there");
            let chapter = chapter
                .to_str()
                .expect("chapters have plain names")
                .replace('\\', "/");
            if chapter != "SUMMARY.md" {
                chapters.insert(chapter);
            }
        }
    }
}

fn links(summary: &str) -> impl Iterator<Item = String> {
    summary
        .lines()
        .filter_map(|line| line.split_once("](")?.1.split_once(')'))
        .map(|(target, _)| target.trim_start_matches("./").to_owned())
        .filter(|target| !target.is_empty())
}

fn module(modules: &mut String, chapter: &str, file: &Path, mistakes: &mut Vec<String>) {
    let mut fenced = false;
    for (index, line) in read(file).lines().enumerate() {
        if let Some(language) = line.trim_start().strip_prefix("```") {
            fenced = !fenced;
            if fenced && language.trim().is_empty() {
                mistakes.push(format!(
                    "{chapter}:{}: a code block without a language is taken for Rust; write ```text or ```rust",
                    index + 1
                ));
            }
        }
    }
    if fenced {
        mistakes.push(format!("{chapter}: a code block is not closed"));
    }
    let name = chapter
        .trim_end_matches(".md")
        .replace(|char: char| !char.is_ascii_alphanumeric(), "_");
    // The name of a page about a key can be a word of the language.
    let _ = writeln!(
        modules,
        "#[doc = include_str!({:?})]\npub mod page_{} {{}}",
        file,
        name.to_lowercase()
    );
}

/// The README shows one program in parts, with text between them; here they are one again.
fn joined(readme: &str) -> String {
    let parts: Vec<&str> = readme
        .split("```rust\n")
        .skip(1)
        .map(|rest| rest.split("\n```").next().unwrap_or(rest))
        .collect();
    format!("```rust\n{}\n```\n", parts.join("\n\n"))
}

fn read(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}
