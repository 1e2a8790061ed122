//! Encrypts upstream credentials in the store, and reasoning that clients keep between requests.
//!
//! A sealed credential is a version byte, a nonce, and the ChaCha20-Poly1305 ciphertext with its
//! tag. The key is 256 random bits in `seal.key` next to the database, so that the database file
//! alone does not reveal credentials. A backup needs both files.

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
const DIGEST_KEY_CONTEXT: &[u8] = b"digests";
const FINGERPRINT_CONTEXT: &[u8] = b"fingerprint";
const REASONING_CONTEXT: &[u8] = b"reasoning";
const REASONING_PREFIX: &str = "tgr1_";

/// Encrypts and decrypts credentials.
pub struct Sealer {
    cipher: ChaCha20Poly1305,
    /// Derived from the key file; used only for digests.
    digest_key: Zeroizing<[u8; 32]>,
    entropy: Arc<dyn Entropy>,
}

/// The error of a sealed credential that was made with another key, or was altered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the stored credential does not open with this data directory's `seal.key`; set it again")]
pub struct UnsealError;

impl Sealer {
    /// Reads the key file in `dir`; creates it if it does not exist.
    ///
    /// # Errors
    /// The file cannot be read or created, or does not contain a key.
    pub fn open(dir: &Path, entropy: Arc<dyn Entropy>) -> io::Result<Self> {
        let text = file::read_or_create(dir, KEY_FILE, || {
            let mut key = Zeroizing::new([0; 32]);
            entropy.fill(key.as_mut_slice());
            HEXLOWER.encode(key.as_slice()).into()
        })?;
        let bytes = HEXLOWER.decode(text.expose_secret().as_bytes()).map(Zeroizing::new);
        let key = bytes.ok().and_then(|bytes| Key::try_from(bytes.as_slice()).ok());
        let key = key.ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, "it must hold 64 hexadecimal digits")
        })?;
        let digest_key =
            Sha256::new().chain_update(DIGEST_KEY_CONTEXT).chain_update(key).finalize().into();
        let digest_key = Zeroizing::new(digest_key);
        Ok(Self { cipher: ChaCha20Poly1305::new(&key), digest_key, entropy })
    }

    /// Encrypts a credential with a random nonce.
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

    /// Returns a keyed digest of bytes that may contain a secret. Without the key file, a guess of
    /// the bytes cannot be tested against the digest.
    pub fn digest(&self, bytes: &[u8]) -> [u8; 32] {
        let keyed = |bytes: &[u8]| {
            let hash = Sha256::new().chain_update(self.digest_key.as_slice());
            <[u8; 32]>::from(hash.chain_update(bytes).finalize())
        };
        // Hashed twice against length extension.
        keyed(&keyed(bytes))
    }

    /// Returns a text that identifies the key and does not reveal it.
    pub fn fingerprint(&self) -> String {
        HEXLOWER.encode(&self.digest(FINGERPRINT_CONTEXT))
    }

    /// Decrypts a credential that [`Sealer::seal`] encrypted.
    ///
    /// # Errors
    /// [`UnsealError`] if it was made with another key, or was altered.
    pub fn open_sealed(&self, sealed: &[u8]) -> Result<SecretString, UnsealError> {
        let rest = sealed.strip_prefix(&[VERSION]).ok_or(UnsealError)?;
        let (nonce, text) = rest.split_first_chunk::<NONCE_BYTES>().ok_or(UnsealError)?;
        let bytes = self.cipher.decrypt(&Nonce::from(*nonce), text).map_err(|_| UnsealError)?;
        String::from_utf8(bytes).map(SecretString::from).map_err(|_| UnsealError)
    }
}

/// Encrypts the reasoning of one account with the key of a [`Sealer`].
///
/// Purpose and account are authenticated as associated data: neither a sealed credential nor
/// another account's reasoning can be opened.
pub struct AccountSealer {
    sealer: Arc<Sealer>,
    associated_data: Vec<u8>,
}

impl AccountSealer {
    /// Creates a sealer for the reasoning of `account`.
    pub fn new(sealer: Arc<Sealer>, account: AccountId) -> Self {
        Self { sealer, associated_data: [REASONING_CONTEXT, account.0.as_bytes()].concat() }
    }
}

impl ReasoningSealer for AccountSealer {
    fn seal(&self, text: &str) -> String {
        let mut nonce = [0; NONCE_BYTES];
        self.sealer.entropy.fill(&mut nonce);
        let plain = Payload { msg: text.as_bytes(), aad: &self.associated_data };
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
        let payload = Payload { msg, aad: &self.associated_data };
        let text = self.sealer.cipher.decrypt(&Nonce::from(*nonce), payload).ok()?;
        String::from_utf8(text).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::testing::CountingEntropy;

    #[test]
    fn opens_a_sealed_credential_after_a_restart() {
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
    fn opens_reasoning_only_for_its_account() {
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
    fn refuses_altered_credentials_and_other_keys() {
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
    fn an_invalid_key_file_is_an_error_and_is_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(KEY_FILE), "abc").unwrap();
        assert!(Sealer::open(dir.path(), Arc::new(CountingEntropy::default())).is_err());
        assert_eq!(std::fs::read(dir.path().join(KEY_FILE)).unwrap(), b"abc");
    }
}
