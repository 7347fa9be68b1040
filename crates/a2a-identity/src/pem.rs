//! Secret keys at rest: PKCS#8 in PEM, as OpenSSL and others write it, with or without passphrase.

use pkcs8::der::asn1::OctetStringRef;
use pkcs8::der::{Decode as _, SecretDocument};
use pkcs8::pkcs5::pbes2::{Kdf, Parameters};
use pkcs8::pkcs5::scrypt;
use pkcs8::{
    AlgorithmIdentifierRef, EncryptedPrivateKeyInfoRef, LineEnding, ObjectIdentifier,
    PrivateKeyInfoRef,
};
use zeroize::Zeroizing;

use crate::{NoRandomness, Randomness, SigningKey};

/// Why a key file gives no key. Nothing of the file is repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyFileError {
    /// Not PKCS#8 in PEM.
    #[error("not a private key in PEM (PKCS#8)")]
    NotPem,
    /// A key of another kind.
    #[error("not an Ed25519 key")]
    NotEd25519,
    /// It is encrypted, and no passphrase was given.
    #[error("the key is encrypted: give its passphrase")]
    PassphraseNeeded,
    /// It is encrypted with another passphrase, or damaged.
    #[error("wrong passphrase, or the file is damaged")]
    WrongPassphrase,
    /// It is encrypted in a way that would cost too much to open.
    #[error("opening the key would take too much memory or time")]
    TooCostly,
    /// It says it belongs to another public key.
    #[error("the public key in the file does not belong to the private one")]
    Mismatch,
    /// It cannot be written.
    #[error("the key cannot be written as PKCS#8")]
    Unwritable,
    /// There is no randomness to encrypt with.
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
}

/// RFC 8410.
const ED25519: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.101.112");
const PLAIN: &str = "PRIVATE KEY";
const ENCRYPTED: &str = "ENCRYPTED PRIVATE KEY";
/// A private key is an octet string of 32 bytes inside another.
const SEED_PREFIX: [u8; 2] = [0x04, 0x20];
/// More memory than this for one passphrase is refused.
const MAX_SCRYPT_BYTES: u64 = 256 << 20;
const MAX_ITERATIONS: u32 = 10_000_000;
/// No key of ours is longer.
const MAX_PEM: usize = 8 * 1024;

impl SigningKey {
    /// The key as PEM, not encrypted.
    ///
    /// # Errors
    /// Never in practice.
    pub fn to_pem(&self) -> Result<Zeroizing<String>, KeyFileError> {
        let nested = self.nested();
        let document = SecretDocument::try_from(&info(&nested)?);
        pem(PLAIN, &document.map_err(|_| KeyFileError::Unwritable)?)
    }

    /// The key as PEM, encrypted with a passphrase (scrypt and AES-256-CBC, which OpenSSL reads).
    ///
    /// # Errors
    /// If there is no randomness.
    pub fn to_encrypted_pem(
        &self,
        passphrase: &str,
        random: &mut dyn Randomness,
    ) -> Result<Zeroizing<String>, KeyFileError> {
        let (mut salt, mut iv) = ([0; 16], [0; 16]);
        random.fill(&mut salt)?;
        random.fill(&mut iv)?;
        let cost = scrypt::Params::new(15, 8, 1).map_err(|_| KeyFileError::Unwritable)?;
        let parameters = Parameters::generate_scrypt_aes256cbc(cost, &salt, iv);
        let parameters = parameters.map_err(|_| KeyFileError::Unwritable)?;
        let nested = self.nested();
        let document = info(&nested)?
            .encrypt_with_params(parameters, passphrase)
            .map_err(|_| KeyFileError::Unwritable)?;
        pem(ENCRYPTED, &document)
    }

    /// Reads a key from PEM, encrypted or not.
    ///
    /// # Errors
    /// If it is no Ed25519 key, or the passphrase is missing or wrong.
    pub fn from_pem(text: &str, passphrase: Option<&str>) -> Result<Self, KeyFileError> {
        if text.len() > MAX_PEM {
            return Err(KeyFileError::NotPem);
        }
        let (label, document) = SecretDocument::from_pem(text).map_err(|_| KeyFileError::NotPem)?;
        match (label, passphrase) {
            (PLAIN, _) => from_der(document.as_bytes(), KeyFileError::NotPem),
            (ENCRYPTED, None) => Err(KeyFileError::PassphraseNeeded),
            (ENCRYPTED, Some(passphrase)) => {
                let document = decrypt(document.as_bytes(), passphrase)?;
                from_der(document.as_bytes(), KeyFileError::WrongPassphrase)
            }
            _ => Err(KeyFileError::NotPem),
        }
    }

    fn nested(&self) -> Zeroizing<Vec<u8>> {
        let mut nested = Zeroizing::new(Vec::with_capacity(34));
        nested.extend_from_slice(&SEED_PREFIX);
        nested.extend_from_slice(self.seed());
        nested
    }
}

fn info(nested: &[u8]) -> Result<PrivateKeyInfoRef<'_>, KeyFileError> {
    let algorithm = AlgorithmIdentifierRef {
        oid: ED25519,
        parameters: None,
    };
    let key = OctetStringRef::new(nested).map_err(|_| KeyFileError::Unwritable)?;
    Ok(PrivateKeyInfoRef::new(algorithm, key))
}

