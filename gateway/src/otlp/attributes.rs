//! Attributes of spans, log records and the resource, and the messages that are around all items of an export.

use bytes::Bytes;
use uuid::Uuid;

use super::protobuf::{self, MessageWriter};

/// The version of the semantic conventions that the names of attributes are from.
const SCHEMA_URL: &str = "https://opentelemetry.io/schemas/1.37.0";

/// The value of an attribute.
#[derive(Clone, Copy)]
pub(super) enum Value<'a> {
    /// A text.
    Text(&'a str),
    /// A number.
    Number(i64),
    /// A number that is not whole.
    Float(f64),
    /// True or false.
    Flag(bool),
}

/// What is around the items of an export: the resource of this process, and the scope.
pub(super) struct Envelope {
    /// The fields of `ResourceSpans` and its counterparts, except for the list that has the scope.
    resource: Vec<u8>,
    /// The fields of `ScopeSpans` and its counterparts, except for the list of items.
    scope: Vec<u8>,
}

// === impl Value ===

impl Value<'_> {
    /// Returns a number. Greater ones than the protocol has are the greatest one.
    pub(super) fn count(value: impl TryInto<i64>) -> Self {
        Self::Number(value.try_into().unwrap_or(i64::MAX))
    }
}

// === impl MessageWriter ===

impl MessageWriter<'_> {
    /// Appends an attribute (`KeyValue`) to the list `field`.
    pub(super) fn attribute(&mut self, field: u32, key: &str, value: Value<'_>) {
        if let Value::Text(text) = value
            && self.short_pair(field, key, text)
        {
            return;
        }
        self.message(field, |attribute| {
            attribute.text(1, key);
            attribute.value(2, value);
        });
    }

    /// Appends a value (`AnyValue`).
    pub(super) fn value(&mut self, field: u32, value: Value<'_>) {
        self.message(field, |message| match value {
            Value::Text(text) => message.text(1, text),
            Value::Flag(flag) => message.number(2, flag.into()),
            Value::Number(number) => message.number(3, number.cast_unsigned()),
            Value::Float(number) => message.fixed64(4, number.to_bits()),
        });
    }
}

// === impl Envelope ===

impl Envelope {
    /// Creates the envelope of the process whose id is `instance`. `configured` attributes of the resource take precedence.
    pub(super) fn new(instance: Uuid, configured: &[(String, String)]) -> Self {
        let instance = instance.to_string();
        let mut attributes = vec![
            ("service.name", "tollgate"),
            ("service.version", version::VERSION),
            ("service.instance.id", &instance),
        ];
        for (key, value) in configured {
            attributes.retain(|(other, _)| other != key);
            attributes.push((key, value));
        }
        let (mut resource, mut scope) = (Vec::new(), Vec::new());
        let mut writer = MessageWriter::new(&mut resource);
        writer.message(1, |resource| {
            for (key, value) in attributes {
                resource.attribute(1, key, Value::Text(value));
            }
        });
        writer.text(3, SCHEMA_URL);
        let mut writer = MessageWriter::new(&mut scope);
        writer.message(1, |scope| {
            scope.text(1, "tollgate");
            scope.text(2, version::VERSION);
        });
        writer.text(3, SCHEMA_URL);
        Self { resource, scope }
    }

    /// Returns an export of these items, each of which is an encoded message in two parts. The requests for spans, metrics
    /// and log records have the same form.
    pub(super) fn export(&self, items: &[[&[u8]; 2]]) -> Bytes {
        let length = |item: &[&[u8]; 2]| item.iter().map(|part| part.len()).sum();
        let of_items = items.iter().map(|item| protobuf::field_length(length(item))).sum::<usize>();
        let of_scope = self.scope.len() + of_items;
        let of_resource = self.resource.len() + protobuf::field_length(of_scope);
        let mut export = Vec::with_capacity(protobuf::field_length(of_resource));
        let mut writer = MessageWriter::new(&mut export);
        writer.begin_message(1, of_resource).append(&self.resource);
        writer.begin_message(2, of_scope).append(&self.scope);
        for item in items {
            let message = writer.begin_message(2, length(item));
            for part in item {
                message.append(part);
            }
        }
        export.into()
    }
}

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::*;
    use otlp_proto::collector::logs::v1::ExportLogsServiceRequest;
    use otlp_proto::common::v1::any_value::Value as AnyValue;
    use otlp_proto::logs::v1::LogRecord;

    #[test]
    fn an_export_has_the_resource_the_scope_and_the_items() {
        let configured = [("service.name", "a"), ("x", "1"), ("x", "2")];
        let configured = configured.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let envelope = Envelope::new(Uuid::nil(), &configured);
        for length in [1, 127, 128, 70_000] {
            let record = LogRecord { event_name: "n".repeat(length), ..LogRecord::default() };
            let item = record.encode_to_vec();
            let export = envelope.export(&[[&*item, &[]], [&item[..1], &item[1..]]]);
            let export = ExportLogsServiceRequest::decode(export).unwrap();
            let [resource_logs] = &export.resource_logs[..] else { panic!("{export:?}") };
            let resource = resource_logs.resource.as_ref().unwrap();
            let attributes = resource.attributes.iter().map(|attribute| {
                let value = attribute.value.as_ref().unwrap().value.as_ref();
                let Some(AnyValue::StringValue(value)) = value else { panic!("{value:?}") };
                (&*attribute.key, &**value)
            });
            let attributes: Vec<_> =
                attributes.filter(|(key, _)| *key != "service.version").collect();
            let instance = "00000000-0000-0000-0000-000000000000";
            let expected = [("service.instance.id", instance), ("service.name", "a"), ("x", "2")];
            assert_eq!(attributes, expected);
            let [scope_logs] = &resource_logs.scope_logs[..] else { panic!("{export:?}") };
            assert_eq!(scope_logs.scope.as_ref().unwrap().name, "tollgate");
            assert_eq!([&resource_logs.schema_url, &scope_logs.schema_url], [SCHEMA_URL; 2]);
            assert_eq!(scope_logs.log_records, [record.clone(), record]);
        }
    }
}
