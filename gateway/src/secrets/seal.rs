//! Seals upstream credentials, so that the database file alone is of no use to a thief, and reasoning
//! that clients keep for us.
//!
//! A sealed credential is a version byte, a nonce, and what ChaCha20-Poly1305 made of the text. The
//! key is 256 random bits in `seal.key` next to the database; a backup needs both.

use std::io;
use std::path::Path;
use std::sync::Arc;

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{ChaCha20Poly1305, Key, Nonce};
use data_encoding::{BASE64URL_NOPAD, HEXLOWER};
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use super::file;
use crate::clock::Entropy;
use domain::id::AccountId;
use translate::plan::ReasoningSealer;

/// The key file's name in the data directory.
pub const KEY_FILE: &str = "seal.key";

const VERSION: u8 = 1;
const NONCE_BYTES: usize = 12;
const DIGESTS: &[u8] = b"digests";
const REASONING: &[u8] = b"reasoning";
const REASONING_PREFIX: &str = "tgr1_";

/// Seals and opens credentials.
pub struct Sealer {
    cipher: ChaCha20Poly1305,
    /// Keys digests, and nothing else.
    digest_key: Zeroizing<[u8; 32]>,
    entropy: Arc<dyn Entropy>,
}

/// A sealed credential was made with another key, or was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the stored credential does not open with this data directory's `seal.key`; set it again")]
pub struct Unsealable;

impl Sealer {
    /// Reads the key in `dir`, or makes one.
    ///
    /// # Errors
    /// The file cannot be read or made, or does not hold a key.
    pub fn open(dir: &Path, entropy: Arc<dyn Entropy>) -> io::Result<Self> {
        let text = file::read_or_make(dir, KEY_FILE, || {
            let mut key = Zeroizing::new([0; 32]);
            entropy.fill(key.as_mut_slice());
            HEXLOWER.encode(key.as_slice()).into()
        })?;
        let bytes = HEXLOWER.decode(text.expose_secret().as_bytes()).map(Zeroizing::new);
        let key = bytes.ok().and_then(|bytes| Key::try_from(bytes.as_slice()).ok());
        let key = key.ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, "it must hold 64 hexadecimal digits")
        })?;
        let digest_key = Sha256::new().chain_update(DIGESTS).chain_update(key).finalize().into();
        let digest_key = Zeroizing::new(digest_key);
        Ok(Self { cipher: ChaCha20Poly1305::new(&key), digest_key, entropy })
    }

    /// Seals a credential.
    #[expect(clippy::missing_panics_doc, reason = "no credential has 256 GiB")]
    pub fn seal(&self, secret: &SecretString) -> Vec<u8> {
        let mut nonce = [0; NONCE_BYTES];
        self.entropy.fill(&mut nonce);
        let sealed = self
            .cipher
            .encrypt(&Nonce::from(nonce), secret.expose_secret().as_bytes())
            .expect("a credential is shorter than 256 GiB");
        [&[VERSION], nonce.as_slice(), &sealed].concat()
    }

    /// Digests what may hold a secret: without the key in the file, no guess can be tried against it.
    pub fn digest(&self, bytes: &[u8]) -> [u8; 32] {
        let keyed = |bytes: &[u8]| {
            let hash = Sha256::new().chain_update(self.digest_key.as_slice());
            <[u8; 32]>::from(hash.chain_update(bytes).finalize())
        };
        // twice, so that a digest is not the state from which a longer text's could be made
        keyed(&keyed(bytes))
    }

    /// Opens what [`Sealer::seal`] made.
    ///
    /// # Errors
    /// [`Unsealable`] if it was made with another key, or changed.
    pub fn open_sealed(&self, sealed: &[u8]) -> Result<SecretString, Unsealable> {
        let rest = sealed.strip_prefix(&[VERSION]).ok_or(Unsealable)?;
        let (nonce, text) = rest.split_first_chunk::<NONCE_BYTES>().ok_or(Unsealable)?;
        let bytes = self.cipher.decrypt(&Nonce::from(*nonce), text).map_err(|_| Unsealable)?;
        String::from_utf8(bytes).map(SecretString::from).map_err(|_| Unsealable)
    }
}

