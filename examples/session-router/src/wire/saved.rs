//! The journal form of messages: their text on the wire. Each module is for `#[serde(with)]`.

use std::fmt;
use std::str::FromStr;

use rsipstack::sip;
use serde::de::{Deserialize, Deserializer, Error};
use serde::ser::{Serialize, Serializer};

/// Any value with a text form: a method, a version.
pub(crate) mod text {
    use super::*;

    pub(crate) fn serialize<T: fmt::Display, S: Serializer>(
        value: &T,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_str(value)
    }

    pub(crate) fn deserialize<'de, T, D>(from: D) -> Result<T, D::Error>
    where
        T: FromStr,
        T::Err: fmt::Display,
        D: Deserializer<'de>,
    {
        String::deserialize(from)?.parse().map_err(Error::custom)
    }
}

/// A URI. User and password are separate: the parser does not read every escape in them as it wrote it.
pub(crate) mod uri {
    use super::*;

    #[derive(serde::Serialize, serde::Deserialize)]
    pub(super) struct Parts {
        user: Option<String>,
        password: Option<String>,
        rest: String,
    }

    impl From<&sip::Uri> for Parts {
        fn from(uri: &sip::Uri) -> Parts {
            let mut rest = uri.clone();
            let auth = rest.auth.take();
            let (user, password) = auth.map(|auth| (auth.user, auth.password)).unzip();
            Parts {
                user,
                password: password.flatten(),
                rest: rest.to_string(),
            }
        }
    }

    impl Parts {
        pub(super) fn uri<E: Error>(self) -> Result<sip::Uri, E> {
            let mut uri: sip::Uri = self.rest.parse().map_err(E::custom)?;
            uri.auth = self.user.map(|user| sip::Auth {
                user,
                password: self.password,
            });
            Ok(uri)
        }
    }

    pub(crate) fn serialize<S: Serializer>(uri: &sip::Uri, to: S) -> Result<S::Ok, S::Error> {
        Parts::from(uri).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<sip::Uri, D::Error> {
        Parts::deserialize(from)?.uri()
    }
}

/// A URI that may be absent.
pub(crate) mod maybe_uri {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(
        uri: &Option<sip::Uri>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        uri.as_ref().map(uri::Parts::from).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<sip::Uri>, D::Error> {
        let parts = Option::<uri::Parts>::deserialize(from)?;
        parts.map(uri::Parts::uri).transpose()
    }
}

/// Headers, one a line.
pub(crate) mod headers {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(
        headers: &sip::Headers,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_str(headers)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<sip::Headers, D::Error> {
        let lines = String::deserialize(from)?;
        if lines.is_empty() {
            return Ok(sip::Headers::default());
        }
        // The parser reads whole messages only.
        sip::Response::try_from(format!("SIP/2.0 200 OK\r\n{lines}\r\n"))
            .map(|response| response.headers)
            .map_err(Error::custom)
    }
}

/// A request, in parts: a finished request has no headers any more, and the parser would not read the rest.
pub(crate) mod request {
    use super::*;

    #[derive(serde::Serialize, serde::Deserialize)]
    #[serde(remote = "sip::Request")]
    struct Parts {
        #[serde(with = "text")]
        method: sip::Method,
        #[serde(with = "uri")]
        uri: sip::Uri,
        #[serde(with = "text")]
        version: sip::Version,
        #[serde(with = "headers")]
        headers: sip::Headers,
        #[serde(with = "serde_bytes")]
        body: Vec<u8>,
    }

    pub(crate) fn serialize<S: Serializer>(
        request: &sip::Request,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        Parts::serialize(request, to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<sip::Request, D::Error> {
        Parts::deserialize(from)
    }

    /// A request that may be absent.
    pub(crate) mod maybe {
        use super::*;

        #[derive(serde::Serialize)]
        struct Borrowed<'a>(#[serde(with = "super")] &'a sip::Request);
        #[derive(serde::Deserialize)]
        struct Owned(#[serde(with = "super")] sip::Request);

        pub(crate) fn serialize<S: Serializer>(
            request: &Option<sip::Request>,
            to: S,
        ) -> Result<S::Ok, S::Error> {
            request.as_ref().map(Borrowed).serialize(to)
        }

        pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
            from: D,
        ) -> Result<Option<sip::Request>, D::Error> {
            Ok(Option::<Owned>::deserialize(from)?.map(|owned| owned.0))
        }
    }
}

/// A response, as its bytes.
pub(crate) mod response {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(
        response: &sip::Response,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.serialize_bytes(&response.to_bytes())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<sip::Response, D::Error> {
        let bytes = serde_bytes::ByteBuf::deserialize(from)?.into_vec();
        sip::Response::try_from(bytes).map_err(Error::custom)
    }
}
