//! Attributes of spans, log records and the resource.

use uuid::Uuid;

use otlp_proto::common::v1::any_value::Value;
use otlp_proto::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use otlp_proto::resource::v1::Resource;

/// The version of the semantic conventions that the names of attributes are from.
pub(super) const SCHEMA_URL: &str = "https://opentelemetry.io/schemas/1.37.0";

/// Returns an attribute with a text.
pub(super) fn text(key: &str, value: impl Into<String>) -> KeyValue {
    with_value(key, Value::StringValue(value.into()))
}

/// Returns an attribute with a number. Greater ones than the protocol has are the greatest one.
pub(super) fn number(key: &str, value: impl TryInto<i64>) -> KeyValue {
    with_value(key, Value::IntValue(value.try_into().unwrap_or(i64::MAX)))
}

/// Returns an attribute with a number that is not whole.
pub(super) fn float(key: &str, value: f64) -> KeyValue {
    with_value(key, Value::DoubleValue(value))
}

/// Returns an attribute that is true or false.
pub(super) fn flag(key: &str, value: bool) -> KeyValue {
    with_value(key, Value::BoolValue(value))
}

/// Returns a text as a value.
pub(super) fn text_value(value: impl Into<String>) -> AnyValue {
    AnyValue { value: Some(Value::StringValue(value.into())) }
}

fn with_value(key: &str, value: Value) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue { value: Some(value) }),
        ..KeyValue::default()
    }
}

/// Returns the resource of this process, whose id is `instance`. `configured` attributes take precedence.
pub(super) fn resource(instance: Uuid, configured: &[(String, String)]) -> Resource {
    let mut attributes = vec![
        text("service.name", "tollgate"),
        text("service.version", version::VERSION),
        text("service.instance.id", instance.to_string()),
    ];
    for (key, value) in configured {
        attributes.retain(|attribute| attribute.key != *key);
        attributes.push(text(key, value));
    }
    Resource { attributes, ..Resource::default() }
}

/// Returns the scope of everything that is exported.
pub(super) fn scope() -> InstrumentationScope {
    InstrumentationScope {
        name: "tollgate".to_owned(),
        version: version::VERSION.to_owned(),
        ..InstrumentationScope::default()
    }
}
