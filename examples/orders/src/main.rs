//! The first release of the order service.

#[tokio::main]
async fn main() -> Result<(), fom_runtime::prelude::BoxError> {
    orders::serve::serve().await
}
