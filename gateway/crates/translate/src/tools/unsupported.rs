//! The refusal of tools that cannot be converted (`T-5`).

use std::fmt::Write as _;

use super::super::path::excerpt;
use domain::refusal::{Refusal, RequestFault};

/// The number of tools named in the message; the others are counted.
const MAX_NAMED: usize = 50;

/// The tools that cannot be converted, in input order.
#[derive(Debug, Default)]
pub(super) struct UnsupportedToolList {
    first: Option<String>,
    named: String,
    count: usize,
    has_web_search: bool,
    has_image_generation: bool,
}

impl UnsupportedToolList {
    /// Adds the tool at `at`. `suffix` follows its type in the message.
    pub(super) fn add(&mut self, kind: Option<&str>, suffix: &str, at: String) {
        self.count += 1;
        self.has_web_search |= kind.is_some_and(|kind| kind.starts_with("web_search"));
        self.has_image_generation |= kind == Some("image_generation");
        if self.count <= MAX_NAMED {
            let separator = if self.named.is_empty() { "" } else { ", " };
            let kind = kind.map_or("no type".to_owned(), |kind| format!("`{}`", excerpt(kind)));
            write!(self.named, "{separator}{kind}{suffix} at {at}")
                .expect("writing to memory does not fail");
        }
        self.first.get_or_insert(at);
    }

    /// Refuses the request if the list is not empty.
    pub(super) fn check(self) -> Result<(), Refusal> {
        let Some(first) = self.first else { return Ok(()) };
        let mut message = format!("unsupported tools: {}", self.named);
        if self.count > MAX_NAMED {
            write!(message, " and {} more", self.count - MAX_NAMED)
                .expect("writing to memory does not fail");
        }
        message.push_str(
            "; functions, custom tools, namespaces of them and client-side tool search are supported",
        );
        if self.has_web_search {
            message.push_str("; in Codex, `web_search = \"disabled\"` removes web search");
        }
        if self.has_image_generation {
            message.push_str(
                "; in Codex, `[features] image_generation = false` removes image generation",
            );
        }
        Err(Refusal::invalid(RequestFault::UnsupportedTools, Some(&first), message))
    }
}
