//! The dashboard from outside: its screens, its connection, and the real binary in a terminal.

// `cfg(test)` is always true here; it tells clippy that helpers may unwrap, too.
#[cfg(test)]
mod connection;
#[cfg(test)]
mod fake;
#[cfg(test)]
mod keys;
#[cfg(test)]
mod picture;
#[cfg(test)]
mod sample;
#[cfg(test)]
mod screens;
#[cfg(test)]
mod terminal;
