//! How values of `a2a-identity` stand in JSON: as the texts that people write.

/// What has a text that it is read from.
pub(super) mod text {
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::{Deserialize as _, Deserializer, Serializer, de};

    pub(crate) fn serialize<T: Display, S: Serializer>(
        value: &T,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_str(value)
    }

    pub(crate) fn deserialize<'de, T, D>(deserializer: D) -> Result<T, D::Error>
    where
        T: FromStr<Err: Display>,
        D: Deserializer<'de>,
    {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

/// A key in base64url, or none.
pub(super) mod key {
    use a2a_identity::VerifyingKey;
    use canonical::base64url;
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer, de};

    pub(crate) fn serialize<S: Serializer>(
        key: &Option<VerifyingKey>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let text = key.as_ref().map(|key| base64url::encode(&key.to_bytes()));
        text.serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<VerifyingKey>, D::Error> {
        let Some(text) = Option::<String>::deserialize(deserializer)? else {
            return Ok(None);
        };
        let bytes = base64url::decode(&text).ok();
        let bytes: Option<[u8; 32]> = bytes.and_then(|bytes| bytes.try_into().ok());
        let bytes = bytes.ok_or_else(|| de::Error::custom("a key is 32 bytes in base64url"))?;
        let key = VerifyingKey::from_bytes(&bytes).map_err(de::Error::custom)?;
        Ok(Some(key))
    }
}

/// A trust level by its name.
pub(super) mod level {
    use a2a_identity::TrustLevel;
    use serde::{Deserialize as _, Deserializer, Serializer, de};

    pub(crate) fn serialize<S: Serializer>(
        level: &TrustLevel,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(level.as_str())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<TrustLevel, D::Error> {
        let name = String::deserialize(deserializer)?;
        TrustLevel::named(&name)
            .ok_or_else(|| de::Error::custom("a trust level is self, delegated or verified"))
    }
}
