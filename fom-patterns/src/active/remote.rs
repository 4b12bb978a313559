//! Calls of objects that are elsewhere: a call becomes bytes, and its answer too.

use std::{
    error::Error,
    fmt,
    future::Future,
    ops::Deref,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::active::{Active, ActiveCallError, Call, Canceller, ObjectRef};

/// The bytes of an answer, which come later.
pub type Answering = Pin<Box<dyn Future<Output = Vec<u8>> + Send>>;

/// A type with objects that other processes can call. [`active(remote)`](macro@crate::active) implements this trait.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be called from another process",
    label = "no `#[active(remote)] impl {Self}`",
    note = "write `#[active(remote)]` on the `impl` block with the methods to call, and derive `Serialize` and `Deserialize` for \
            their arguments and answers"
)]
pub trait RemoteActive: Active<Proxy: Deref<Target = ObjectRef>> {
    /// Calls the method with this name.
    #[doc(hidden)]
    fn call_by_name(
        proxy: &Self::Proxy,
        method: &str,
        arguments: &[u8],
    ) -> Result<Answering, Refusal>;
}

/// Carries calls to an object elsewhere, and brings the answers.
///
/// What a `Carrier` carries, [`answer`] answers at the other side.
pub trait Carrier: Send + Sync + 'static {
    /// Carries a call. If the future is dropped, the call is cancelled.
    fn carry(&self, call: Vec<u8>) -> Carrying;
}

/// An answer that a [`Carrier`] brings.
pub type Carrying = Pin<Box<dyn Future<Output = Result<Vec<u8>, NotCarried>> + Send>>;

/// A [`Carrier`] has brought no answer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum NotCarried {
    /// The other side has too much to do. The call fails with [`ActiveCallError::Full`].
    Full,
    /// Any other reason. The call fails with [`ActiveCallError::Elsewhere`].
    Failed(Arc<dyn Error + Send + Sync>),
}

/// Why an object elsewhere has not returned a value. Generated code names it.
#[doc(hidden)]
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Refusal {
    Full,
    Cancelled,
    TimedOut(Duration),
    Panicked(String),
    GuardPanicked(String),
    Ended,
    /// The two sides do not understand each other.
    Unreadable(String),
}

impl From<&ActiveCallError> for Refusal {
    fn from(error: &ActiveCallError) -> Self {
        match error {
            ActiveCallError::Full(_) => Self::Full,
            ActiveCallError::Cancelled => Self::Cancelled,
            ActiveCallError::TimedOut(time) => Self::TimedOut(*time),
            ActiveCallError::Panicked(message) => Self::Panicked(message.clone()),
            ActiveCallError::GuardPanicked(message) => Self::GuardPanicked(message.clone()),
            ActiveCallError::Ended => Self::Ended,
            other => Self::Unreadable(other.to_string()),
        }
    }
}

/// The error of a call that was carried. `None` for a full list: then the call gives its arguments back.
pub(super) fn refused(refusal: Refusal) -> Option<ActiveCallError> {
    Some(match refusal {
        Refusal::Full => return None,
        Refusal::Cancelled => ActiveCallError::Cancelled,
        Refusal::TimedOut(time) => ActiveCallError::TimedOut(time),
        Refusal::Panicked(message) => ActiveCallError::Panicked(message),
        Refusal::GuardPanicked(message) => ActiveCallError::GuardPanicked(message),
        Refusal::Ended => ActiveCallError::Ended,
        Refusal::Unreadable(why) => elsewhere(why),
    })
}

pub(super) fn elsewhere(why: String) -> ActiveCallError {
    let error: Box<dyn Error + Send + Sync> = why.into();
    ActiveCallError::Elsewhere(error.into())
}

/// What can be sent to another process.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be sent to another process",
    label = "the arguments or the answer of a remote method",
    note = "derive serde's `Serialize` and `Deserialize` for it, or make the function private"
)]
pub trait Sent: Serialize + DeserializeOwned {}

#[diagnostic::do_not_recommend]
impl<T: Serialize + DeserializeOwned> Sent for T {}

/// Whether calls of a method can be sent, and how.
#[doc(hidden)]
pub trait Codec<Args, T>: Send + 'static {
    /// Returns `None` if calls stay in the process.
    fn encode(&self, args: &Args) -> Option<Result<Vec<u8>, String>>;
    fn decode(&self, answer: &[u8]) -> Result<Result<T, Refusal>, String>;
}

/// Calls stay in the process.
#[doc(hidden)]
#[derive(Debug)]
pub struct Local;

impl<Args, T> Codec<Args, T> for Local {
    fn encode(&self, _: &Args) -> Option<Result<Vec<u8>, String>> {
        None
    }

    fn decode(&self, _: &[u8]) -> Result<Result<T, Refusal>, String> {
        Err("the method has no form for other processes".to_owned())
    }
}

/// Calls can be sent. Generated code makes it, at one place for each method: so a type that cannot be sent is reported once.
#[doc(hidden)]
pub struct Remote<Args, T> {
    encode: fn(&Args) -> Coded<Vec<u8>>,
    decode: fn(&[u8]) -> Coded<Result<T, Refusal>>,
    read: fn(&[u8]) -> Coded<Args>,
    write: Write<T>,
}

