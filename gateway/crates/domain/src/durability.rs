//! The durability of acknowledged writes.

/// The failures that an acknowledged write survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// A crash of the process. Writes of the last moments may be lost on power failure.
    #[default]
    Process,
    /// Power failure as well: a write is acknowledged only after it is synced to disk.
    Power,
}
