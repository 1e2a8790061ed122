//! Parsers for command line values: times, durations, deployments and enum values.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use proto::v1::{Ability, Deployment, Input, Profile, RequestStatus, Routing};

use crate::error::Failure;

/// A point in time, absolute or relative to now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// An absolute time.
    At(Timestamp),
    /// A distance from now. The option decides between past and future.
    Relative(SignedDuration),
}

// === impl When ===

impl When {
    /// Resolves a relative time to the past.
    ///
    /// # Errors
    /// The result is outside the range of [`Timestamp`].
    pub(crate) fn before(self, now: Timestamp) -> Result<prost_types::Timestamp, Failure> {
        self.resolve(now, Timestamp::checked_sub)
    }

    /// Resolves a relative time to the future.
    ///
    /// # Errors
    /// The result is outside the range of [`Timestamp`].
    pub(crate) fn after(self, now: Timestamp) -> Result<prost_types::Timestamp, Failure> {
        self.resolve(now, Timestamp::checked_add)
    }

    fn resolve(
        self,
        now: Timestamp,
        shift: fn(Timestamp, SignedDuration) -> Result<Timestamp, jiff::Error>,
    ) -> Result<prost_types::Timestamp, Failure> {
        let time = match self {
            Self::At(time) => time,
            Self::Relative(duration) => shift(now, duration).map_err(|_| {
                Failure::usage("the duration is too long: the time is out of range")
            })?,
        };
        // Protobuf requires nonnegative nanoseconds, also before 1970.
        let second = time.as_nanosecond().div_euclid(1_000_000_000);
        let nanos = time.as_nanosecond().rem_euclid(1_000_000_000);
        Ok(prost_types::Timestamp {
            seconds: i64::try_from(second).unwrap_or_default(),
            nanos: i32::try_from(nanos).unwrap_or_default(),
        })
    }
}

/// Parses `30d`, `12h`, `90m`, `45s` or `2w`.
pub(crate) fn duration(text: &str) -> Result<SignedDuration, String> {
    let invalid = || format!("`{text}` is not a duration such as 90m, 12h or 30d");
    let unit = text.chars().next_back().ok_or_else(invalid)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        'w' => 604_800,
        _ => return Err(invalid()),
    };
    let count: u32 = text[..text.len() - 1].parse().map_err(|_| invalid())?;
    Ok(SignedDuration::from_secs(i64::from(count) * seconds))
}

/// Parses a [`duration`], an RFC 3339 time, or a date, which means its midnight in UTC, as all
/// printed times and the days and months of usage are in UTC.
pub(crate) fn when(text: &str) -> Result<When, String> {
    let time = || text.parse().ok().or_else(|| midnight(text)).map(When::At);
    duration(text).ok().map(When::Relative).or_else(time).ok_or_else(|| {
        format!(
            "`{text}` is neither a time (2026-11-20T12:00:00Z), a date (2026-11-20, midnight UTC) nor a \
             duration (90m, 12h, 30d)"
        )
    })
}

/// Returns midnight in UTC of a date such as `2026-11-01`.
fn midnight(day: &str) -> Option<Timestamp> {
    // Without the length check, jiff also parses a time without a zone, and drops the time of day.
    let day: Date = day.parse().ok().filter(|_| day.len() == "2026-11-01".len())?;
    Some(day.to_zoned(TimeZone::UTC).ok()?.timestamp())
}

/// Parses `NAME` or `NAME:UPSTREAM_MODEL`. The model's name may contain colons, the upstream's may
/// not.
pub(crate) fn deployment(text: &str) -> Result<Deployment, String> {
    let (upstream, upstream_model) = match text.split_once(':') {
        Some((_, "")) => return Err(format!("`{text}` names no model after the colon")),
        Some((upstream, model)) => (upstream, model),
        None => (text, ""),
    };
    if upstream.is_empty() {
        return Err(format!("`{text}` names no upstream"));
    }
    Ok(Deployment {
        upstream: upstream.to_owned(),
        upstream_model: upstream_model.to_owned(),
        weight: 1,
        priority: 0,
    })
}

/// Parses `on` or `off`.
pub(crate) fn on_or_off() -> impl TypedValueParser<Value = bool> {
    PossibleValuesParser::new(["on", "off"]).map(|text| text == "on")
}

