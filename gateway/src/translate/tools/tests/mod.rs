//! What the rules of §3 say, rule by rule.
