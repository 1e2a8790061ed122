//! What a word of the gateway outlives.

/// What it outlives that something was written down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// The death of the process. A power cut may take the last moments.
    #[default]
    Process,
    /// The loss of power, too: whoever is told something has waited for the disk.
    Power,
}
