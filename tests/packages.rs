//! The packages that are published: each has its own licence texts, README and metadata.

use std::{fs, path::Path};

/// The packages that are published.
const PACKAGES: [&str; 19] = [
    "fom-macros",
    "fom-protocol",
    "fom-journal",
    "fom-runtime",
    "fom-durable",
    "fom-patterns",
    "fom-draw",
    "fom-inspect",
    "fom-cli",
    "fom-watch",
    "fom-metrics",
    "fom-tracing",
    "fom-recorder",
    "fom-net",
    "fom-postgres",
    "fom-nats",
    "fom-cluster",
    "fom-objects",
    "fom-sim",
];

#[test]
fn each_package_has_the_licence_texts_of_the_workspace() {
    for package in PACKAGES {
        for text in ["LICENSE-MIT", "LICENSE-APACHE"] {
            let own = read(&format!("{package}/{text}"));
            assert!(own == read(text), "{package}/{text} differs from {text}");
        }
    }
}

#[test]
fn each_package_has_a_readme_with_a_compiled_example() {
    for package in PACKAGES {
        let readme = read(&format!("{package}/README.md"));
        assert!(readme.starts_with(&format!("# {package}\n")), "{package}");
        assert!(readme.contains("```rust\n"), "{package} has no example");
        assert!(readme.contains("cargo add"), "{package} says how to add it");
        let library = read(&format!("{package}/src/lib.rs"));
        let compiled = "#[cfg(doctest)]\n#[doc = include_str!(\"../README.md\")]";
        assert!(library.contains(compiled), "{package} does not compile it");
    }
}

/// The page of a package at crates.io has no files beside it.
#[test]
fn a_readme_links_to_no_file() {
    for package in PACKAGES {
        for link in read(&format!("{package}/README.md")).split("](").skip(1) {
            assert!(link.starts_with("https://docs.rs/"), "{package}: {link}");
        }
    }
}

#[test]
fn each_package_has_the_metadata_of_a_registry() {
    for package in PACKAGES {
        let manifest = read(&format!("{package}/Cargo.toml"));
        for line in [
            "license.workspace = true".to_owned(),
            "include.workspace = true".to_owned(),
            format!("documentation = \"https://docs.rs/{package}\""),
            "[package.metadata.docs.rs]".to_owned(),
        ] {
            assert!(manifest.lines().any(|own| own == line), "{package}: {line}");
        }
        let counts = [
            ("description", 1..2),
            ("keywords", 1..6),
            ("categories", 1..6),
        ];
        for (key, count) in counts {
            let values = manifest
                .lines()
                .find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "))
                .unwrap_or_else(|| panic!("{package} has no {key}"));
            let found = values.matches('"').count() / 2;
            assert!(count.contains(&found), "{package}: {found} {key}");
        }
    }
}

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