/// Parses a request's status.
pub(crate) fn status() -> impl TypedValueParser<Value = RequestStatus> {
    enum_value(
        &["completed", "incomplete", "failed", "cancelled", "interrupted", "rejected"],
        "REQUEST_STATUS_",
        RequestStatus::from_str_name,
    )
}

/// Parses an upstream's profile.
pub(crate) fn profile() -> impl TypedValueParser<Value = Profile> {
    enum_value(
        &["generic", "openai", "vllm", "llamacpp", "ollama", "sglang"],
        "PROFILE_",
        Profile::from_str_name,
    )
}

/// Parses an ability of a model. An empty value is [`Ability::Unspecified`], which clears the list.
pub(crate) fn ability() -> impl TypedValueParser<Value = Ability> {
    enum_value(
        &["tools", "vision", "reasoning", "structured_output", "verbosity", ""],
        "ABILITY_",
        |name| {
            if name == "ABILITY_" {
                Some(Ability::Unspecified)
            } else {
                Ability::from_str_name(name)
            }
        },
    )
}

/// Parses an input type of a model. An empty value is [`Input::Unspecified`], which clears the
/// list.
pub(crate) fn input() -> impl TypedValueParser<Value = Input> {
    enum_value(&["text", "image", "file", "audio", ""], "INPUT_", |name| {
        if name == "INPUT_" { Some(Input::Unspecified) } else { Input::from_str_name(name) }
    })
}

/// Parses the routing policy of a model.
pub(crate) fn routing() -> impl TypedValueParser<Value = Routing> {
    const ALLOWED: [&str; 3] = ["weighted", "least_loaded", "prefix_affinity"];
    enum_value(&ALLOWED, "ROUTING_", Routing::from_str_name)
}

/// Returns a parser of the `allowed` values, which looks up `prefix` + upper-case value with
/// `find`.
fn enum_value<E: Clone + Send + Sync + 'static>(
    allowed: &'static [&'static str],
    prefix: &'static str,
    find: fn(&str) -> Option<E>,
) -> impl TypedValueParser<Value = E> {
    let shown = allowed.iter().map(|word| {
        let value = clap::builder::PossibleValue::new(*word).hide(word.is_empty());
        if *word == "structured_output" { value.alias("structured-output") } else { value }
    });
    PossibleValuesParser::new(shown).try_map(move |word| {
        find(&format!("{prefix}{}", word.replace('-', "_").to_uppercase()))
            .ok_or_else(|| format!("`{word}` is not supported"))
    })
}

#[cfg(test)]
mod tests {
    use super::{When, deployment, duration, when};

    #[test]
    fn durations_have_a_count_and_a_unit() {
        for (text, seconds) in
            [("45s", 45), ("90m", 5_400), ("12h", 43_200), ("30d", 2_592_000), ("2w", 1_209_600)]
        {
            assert_eq!(duration(text).map(|it| it.as_secs()), Ok(seconds), "{text}");
        }
        for text in ["", "d", "30", "-1d", "1y", "1.5h", "30 d", "３d", "99999999999d"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times_are_absolute_or_relative() {
        let now = "2026-11-20T12:00:00.5Z".parse().unwrap();
        let day = when("24h").unwrap();
        assert_eq!(day.before(now).unwrap().seconds, 1_795_089_600);
        assert_eq!(day.after(now).unwrap().seconds, 1_795_262_400);
        assert_eq!(day.after(now).unwrap().nanos, 500_000_000);
        let absolute = when("2026-11-20T13:00:00+01:00").unwrap();
        assert_eq!(absolute, When::At("2026-11-20T12:00:00Z".parse().unwrap()));
        let day = when("2026-11-01").unwrap();
        assert_eq!(day, When::At("2026-11-01T00:00:00Z".parse().unwrap()));
        for wrong in ["yesterday", "2026-11-31", "2026-11", "2026-11-01T12:00"] {
            assert!(when(wrong).unwrap_err().contains("midnight UTC"), "{wrong}");
        }
    }

    #[test]
    fn deployments_split_at_the_first_colon() {
        for (text, upstream, model) in
            [("vllm", "vllm", ""), ("ollama:llama3:8b", "ollama", "llama3:8b")]
        {
            let deployment = deployment(text).unwrap();
            assert_eq!((&*deployment.upstream, &*deployment.upstream_model), (upstream, model));
        }
        for text in ["", ":m", "u:"] {
            assert!(deployment(text).is_err(), "{text}");
        }
    }
}
