//! The house rules as tests: dependencies between modules, file headers, banned texts, retired
//! words.

mod events;
mod imports;
mod texts;
mod words;
