//! Encrypts upstream credentials in the store, and reasoning that clients keep between requests.
//!
//! A sealed credential is a version byte, a nonce, and the ChaCha20-Poly1305 ciphertext with its
//! tag. The key is 256 random bits in `seal.key` next to the database, so that the database file
//! alone does not reveal credentials. A backup needs both files.

use std::io;
use std::path::Path;
use std::sync::Arc;

use arc_swap::ArcSwap;
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

/// The maximum number of keys: a new one and the one before.
const MAX_KEYS: usize = 2;
const VERSION: u8 = 1;
const NONCE_BYTES: usize = 12;
const DIGEST_KEY_CONTEXT: &[u8] = b"digests";
const FINGERPRINT_CONTEXT: &[u8] = b"fingerprint";
const REASONING_CONTEXT: &[u8] = b"reasoning";
const REASONING_PREFIX: &str = "tgr1_";

/// Encrypts and decrypts credentials.
///
/// New secrets are encrypted with the first key. While keys are replaced, secrets of the other ones are decrypted, too.
pub struct Sealer {
    keys: ArcSwap<SealKeys>,
    entropy: Arc<dyn Entropy>,
}

/// The keys of a [`Sealer`]; there is at least one.
#[derive(Clone)]
pub struct SealKeys(Vec<SealKey>);

#[derive(Clone)]
struct SealKey {
    cipher: ChaCha20Poly1305,
    /// Derived from the key; used only for digests.
    digest_key: Zeroizing<[u8; 32]>,
}

/// The error of a sealed credential that was made with another key, or was altered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the stored credential does not open with this data directory's `seal.key`; set it again")]
pub struct UnsealError;

// === impl SealKeys ===

impl SealKeys {
    /// Parses a text with a key on each line, the one for new secrets first.
    ///
    /// # Errors
    /// There is no key, too many, or a line that is none.
    pub(super) fn parse(text: &SecretString) -> io::Result<Self> {
        let invalid = |problem| io::Error::new(io::ErrorKind::InvalidData, problem);
        let lines = text.expose_secret().lines().map(str::trim).filter(|line| !line.is_empty());
        let keys = lines.map(SealKey::parse).collect::<Option<Vec<_>>>();
        let keys = keys.filter(|keys| !keys.is_empty());
        let keys = keys.ok_or_else(|| invalid("it must hold 64 hexadecimal digits"))?;
        if keys.len() > MAX_KEYS {
            return Err(invalid("it must hold at most two keys, a new one and the one before"));
        }
        Ok(Self(keys))
    }

    /// Returns a text that identifies the key for new secrets, and does not reveal it.
    pub fn fingerprint(&self) -> String {
        self.0[0].fingerprint()
    }

    /// Returns whether there is a second key, because a rotation has not ended.
    pub fn has_former(&self) -> bool {
        self.0.len() > 1
    }

    /// Returns the keys with the one that `fingerprint` identifies first; `None` if there is no such key.
    #[must_use]
    pub fn preferring(&self, fingerprint: &str) -> Option<Self> {
        let mut keys = self.0.clone();
        let found = keys.iter().position(|key| key.fingerprint() == fingerprint)?;
        keys.swap(0, found);
        Some(Self(keys))
    }

    /// Returns only the key for new secrets.
    #[must_use]
    pub fn without_former(mut self) -> Self {
        self.0.truncate(1);
        self
    }

    /// Returns whether one of the keys has encrypted a stored secret.
    pub fn opens(&self, sealed: &[u8]) -> bool {
        self.open_sealed(sealed).is_ok()
    }

    /// Encrypts a secret with the first key and a random nonce.
    fn seal(&self, secret: &SecretString, entropy: &dyn Entropy) -> Vec<u8> {
        let mut nonce = [0; NONCE_BYTES];
        entropy.fill(&mut nonce);
        let sealed = self.0[0]
            .cipher
            .encrypt(&Nonce::from(nonce), secret.expose_secret().as_bytes())
            .expect("a credential is shorter than 256 GiB");
        [&[VERSION], nonce.as_slice(), &sealed].concat()
    }

    fn open_sealed(&self, sealed: &[u8]) -> Result<SecretString, UnsealError> {
        let rest = sealed.strip_prefix(&[VERSION]).ok_or(UnsealError)?;
        let (nonce, text) = rest.split_first_chunk::<NONCE_BYTES>().ok_or(UnsealError)?;
        let bytes = self.decrypt(*nonce, || text.into()).ok_or(UnsealError)?;
        String::from_utf8(bytes).map(SecretString::from).map_err(|_| UnsealError)
    }

    /// Decrypts with the key that fits.
    fn decrypt<'a>(
        &self,
        nonce: [u8; NONCE_BYTES],
        payload: impl Fn() -> Payload<'a, 'a>,
    ) -> Option<Vec<u8>> {
        self.0.iter().find_map(|key| key.cipher.decrypt(&Nonce::from(nonce), payload()).ok())
    }
}

// === impl SealKey ===

impl SealKey {
    fn parse(text: &str) -> Option<Self> {
        let bytes = HEXLOWER.decode(text.as_bytes()).ok().map(Zeroizing::new)?;
        let key = Key::try_from(bytes.as_slice()).ok()?;
        let digest_key =
            Sha256::new().chain_update(DIGEST_KEY_CONTEXT).chain_update(key).finalize().into();
        let digest_key = Zeroizing::new(digest_key);
        Some(Self { cipher: ChaCha20Poly1305::new(&key), digest_key })
    }

