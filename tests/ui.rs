//! What the compiler says to mistakes, and what has to compile.

#[test]
fn mistakes() {
    trybuild::TestCases::new().compile_fail("tests/ui/fail/*.rs");
}

#[test]
fn all_of_this_compiles() {
    trybuild::TestCases::new().pass("tests/ui/pass/*.rs");
}
