//! Where the key comes from that encrypts stored secrets, and the steps of its rotation.
//!
//! The source has one key, or during a rotation two, each on a line: the new one first. Secrets of both can be read, so
//! that a rotation can be interrupted at any step. The gateway writes only the file in its data directory; in another
//! source, an operator replaces the key.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;
use tokio::time::timeout;
use zeroize::Zeroizing;

use super::file;
use super::seal::{KEY_FILE, SealKeys, make_key};
use crate::clock::Entropy;

/// The maximum size of what is read from a source, in bytes.
const MAX_BYTES: u64 = 4 * 1024;
/// How long a command may take.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(30);

/// Where the key comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SealKeySource {
    /// The file `seal.key` in the data directory, which the first start creates.
    #[default]
    DataDir,
    /// Another file.
    File(PathBuf),
    /// An environment variable.
    Variable(String),
    /// The output of a shell command.
    Command(String),
}

/// Why a rotation cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum KeyRotationError {
    /// The source cannot be read or written.
    #[error("{source_name}: {error}")]
    Source {
        /// What the source is.
        source_name: String,
        /// The error; contains nothing of the key.
        error: io::Error,
    },
    /// The key is not in the data directory, and the source does not have a new one.
    #[error(
        "{0} must have two lines: a new key (`openssl rand -hex 32`), then the key in use; change it, and try again. If \
         a rotation has just been completed, remove its second line instead"
    )]
    NoNewKey(String),
    /// The source does not have the key in use any more.
    #[error("{0} does not have the key in use on its second line; put it there, and try again")]
    NoCurrentKey(String),
}

// === impl SealKeySource ===

impl SealKeySource {
    /// Returns what the source is, for messages.
    pub fn describe(&self, data_dir: &Path) -> String {
        match self {
            Self::DataDir => format!("`{}`", data_dir.join(KEY_FILE).display()),
            Self::File(path) => format!("`{}` (`seal_key_file`)", path.display()),
            Self::Variable(name) => format!("variable `{name}` (`seal_key_env`)"),
            // It may contain a secret.
            Self::Command(_) => "the output of `seal_key_command`".to_owned(),
        }
    }

    /// Reads the keys. Creates the file in the data directory if it is missing.
    ///
    /// # Errors
    /// The source cannot be read, or has no keys. The error contains nothing of them, and no output of a command.
    pub async fn read(&self, data_dir: &Path, entropy: &Arc<dyn Entropy>) -> io::Result<SealKeys> {
        let text = match self {
            Self::DataDir => file::read_or_create(data_dir, KEY_FILE, || make_key(&**entropy))?,
            Self::File(path) => bounded(tokio::fs::File::open(path).await?).await?,
            Self::Variable(name) => read_variable(name)?,
            Self::Command(command) => run(command).await?,
        };
        SealKeys::parse(&text)
    }

    /// Begins a rotation, or continues one that was interrupted: makes a new key, if the file in the data directory has
    /// only the one `in_use`. Returns the new key with the former one.
    ///
    /// # Errors
    /// See [`KeyRotationError`]. Nothing has changed.
    pub async fn begin_rotation(
        &self,
        data_dir: &Path,
        in_use: &str,
        entropy: &Arc<dyn Entropy>,
    ) -> Result<SealKeys, KeyRotationError> {
        let name = || self.describe(data_dir);
        let failed = |error| KeyRotationError::Source { source_name: name(), error };
        let mut keys = self.read(data_dir, entropy).await.map_err(failed)?;
        if keys.preferring(in_use).is_none() {
            return Err(KeyRotationError::NoCurrentKey(name()));
        }
        if *self != Self::DataDir && keys.fingerprint() == in_use {
            return Err(KeyRotationError::NoNewKey(name()));
        }
        if !keys.has_former() {
            if *self != Self::DataDir {
                return Err(KeyRotationError::NoNewKey(name()));
            }
            let former = std::fs::read_to_string(data_dir.join(KEY_FILE)).map(Zeroizing::new);
            let former = former.map_err(failed)?;
            let new = make_key(&**entropy);
            let both = format!("{}\n{}", new.expose_secret(), former.trim()).into();
            keys = SealKeys::parse(&both).map_err(failed)?;
            file::replace(data_dir, KEY_FILE, &both).map_err(failed)?;
        }
        Ok(keys)
    }

    /// Ends a rotation: removes the former key from the file in the data directory. Must be called once no secret
    /// needs it. Returns whether it was removed; an operator removes it from another source.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn end_rotation(&self, data_dir: &Path) -> io::Result<bool> {
        if *self != Self::DataDir {
            return Ok(false);
        }
        let both = Zeroizing::new(std::fs::read_to_string(data_dir.join(KEY_FILE))?);
        let new = both.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
        let new = new.into();
        // Without a usable key, the next start could not read the stored secrets.
        SealKeys::parse(&new)?;
        file::replace(data_dir, KEY_FILE, &new)?;
        Ok(true)
    }
}

