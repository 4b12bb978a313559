//! The compiler's messages for mistakes, and code that must compile.

#[test]
fn mistakes() {
    trybuild::TestCases::new().compile_fail("tests/ui/fail/*.rs");
}

#[test]
fn all_of_this_compiles() {
    trybuild::TestCases::new().pass("tests/ui/pass/*.rs");
}

/// A message of rustc is written here as often as `cargo check --message-format=json` carries it: trybuild takes the
/// messages from there, and `mistakes` compares them.
#[test]
fn no_message_comes_twice() {
    let mut twice = Vec::new();
    for entry in std::fs::read_dir("tests/ui/fail").expect("the cases") {
        let path = entry.expect("a case").path();
        if path
            .extension()
            .is_none_or(|extension| extension != "stderr")
        {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("the messages of a case");
        let mut seen = std::collections::BTreeSet::new();
        for message in text.split("\n\n") {
            let place = message
                .lines()
                .find(|line| line.trim_start().starts_with("-->"));
            let (Some(words), Some(place)) = (message.lines().next(), place) else {
                continue;
            };
            if !seen.insert((words.to_owned(), place.trim_start().to_owned())) {
                twice.push(format!("{}: {words}", path.display()));
            }
        }
    }
    assert!(twice.is_empty(), "these come twice: {twice:#?}");
}