/// Seals one account's reasoning, with the same key. It is bound to what it is and whose: a sealed
/// credential does not open as reasoning, nor does another account's.
pub struct AccountSealer {
    sealer: Arc<Sealer>,
    bound_to: Vec<u8>,
}

impl AccountSealer {
    /// Seals for `account`.
    pub fn new(sealer: Arc<Sealer>, account: AccountId) -> Self {
        Self { sealer, bound_to: [REASONING, account.0.as_bytes()].concat() }
    }
}

impl ReasoningSealer for AccountSealer {
    fn seal(&self, text: &str) -> String {
        let mut nonce = [0; NONCE_BYTES];
        self.sealer.entropy.fill(&mut nonce);
        let plain = Payload { msg: text.as_bytes(), aad: &self.bound_to };
        let sealed = self
            .sealer
            .cipher
            .encrypt(&Nonce::from(nonce), plain)
            .expect("reasoning is shorter than 256 GiB");
        let bytes = [nonce.as_slice(), &sealed].concat();
        format!("{REASONING_PREFIX}{}", BASE64URL_NOPAD.encode(&bytes))
    }

    fn open(&self, sealed: &str) -> Option<String> {
        let bytes = sealed.strip_prefix(REASONING_PREFIX)?;
        let bytes = BASE64URL_NOPAD.decode(bytes.as_bytes()).ok()?;
        let (nonce, msg) = bytes.split_first_chunk::<NONCE_BYTES>()?;
        let payload = Payload { msg, aad: &self.bound_to };
        let text = self.sealer.cipher.decrypt(&Nonce::from(*nonce), payload).ok()?;
        String::from_utf8(text).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::testing::CountingEntropy;

    #[test]
    fn opens_what_it_sealed_also_after_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let entropy = Arc::new(CountingEntropy::default());
        let first = Sealer::open(dir.path(), entropy.clone()).unwrap();
        let sealed = first.seal(&"sk-upstream".into());
        assert_ne!(sealed, first.seal(&"sk-upstream".into()));
        assert!(!sealed.windows(4).any(|window| window == b"sk-u"));
        let again = Sealer::open(dir.path(), entropy).unwrap();
        assert_eq!(again.open_sealed(&sealed).unwrap().expose_secret(), "sk-upstream");
    }

    #[test]
    fn reasoning_opens_for_its_account_and_as_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let sealer = Sealer::open(dir.path(), Arc::new(CountingEntropy::default())).unwrap();
        let sealer = Arc::new(sealer);
        let of = |id| AccountSealer::new(sealer.clone(), AccountId(uuid::Uuid::from_u128(id)));
        let (alice, bob) = (of(1), of(2));
        let wrapped = alice.seal("first, think");
        assert_eq!(alice.open(&wrapped).as_deref(), Some("first, think"));
        assert_eq!(bob.open(&wrapped), None);
        assert_eq!(alice.open(&wrapped[..wrapped.len() - 1]), None);
        assert_eq!(alice.open("gAAAAABfromelsewhere"), None);
        let credential = sealer.seal(&"sk-upstream".into());
        let disguised = format!("{REASONING_PREFIX}{}", BASE64URL_NOPAD.encode(&credential[1..]));
        assert_eq!(alice.open(&disguised), None);
    }

    #[test]
    fn refuses_what_was_changed_or_made_elsewhere() {
        let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let entropy = Arc::new(CountingEntropy::default());
        let ours = Sealer::open(here.path(), entropy.clone()).unwrap();
        let theirs = Sealer::open(there.path(), entropy).unwrap();
        let mut sealed = ours.seal(&"sk-upstream".into());
        assert!(theirs.open_sealed(&sealed).is_err());
        *sealed.last_mut().unwrap() ^= 1;
        assert!(ours.open_sealed(&sealed).is_err());
        for short in [&[][..], &[VERSION], &[VERSION; 8], &[VERSION; 13]] {
            assert!(ours.open_sealed(short).is_err());
        }
    }

    #[test]
    fn a_broken_key_file_is_an_error_and_stays_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(KEY_FILE), "abc").unwrap();
        assert!(Sealer::open(dir.path(), Arc::new(CountingEntropy::default())).is_err());
        assert_eq!(std::fs::read(dir.path().join(KEY_FILE)).unwrap(), b"abc");
    }
}
