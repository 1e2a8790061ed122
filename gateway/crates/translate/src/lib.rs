//! Translates between the Responses API and chat completions.
//!
#![doc = include_str!("../README.md")]
//!
//! ## Modules
//!
//! - [`request`] parses a request and translates it.
//! - [`plan`] passes the properties of the request to the translation of its answer.
//! - [`answer`] translates the answer.
//! - [`dialect`] describes upstreams.
//! - [`report`] lists losses.
//! - [`rules`] defines the rule ids (`Q-8`, `T-5`, `S-6`, …) that comments cite.

pub mod answer;
pub mod dialect;
pub mod plan;
pub mod report;
pub mod request;
pub mod rules;

mod loss_recorder;
mod path;
mod raw;
mod tools;

#[cfg(test)]
mod tests {
    #[test]
    fn the_readme_has_the_code_of_the_example() {
        let readme = include_str!("../README.md");
        let example = include_str!("../examples/responses_over_chat.rs");
        let (_, block) = readme.split_once("```rust\n").unwrap();
        let (block, _) = block.split_once("```\n").unwrap();
        let (purpose, code) = example.split_once("\n\n").unwrap();
        assert!(purpose.starts_with("//! "));
        assert_eq!(block, code);
    }
}
