//! A fault that the sanitizer must find: see `run`.

fn main() {
    let memory = Box::into_raw(Box::new(7_u64));
    // SAFETY: the pointer came out of a box.
    drop(unsafe { Box::from_raw(memory) });
    // SAFETY: none, on purpose: the memory is freed.
    println!("{}", unsafe { std::hint::black_box(memory).read_volatile() });
}
