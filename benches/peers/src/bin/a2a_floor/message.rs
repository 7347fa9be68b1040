//! The messages: text of a certain size, signed or not.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};

/// The sizes of the messages, questions and answers by turns.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes([usize; 8]);

/// Whether messages are signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trust {
    Bare,
    Signed,
}

/// One of the two who talk.
#[derive(Debug)]
pub(crate) struct Talker {
    own: SigningKey,
    other: VerifyingKey,
    trust: Trust,
    sizes: Sizes,
    /// HELLO carries the client's manifest, which was signed long ago; the server verifies it.
    hello: Vec<u8>,
}

/// A signature in base64url, behind the digit that says which exchange it is.
const SIGNED: std::ops::Range<usize> = 1..87;

/// The keys of both: nothing of worth is signed with them.
const CLIENT: [u8; 32] = [1; 32];
const SERVER: [u8; 32] = [2; 32];

impl Sizes {
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let sizes: Result<Vec<usize>, _> = text.split(',').map(str::parse).collect();
        let sizes: Option<[usize; 8]> = sizes.ok().and_then(|sizes| sizes.try_into().ok());
        match sizes {
            Some(sizes) if sizes.iter().all(|size| *size > 2 * SIGNED.end) => Ok(Self(sizes)),
            _ => Err(format!(
                "{text}: eight sizes, each with room for a signature"
            )),
        }
    }

    fn question(&self, exchange: usize) -> usize {
        self.0.get(2 * exchange).copied().unwrap_or_default()
    }

    fn answer(&self, exchange: usize) -> usize {
        self.0.get(2 * exchange + 1).copied().unwrap_or_default()
    }
}

impl Trust {
    pub(crate) fn named(name: &str) -> Option<Self> {
        match name {
            "bare" => Some(Self::Bare),
            "signed" => Some(Self::Signed),
            _ => None,
        }
    }
}

impl Talker {
    pub(crate) fn client(trust: Trust, sizes: Sizes) -> Self {
        Self::new([CLIENT, SERVER], trust, sizes)
    }

    pub(crate) fn server(trust: Trust, sizes: Sizes) -> Self {
        Self::new([SERVER, CLIENT], trust, sizes)
    }

    fn new([own, other]: [[u8; 32]; 2], trust: Trust, sizes: Sizes) -> Self {
        let mut this = Self {
            own: SigningKey::from_bytes(&own),
            other: SigningKey::from_bytes(&other).verifying_key(),
            trust,
            sizes,
            hello: Vec::new(),
        };
        this.hello = this.message(0, 0, sizes.question(0));
        this
    }

    /// A question of its own.
    pub(crate) fn ask(&self, exchange: usize, number: u64) -> Vec<u8> {
        match exchange {
            0 => self.hello.clone(),
            _ => self.message(exchange, number, self.sizes.question(exchange)),
        }
    }

    /// Verifies a question and signs the answer.
    pub(crate) fn answer(&self, question: &[u8]) -> Result<Vec<u8>, &'static str> {
        let exchange = usize::from(question.first().ok_or("empty")?.wrapping_sub(b'0'));
        self.verify(question, self.sizes.question(exchange))?;
        Ok(self.message(exchange, 0, self.sizes.answer(exchange)))
    }

    /// Verifies an answer.
    pub(crate) fn check(&self, exchange: usize, answer: &[u8]) -> Result<(), &'static str> {
        self.verify(answer, self.sizes.answer(exchange))
    }

    fn message(&self, exchange: usize, number: u64, size: usize) -> Vec<u8> {
        let mut message = vec![b'x'; size];
        message[0] = b'0' + exchange as u8;
        let digits = format!("{number:020}");
        message[SIGNED.end..][..digits.len()].copy_from_slice(digits.as_bytes());
        if self.trust == Trust::Signed {
            let signature = self.own.sign(&message[SIGNED.end..]).to_bytes();
            let text = URL_SAFE_NO_PAD.encode(signature);
            message[SIGNED].copy_from_slice(text.as_bytes());
        }
        message
    }

    fn verify(&self, message: &[u8], size: usize) -> Result<(), &'static str> {
        if message.len() != size {
            return Err("a message of another size");
        }
        if self.trust == Trust::Bare {
            return Ok(());
        }
        let signature = URL_SAFE_NO_PAD.decode(&message[SIGNED]);
        let signature = signature.map_err(|_| "no signature")?;
        let signature = Signature::from_slice(&signature).map_err(|_| "no signature")?;
        let verified = self.other.verify_strict(&message[SIGNED.end..], &signature);
        verified.map_err(|_| "another has signed")
    }
}