/// What was encoded or decoded, or why that failed.
type Coded<T> = Result<T, String>;

/// Encodes an answer.
type Write<T> = fn(Result<&T, Refusal>) -> Coded<Vec<u8>>;

impl<Args, T> fmt::Debug for Remote<Args, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Remote")
    }
}

impl<Args: Sent, T: Sent> Remote<Args, T> {
    #[allow(clippy::new_without_default, reason = "only generated code calls it")]
    #[must_use]
    pub fn new() -> Self {
        Self {
            encode: |args| rmp_serde::to_vec_named(args).map_err(|error| error.to_string()),
            decode: |answer| rmp_serde::from_slice(answer).map_err(|error| error.to_string()),
            read: |args| rmp_serde::from_slice(args).map_err(|error| error.to_string()),
            write: |answer| rmp_serde::to_vec_named(&answer).map_err(|error| error.to_string()),
        }
    }
}

impl<Args, T: Send + 'static> Remote<Args, T> {
    /// Calls a method whose arguments are bytes.
    pub fn answer(
        self,
        arguments: &[u8],
        call: impl FnOnce(Args) -> Call<T>,
    ) -> Result<Answering, Refusal> {
        let arguments = (self.read)(arguments).map_err(|error| {
            Refusal::Unreadable(format!("the arguments of a call cannot be read: {error}"))
        })?;
        let call = call(arguments);
        Ok(Box::pin(Answered {
            canceller: call.canceller(),
            call,
            write: self.write,
        }))
    }
}

impl<Args: 'static, T: 'static> Codec<Args, T> for Remote<Args, T> {
    fn encode(&self, args: &Args) -> Option<Result<Vec<u8>, String>> {
        Some((self.encode)(args))
    }

    fn decode(&self, answer: &[u8]) -> Result<Result<T, Refusal>, String> {
        (self.decode)(answer)
    }
}

/// A call as bytes: the name of the method, and its arguments.
#[derive(Serialize, Deserialize)]
pub(super) struct Encoded<'a> {
    method: &'a str,
    #[serde(with = "bytes")]
    arguments: Vec<u8>,
}

/// Bytes as bytes, and not as a list of numbers.
mod bytes {
    use std::fmt;

    use serde::{Deserializer, Serializer, de};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bytes(bytes)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        struct Visitor;

        impl de::Visitor<'_> for Visitor {
            type Value = Vec<u8>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bytes")
            }

            fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
                Ok(bytes.to_vec())
            }
        }

        from.deserialize_bytes(Visitor)
    }
}

/// Returns a call as bytes.
pub(super) fn encode(method: &str, arguments: Vec<u8>) -> Vec<u8> {
    let encoded = Encoded { method, arguments };
    // Text and bytes can be encoded.
    rmp_serde::to_vec(&encoded).unwrap_or_default()
}

/// Answers a call that a [`Carrier`] has carried: queues it for the object, and returns the answer for the carrier. If the future
/// is dropped, the call is cancelled.
pub fn answer<A: RemoteActive>(proxy: &A::Proxy, call: &[u8]) -> Answering {
    let called = match rmp_serde::from_slice::<Encoded<'_>>(call) {
        Ok(call) => A::call_by_name(proxy, call.method, &call.arguments),
        Err(error) => Err(Refusal::Unreadable(format!(
            "a call of `{}` is damaged: {error}",
            A::NAME
        ))),
    };
    called.unwrap_or_else(|refusal| {
        let answer = refusal_bytes(&refusal);
        Box::pin(std::future::ready(answer))
    })
}

/// Returns the answer to calls that fail for this reason.
pub fn failure(why: impl fmt::Display) -> Vec<u8> {
    refusal_bytes(&Refusal::Unreadable(why.to_string()))
}

fn refusal_bytes(refusal: &Refusal) -> Vec<u8> {
    let answer: Result<(), &Refusal> = Err(refusal);
    // Texts and numbers can be encoded.
    rmp_serde::to_vec_named(&answer).unwrap_or_default()
}

/// The object has no such method. Generated code calls it.
#[doc(hidden)]
pub fn no_method<A: Active>(method: &str) -> Result<Answering, Refusal> {
    Err(Refusal::Unreadable(format!(
        "`{}` has no method `{method}` at its node; the node has another release",
        A::NAME
    )))
}

/// The answer of an object as bytes. Cancels the call if it is dropped.
struct Answered<T> {
    call: Call<T>,
    canceller: Canceller,
    write: Write<T>,
}

impl<T> Future for Answered<T> {
    type Output = Vec<u8>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Vec<u8>> {
        Pin::new(&mut self.call).poll(cx).map(|outcome| {
            let outcome = outcome.as_ref().map_err(Refusal::from);
            (self.write)(outcome)
                .unwrap_or_else(|error| failure(format_args!("the answer cannot be sent: {error}")))
        })
    }
}

impl<T> Drop for Answered<T> {
    fn drop(&mut self) {
        self.canceller.cancel();
    }
}