    fn digest(&self, bytes: &[u8]) -> [u8; 32] {
        let keyed = |bytes: &[u8]| {
            let hash = Sha256::new().chain_update(self.digest_key.as_slice());
            <[u8; 32]>::from(hash.chain_update(bytes).finalize())
        };
        // Hashed twice against length extension.
        keyed(&keyed(bytes))
    }

    fn fingerprint(&self) -> String {
        HEXLOWER.encode(&self.digest(FINGERPRINT_CONTEXT))
    }
}

/// Makes a key, as it is written to a file.
pub(super) fn make_key(entropy: &dyn Entropy) -> SecretString {
    let mut key = Zeroizing::new([0; 32]);
    entropy.fill(key.as_mut_slice());
    HEXLOWER.encode(key.as_slice()).into()
}

// === impl Sealer ===

impl Sealer {
    /// Reads the key file in `dir`; creates it if it does not exist.
    ///
    /// # Errors
    /// The file cannot be read or created, or does not contain a key.
    pub fn open(dir: &Path, entropy: Arc<dyn Entropy>) -> io::Result<Self> {
        let text = file::read_or_create(dir, KEY_FILE, || make_key(&*entropy))?;
        Ok(Self::new(SealKeys::parse(&text)?, entropy))
    }

    /// Creates a sealer with `keys`.
    pub fn new(keys: SealKeys, entropy: Arc<dyn Entropy>) -> Self {
        Self { keys: ArcSwap::from_pointee(keys), entropy }
    }

    /// Returns the keys.
    pub fn keys(&self) -> Arc<SealKeys> {
        self.keys.load_full()
    }

    /// Replaces the keys.
    pub fn set_keys(&self, keys: SealKeys) {
        self.keys.store(Arc::new(keys));
    }

    /// Encrypts a credential with a random nonce.
    pub fn seal(&self, secret: &SecretString) -> Vec<u8> {
        self.keys.load().seal(secret, &*self.entropy)
    }

    /// Decrypts a secret and encrypts it with the first of `keys`.
    ///
    /// # Errors
    /// [`UnsealError`] if none of them opens it.
    pub fn reseal(&self, sealed: &[u8], keys: &SealKeys) -> Result<Vec<u8>, UnsealError> {
        Ok(keys.seal(&keys.open_sealed(sealed)?, &*self.entropy))
    }

    /// Returns a keyed digest of bytes that may contain a secret. Without the key file, a guess of
    /// the bytes cannot be tested against the digest.
    pub fn digest(&self, bytes: &[u8]) -> [u8; 32] {
        self.keys.load().0[0].digest(bytes)
    }

    /// Returns a text that identifies the key and does not reveal it.
    pub fn fingerprint(&self) -> String {
        self.keys.load().fingerprint()
    }

    /// Decrypts a credential that [`Sealer::seal`] encrypted.
    ///
    /// # Errors
    /// [`UnsealError`] if it was made with another key, or was altered.
    pub fn open_sealed(&self, sealed: &[u8]) -> Result<SecretString, UnsealError> {
        self.keys.load().open_sealed(sealed)
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
        let sealed = self.sealer.keys.load().0[0]
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
        let keys = self.sealer.keys.load();
        let text = keys.decrypt(*nonce, || Payload { msg, aad: &self.associated_data })?;
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
    fn a_rotation_leaves_old_secrets_readable_until_they_are_sealed_again() {
        let entropy = Arc::new(CountingEntropy::default());
        let [old, new, third] = [(); 3].map(|()| make_key(&*entropy));
        let parse = |keys: &[&SecretString]| {
            let lines: Vec<_> = keys.iter().map(|key| key.expose_secret()).collect();
            SealKeys::parse(&lines.join("\n").into())
        };
        let sealer = Sealer::new(parse(&[&old]).unwrap(), entropy);
        let account = AccountSealer::new(
            Arc::new(Sealer::new(parse(&[&old]).unwrap(), sealer.entropy.clone())),
            AccountId(uuid::Uuid::nil()),
        );
        let (credential, reasoning) = (sealer.seal(&"sk-upstream".into()), account.seal("first"));
        let both = parse(&[&new, &old]).unwrap();
        let again = sealer.reseal(&credential, &both).unwrap();
        for keys in [both.clone(), both.preferring(&sealer.fingerprint()).unwrap()] {
            sealer.set_keys(keys.clone());
            account.sealer.set_keys(keys);
            assert_eq!(sealer.open_sealed(&credential).unwrap().expose_secret(), "sk-upstream");
            assert_eq!(sealer.open_sealed(&again).unwrap().expose_secret(), "sk-upstream");
            assert_eq!(account.open(&reasoning).as_deref(), Some("first"));
        }
        sealer.set_keys(both.without_former());
        assert!(sealer.open_sealed(&credential).is_err());
        assert_eq!(sealer.open_sealed(&again).unwrap().expose_secret(), "sk-upstream");
        assert!(sealer.keys().preferring("unknown").is_none());
        assert!(parse(&[&new, &old, &third]).is_err() && parse(&[]).is_err());
    }

    #[test]
    fn an_invalid_key_file_is_an_error_and_is_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(KEY_FILE), "abc").unwrap();
        assert!(Sealer::open(dir.path(), Arc::new(CountingEntropy::default())).is_err());
        assert_eq!(std::fs::read(dir.path().join(KEY_FILE)).unwrap(), b"abc");
    }
}
