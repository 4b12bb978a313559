//! A type without the attribute.
use fom_patterns::prelude::*;

struct Shop;

fn main() -> Result<(), BoxError> {
    let runtime = Runtime::new()?;
    let _shop = Active::activate(Shop, &runtime)?;
    Ok(())
}
