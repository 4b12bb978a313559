//! The compiler's messages for mistakes, and code that must compile.

#[test]
fn mistakes() {
    trybuild::TestCases::new().compile_fail("tests/ui/fail/*.rs");
}

#[test]
fn all_of_this_compiles() {
    trybuild::TestCases::new().pass("tests/ui/pass/*.rs");
}
