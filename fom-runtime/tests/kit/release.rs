//! Several releases of one machine: modules in which the operation and its phases have the same names.

/// A release: the arguments of `#[fom(operation(Call) ..)]`, the operation's fields, and its phases without the first.
/// The first may go to each of the phases named in `to`.
macro_rules! release {
    ($name:ident($($args:tt)*) struct { $($fields:tt)* } to($($to:ident),*) { $($phases:tt)* }) => {
        #[allow(dead_code, unused_imports, reason = "a release has more than a test asks for")]
        mod $name {
            use super::*;

            #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
            pub(super) struct Call {
                $($fields)*
            }

            #[derive(Clone, Debug, PartialEq)]
            #[fom_runtime::fom(operation(Call) $($args)*)]
            pub(super) enum Route {
                #[phase(start, sync, to($($to),*))]
                Begin,
                $($phases)*
            }

            impl RouteTransitions for Call {
                fn begin(
                    &mut self,
                    _: &mut fom_runtime::Cx<'_>,
                ) -> Result<RouteAfterBegin, fom_runtime::error::BoxError> {
                    Err("it is never run".into())
                }
            }
        }
    };
}

pub(crate) use release;
