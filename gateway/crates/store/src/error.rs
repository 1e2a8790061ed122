//! Why a store operation failed.

/// The reason why a store operation failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The named object does not exist.
    #[error("not found")]
    NotFound,
    /// The object to add exists, or the object to remove is in use, as described by the text.
    #[error("{0}")]
    Conflict(String),
    /// Other gateways committed changes that the change is not based on, because this gateway has
    /// not [applied](crate::Changes) them yet. The change was not made.
    #[error("another gateway made a change at the same time")]
    Stale,
    /// The database failed.
    #[error("the store is unavailable")]
    Unavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The disk failed to read or write.
    #[error("{fault}")]
    Disk {
        /// The kind of failure.
        fault: DiskFault,
        /// The error of the operating system or the database.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The backend does not have this operation, for the reason in the text.
    #[error("{0}")]
    Unsupported(&'static str),
    /// The database could not be opened.
    #[error("the store at `{location}` cannot be opened")]
    Unopened {
        /// The database file, or the address of the database without its password.
        location: String,
        /// The reason.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// A failure of a disk. `Display` is for operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DiskFault {
    /// There is no space, or a quota is used up.
    #[error("there is no room on the gateway's disk")]
    Full,
    /// The file system is mounted read-only, or the file is not writable.
    #[error("the gateway's disk is read-only")]
    ReadOnly,
    /// Reads or writes fail.
    #[error(
        "the gateway's disk fails to read or write (it may be full, at a limit on file sizes, or broken)"
    )]
    Failing,
}

impl DiskFault {
    /// Returns the disk failure that an error of the operating system indicates, if any.
    pub fn of(error: &std::io::Error) -> Option<Self> {
        use std::io::ErrorKind;
        match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Some(Self::Full),
            ErrorKind::ReadOnlyFilesystem => Some(Self::ReadOnly),
            ErrorKind::FileTooLarge => Some(Self::Failing),
            _ => None,
        }
    }
}

impl From<std::io::Error> for StoreError {
    fn from(error: std::io::Error) -> Self {
        match DiskFault::of(&error) {
            Some(fault) => Self::Disk { fault, source: error.into() },
            None => Self::Unavailable(error.into()),
        }
    }
}
