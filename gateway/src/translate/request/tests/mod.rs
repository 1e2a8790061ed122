//! What the rules of §1 and §2 say, rule by rule.