fn pem(label: &'static str, document: &SecretDocument) -> Result<Zeroizing<String>, KeyFileError> {
    let text = document.to_pem(label, LineEnding::LF);
    text.map_err(|_| KeyFileError::Unwritable)
}

fn decrypt(der: &[u8], passphrase: &str) -> Result<SecretDocument, KeyFileError> {
    let sealed = EncryptedPrivateKeyInfoRef::from_der(der).map_err(|_| KeyFileError::NotPem)?;
    let parameters = sealed.encryption_algorithm.pbes2();
    if !parameters.is_some_and(|parameters| is_affordable(&parameters.kdf)) {
        return Err(KeyFileError::TooCostly);
    }
    let document = sealed.decrypt(passphrase);
    document.map_err(|_| KeyFileError::WrongPassphrase)
}

fn is_affordable(kdf: &Kdf) -> bool {
    if let Some(scrypt) = kdf.scrypt() {
        let memory = scrypt
            .cost_parameter
            .saturating_mul(u64::from(scrypt.block_size))
            .saturating_mul(128);
        return memory <= MAX_SCRYPT_BYTES && scrypt.parallelization <= 16;
    }
    kdf.pbkdf2()
        .is_some_and(|pbkdf2| pbkdf2.iteration_count <= MAX_ITERATIONS)
}

/// `unreadable` is what to say if this is no PKCS#8: after decryption that means another thing.
fn from_der(der: &[u8], unreadable: KeyFileError) -> Result<SigningKey, KeyFileError> {
    let info = PrivateKeyInfoRef::try_from(der).map_err(|_| unreadable)?;
    if info.algorithm.oid != ED25519 || info.algorithm.parameters.is_some() {
        return Err(KeyFileError::NotEd25519);
    }
    let seed = info.private_key.as_bytes().strip_prefix(&SEED_PREFIX);
    let seed: Option<&[u8; 32]> = seed.and_then(|seed| seed.try_into().ok());
    let key = SigningKey::from_seed(seed.ok_or(KeyFileError::NotEd25519)?);
    let stated = info.public_key.map(|stated| stated.raw_bytes().to_vec());
    match stated {
        Some(stated) if stated != key.verifying_key().to_bytes() => Err(KeyFileError::Mismatch),
        _ => Ok(key),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 8410 §10.3, both forms.
    const RFC_8410: &str = "-----BEGIN PRIVATE KEY-----\n\
        MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n\
        -----END PRIVATE KEY-----\n";

    fn zeros(bytes: &mut [u8]) -> Result<(), NoRandomness> {
        bytes.fill(0);
        Ok(())
    }

    #[test]
    fn the_key_of_the_rfc() {
        let key = SigningKey::from_pem(RFC_8410, None).unwrap();
        assert_eq!(*key.to_pem().unwrap(), RFC_8410);
        assert_eq!(
            canonical::base64url::encode(&key.verifying_key().to_bytes()),
            "Gb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE"
        );
    }

    #[test]
    fn a_passphrase_is_needed_and_must_be_right() {
        let key = SigningKey::from_seed(&[9; 32]);
        let pem = key.to_encrypted_pem("correct horse", &mut zeros).unwrap();
        assert!(pem.starts_with("-----BEGIN ENCRYPTED PRIVATE KEY-----"));
        let open = |passphrase| SigningKey::from_pem(&pem, passphrase);
        assert_eq!(open(Some("correct horse")).unwrap().seed(), &[9; 32]);
        assert_eq!(open(None).unwrap_err(), KeyFileError::PassphraseNeeded);
        assert_eq!(
            open(Some("horse")).unwrap_err(),
            KeyFileError::WrongPassphrase
        );
    }

    #[test]
    fn other_files_are_no_keys() {
        let rsa = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VuBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n-----END PRIVATE KEY-----\n";
        assert_eq!(
            SigningKey::from_pem(rsa, None).unwrap_err(),
            KeyFileError::NotEd25519
        );
        for text in [
            "",
            "hello",
            &RFC_8410.replace("PRIVATE", "PUBLIC"),
            &"x".repeat(9000),
        ] {
            assert_eq!(
                SigningKey::from_pem(text, None).unwrap_err(),
                KeyFileError::NotPem
            );
        }
    }

    #[test]
    fn a_passphrase_may_not_cost_everything() {
        let key = SigningKey::from_seed(&[9; 32]);
        let nested = key.nested();
        let costly = scrypt::Params::new(19, 8, 1).unwrap();
        let parameters = Parameters::generate_scrypt_aes256cbc(costly, &[0; 16], [0; 16]).unwrap();
        assert!(!is_affordable(&parameters.kdf));
        let fair = scrypt::Params::new(18, 8, 1).unwrap();
        let parameters = Parameters::generate_scrypt_aes256cbc(fair, &[0; 16], [0; 16]).unwrap();
        assert!(is_affordable(&parameters.kdf));
        assert!(info(&nested).is_ok());
    }
}
