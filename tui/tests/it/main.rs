//! Integration tests of the dashboard: screens, connection, and the binary in a terminal.

// `cfg(test)` is always true here. It makes clippy allow `unwrap` in helpers.
#[cfg(test)]
mod audit;
#[cfg(test)]
mod commands;
#[cfg(test)]
mod connection;
#[cfg(test)]
mod fake;
mod first_steps;
#[cfg(test)]
mod keys;
mod live;
#[cfg(test)]
mod operations;
mod overlays;
#[cfg(test)]
mod picture;
#[cfg(test)]
mod sample;
#[cfg(test)]
mod screens;
#[cfg(test)]
mod snapshot;
#[cfg(test)]
mod terminal;
mod trial;
