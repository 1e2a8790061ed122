//! The house rules as tests: who may import whom, what every file has, what none may name.

mod imports;
mod texts;
mod words;
