//! Linking an operation is enough for the runtime to know it.
#![forbid(unsafe_code)]

use std::any::TypeId;

use fom_lint::Call;
use fom_runtime::{
    __private::{Registered, registered},
    machine::{Durability, Savable},
    prelude::*,
};
use serde::{Deserialize, Serialize};

fn known() -> Vec<(TypeId, &'static str, Durability)> {
    registered()
        .map(Registered::restorer)
        .map(|one| (one.type_id(), one.graph().name(), one.durability()))
        .collect()
}

fn is_known<O: Operation>() -> bool {
    let name = O::GRAPH.name();
    known().contains(&(TypeId::of::<O>(), name, O::DURABILITY))
}

/// The program knows an operation that a library declares, even if the program uses only its name, and although the
/// library's lints forbid unsafe code.
#[test]
fn an_operation_of_a_library_is_known() {
    assert!(is_known::<Call>(), "{:?}", known());
    assert_eq!(Call::DURABILITY, Durability::Sync);
}

/// Returns whether an operation with the same name as another is known.
fn other_is_known() -> bool {
    #[derive(Debug, Serialize, Deserialize)]
    struct Call;

    #[fom(operation(Call), durability = "lazy")]
    #[derive(Debug)]
    enum Route {
        #[phase(start, to(Done))]
        Begin,
        #[phase(end)]
        Done,
    }

    impl RouteTransitions for Call {
        async fn begin(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
            Ok(())
        }
    }

    is_known::<Call>() && Call::DURABILITY == Durability::Lazy
}

/// An operation declared inside a function is known, too, with any durability. Two operations with one name are two.
#[test]
fn operations_of_functions_are_known() {
    #[derive(Debug, Serialize, Deserialize)]
    struct Quick;

    #[fom(operation(Quick), durability = "none")]
    #[derive(Debug)]
    enum Inner {
        #[phase(start, to(Done), sync)]
        Begin,
        #[phase(end)]
        Done,
    }

    impl InnerTransitions for Quick {
        fn begin(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
            Ok(())
        }
    }

    assert!(is_known::<Quick>(), "{:?}", known());
    assert_eq!(Quick::DURABILITY, Durability::None);
    assert!(other_is_known() && is_known::<Call>(), "{:?}", known());
}

/// A generic operation is many types, and a transient one is never saved. Neither is known.
#[test]
fn generic_and_transient_operations_are_not_known() {
    #[derive(Debug, Serialize, Deserialize)]
    struct Job<T> {
        item: T,
    }

    #[fom(operation("Job<T>"), generics("T: Savable + Send + 'static"))]
    #[derive(Debug)]
    enum Working {
        #[phase(start, to(Done))]
        Work,
        #[phase(end)]
        Done,
    }

    impl<T: Savable + Send + 'static> WorkingTransitions for Job<T> {
        async fn work(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
            let _ = &self.item;
            Ok(())
        }
    }

    #[derive(Debug)]
    struct Brief;

    #[fom(operation(Brief), transient, durability = "none")]
    #[derive(Debug)]
    enum Passing {
        #[phase(start, to(Done))]
        Begin,
        #[phase(end)]
        Done,
    }

    impl PassingTransitions for Brief {
        async fn begin(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
            Ok(())
        }
    }

    assert!(
        !is_known::<Job<u8>>() && !is_known::<Brief>(),
        "{:?}",
        known()
    );
    assert_eq!(Job::<u8>::DURABILITY, Durability::Sync);
    assert_eq!(Brief::DURABILITY, Durability::None);
}
