//! Admission: intakes in front of the localities, with policies, rates and limits.

#[path = "../../../fom-runtime/tests/kit/mod.rs"]
mod kit;

mod intake;
mod policies;
mod queue;
mod rates;
mod shutdown;
mod switching;