#[expect(clippy::disallowed_methods, reason = "a setting names the variable")]
fn read_variable(name: &str) -> io::Result<SecretString> {
    let value = std::env::var(name).map_err(|error| match error {
        std::env::VarError::NotPresent => "the variable is not set",
        std::env::VarError::NotUnicode(_) => "it must hold 64 hexadecimal digits",
    });
    value.map(Into::into).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Runs a shell command and returns its output.
async fn run(command: &str) -> io::Result<SecretString> {
    let mut child = Command::new("/bin/sh")
        .args(["-c", command])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        // It could contain the key, and would get into the log.
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    let output = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
    let run = async {
        let text = bounded(output).await?;
        Ok::<_, io::Error>((text, child.wait().await?))
    };
    let (text, status) = timeout(COMMAND_TIMEOUT, run).await.map_err(|_| {
        let message = format!("the command took longer than {} s", COMMAND_TIMEOUT.as_secs());
        io::Error::new(io::ErrorKind::TimedOut, message)
    })??;
    if !status.success() {
        return Err(io::Error::other(format!("the command failed ({status})")));
    }
    Ok(text)
}

/// Reads a text of at most [`MAX_BYTES`].
async fn bounded(source: impl AsyncRead + Unpin) -> io::Result<SecretString> {
    let mut text = Zeroizing::new(String::new());
    source.take(MAX_BYTES + 1).read_to_string(&mut text).await?;
    if text.len() as u64 > MAX_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is too long for a key"));
    }
    Ok(text.as_str().into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::testing::CountingEntropy;

    fn entropy() -> Arc<dyn Entropy> {
        Arc::new(CountingEntropy::default())
    }

    #[tokio::test]
    async fn each_step_of_a_rotation_can_be_the_last_before_a_restart() {
        let (dir, entropy) = (tempfile::tempdir().unwrap(), entropy());
        let source = SealKeySource::DataDir;
        let old = source.read(dir.path(), &entropy).await.unwrap().fingerprint();
        let begun = source.begin_rotation(dir.path(), &old, &entropy).await.unwrap();
        let new = begun.fingerprint();
        assert!(new != old && begun.preferring(&old).is_some());
        // A process that continues makes no third key, whichever of both it uses.
        for in_use in [&old, &new] {
            let again = source.begin_rotation(dir.path(), in_use, &entropy).await.unwrap();
            assert_eq!(again.fingerprint(), new);
        }
        for _ in 0..2 {
            assert!(source.end_rotation(dir.path()).unwrap());
            let keys = source.read(dir.path(), &entropy).await.unwrap();
            assert_eq!((keys.fingerprint(), keys.has_former()), (new.clone(), false));
        }
    }

    #[tokio::test]
    async fn a_key_outside_of_the_data_directory_is_replaced_by_an_operator() {
        let (dir, entropy) = (tempfile::tempdir().unwrap(), entropy());
        let [old, new] = [(); 2].map(|()| make_key(&*entropy).expose_secret().to_owned());
        let path = dir.path().join("key");
        let sources = [
            SealKeySource::File(path.clone()),
            SealKeySource::Command(format!("cat '{}'; echo not logged >&2", path.display())),
        ];
        for source in sources {
            std::fs::write(&path, format!("{old}\n")).unwrap();
            let in_use = source.read(dir.path(), &entropy).await.unwrap().fingerprint();
            let begin = async || source.begin_rotation(dir.path(), &in_use, &entropy).await;
            assert!(matches!(begin().await, Err(KeyRotationError::NoNewKey(_))));
            std::fs::write(&path, &new).unwrap();
            assert!(matches!(begin().await, Err(KeyRotationError::NoCurrentKey(_))));
            std::fs::write(&path, format!("{new}\n{old}\n")).unwrap();
            let both = begin().await.unwrap();
            assert!(both.fingerprint() != in_use && both.has_former());
            assert!(!source.end_rotation(dir.path()).unwrap());
            assert!(!dir.path().join(KEY_FILE).exists());
        }
    }

    #[tokio::test]
    async fn a_blank_line_in_the_key_file_is_not_taken_for_a_key() {
        let (dir, entropy) = (tempfile::tempdir().unwrap(), entropy());
        let [new, old] = [(); 2].map(|()| make_key(&*entropy).expose_secret().to_owned());
        std::fs::write(dir.path().join(KEY_FILE), format!("\n{new}\n{old}\n")).unwrap();
        assert!(SealKeySource::DataDir.end_rotation(dir.path()).unwrap());
        let kept = std::fs::read_to_string(dir.path().join(KEY_FILE)).unwrap();
        assert_eq!(kept.trim(), new);
    }

    /// Regression test: a rotation was reported although no secret was sealed with another key.
    #[tokio::test]
    async fn keys_in_the_wrong_order_are_not_a_rotation() {
        let (dir, entropy) = (tempfile::tempdir().unwrap(), entropy());
        let [new, old] = [(); 2].map(|()| make_key(&*entropy).expose_secret().to_owned());
        let path = dir.path().join("key");
        let source = SealKeySource::File(path.clone());
        std::fs::write(&path, &old).unwrap();
        let in_use = source.read(dir.path(), &entropy).await.unwrap().fingerprint();
        std::fs::write(&path, format!("{old}\n{new}\n")).unwrap();
        let refused = source.begin_rotation(dir.path(), &in_use, &entropy).await;
        assert!(matches!(refused, Err(KeyRotationError::NoNewKey(_))));
    }

    #[tokio::test]
    async fn errors_contain_no_output_of_a_command() {
        for (command, part) in [
            ("echo secret; exit 3", "exit status: 3"),
            ("echo secret", "64 hexadecimal digits"),
            ("yes secret", "too long"),
            ("kill $$", "signal"),
        ] {
            let source = SealKeySource::Command(command.to_owned());
            let error = source.read(Path::new("/"), &entropy()).await.err().unwrap().to_string();
            assert!(error.contains(part) && !error.contains("secret"), "{command}: {error}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_command_that_hangs_is_ended() {
        let source = SealKeySource::Command("sleep 1000".to_owned());
        let error = source.read(Path::new("/"), &entropy()).await.err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
