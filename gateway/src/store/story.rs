//! One story that every backend must play.
