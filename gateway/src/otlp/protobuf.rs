//! Writes Protobuf messages from borrowed values. The generated types own their values: a log record of 20 fields would
//! take 40 allocations.

/// How a value is encoded, in the lowest bits of its tag.
#[derive(Clone, Copy)]
enum WireType {
    Varint = 0,
    Fixed64 = 1,
    LengthDelimited = 2,
    Fixed32 = 5,
}

/// A message, whose fields are appended to a buffer. As in the Protobuf format, a field that occurs several times is a
/// list.
pub(super) struct MessageWriter<'a>(&'a mut Vec<u8>);

impl<'a> MessageWriter<'a> {
    /// Writes to the end of `buffer`.
    pub(super) fn new(buffer: &'a mut Vec<u8>) -> Self {
        Self(buffer)
    }

    /// Appends a field with a number, a truth value, or an `enum`. Negative numbers are in two's complement.
    pub(super) fn number(&mut self, field: u32, value: u64) {
        self.tag(field, WireType::Varint);
        self.varint(value);
    }

    /// Appends a `fixed64` field, or a `double` by its bits.
    pub(super) fn fixed64(&mut self, field: u32, value: u64) {
        self.tag(field, WireType::Fixed64);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// Appends a `fixed32` field.
    pub(super) fn fixed32(&mut self, field: u32, value: u32) {
        self.tag(field, WireType::Fixed32);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// Appends a field with bytes or an encoded message.
    pub(super) fn bytes(&mut self, field: u32, value: &[u8]) {
        self.begin_message(field, value.len()).append(value);
    }

    /// Appends a field with a text.
    pub(super) fn text(&mut self, field: u32, value: &str) {
        self.bytes(field, value.as_bytes());
    }

    /// Appends a field with the message that `write` writes.
    pub(super) fn message(&mut self, field: u32, write: impl FnOnce(&mut MessageWriter<'_>)) {
        self.tag(field, WireType::LengthDelimited);
        let begin = self.0.len();
        // Most messages are shorter than 128 bytes, so that their length takes one byte.
        self.0.push(0);
        write(&mut MessageWriter(self.0));
        let length = self.0.len() - begin - 1;
        if let Ok(byte @ 0..0x80) = u8::try_from(length) {
            self.0[begin] = byte;
        } else {
            let end = self.0.len();
            self.varint(length as u64);
            // The length is behind the message, and the placeholder before it.
            let bytes = self.0.len() - end;
            self.0[begin + 1..].rotate_right(bytes);
            self.0.remove(begin);
        }
    }

    /// Appends a message whose field 1 is `key`, and whose field 2 is a message with the field 1 `value`: an attribute with a
    /// text. Returns whether it was appended; it is not unless all of their lengths take one byte. Most attributes are
    /// such ones, and to write their lengths behind them takes twice as long.
    pub(super) fn short_pair(&mut self, field: u32, key: &str, value: &str) -> bool {
        let Ok(length @ 0..0x80) = u8::try_from(key.len() + value.len() + 6) else { return false };
        let [key_length, value_length] = [key, value].map(|text| text.len().to_le_bytes()[0]);
        let tag = |field| field << 3 | WireType::LengthDelimited as u8;
        let Ok(field @ 0..16) = u8::try_from(field) else { return false };
        self.0.reserve(usize::from(length) + 2);
        self.0.extend_from_slice(&[tag(field), length, tag(1), key_length]);
        self.0.extend_from_slice(key.as_bytes());
        self.0.extend_from_slice(&[tag(2), value_length + 2, tag(1), value_length]);
        self.0.extend_from_slice(value.as_bytes());
        true
    }

    /// Begins a message of `length` bytes, which must be appended next.
    pub(super) fn begin_message(&mut self, field: u32, length: usize) -> &mut Self {
        self.tag(field, WireType::LengthDelimited);
        self.varint(length as u64);
        self
    }

    /// Appends encoded fields.
    pub(super) fn append(&mut self, fields: &[u8]) {
        self.0.extend_from_slice(fields);
    }

    fn tag(&mut self, field: u32, wire_type: WireType) {
        self.varint(u64::from(field << 3 | wire_type as u32));
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value.to_le_bytes()[0] | 0x80);
            value >>= 7;
        }
        self.0.push(value.to_le_bytes()[0]);
    }
}

/// Returns the length of a field with a message of `length` bytes, whose number is below 16.
pub(super) const fn field_length(length: usize) -> usize {
    let mut bytes = 2;
    let mut rest = length >> 7;
    while rest > 0 {
        bytes += 1;
        rest >>= 7;
    }
    bytes + length
}

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::*;
    use otlp_proto::resource::v1::Resource;
    use otlp_proto::trace::v1::{ResourceSpans, Span, Status};

    #[test]
    fn messages_are_those_of_the_generated_types() {
        for length in [0, 1, 127, 128, 16_383, 16_384, 70_000] {
            let span = Span {
                trace_id: vec![7; 16],
                name: "n".repeat(length),
                start_time_unix_nano: u64::MAX,
                dropped_links_count: u32::MAX,
                status: Some(Status { message: "m".repeat(length), code: 2 }),
                flags: 0x101,
                ..Span::default()
            };
            let mut written = Vec::new();
            let mut writer = MessageWriter::new(&mut written);
            writer.bytes(1, &span.trace_id);
            if length > 0 {
                writer.text(5, &span.name);
            }
            writer.fixed64(7, span.start_time_unix_nano);
            writer.number(14, span.dropped_links_count.into());
            writer.message(15, |status| {
                if length > 0 {
                    status.text(2, &"m".repeat(length));
                }
                status.number(3, 2);
            });
            writer.fixed32(16, span.flags);
            assert_eq!(written, span.encode_to_vec(), "{length}");
        }
    }

    #[test]
    fn short_pairs_are_those_of_the_generated_types() {
        use otlp_proto::common::v1::any_value::Value;
        use otlp_proto::common::v1::{AnyValue, KeyValue};
        for (key, value) in [(1, 0), (1, 120), (1, 121), (60, 61), (121, 0), (122, 0), (0, 300)] {
            let [key, value] = [key, value].map(|length| "x".repeat(length));
            let mut written = Vec::new();
            let is_written = MessageWriter::new(&mut written).short_pair(9, &key, &value);
            assert_eq!(is_written, key.len() + value.len() <= 121);
            let value = Some(AnyValue { value: Some(Value::StringValue(value)) });
            let attributes = vec![KeyValue { key, value, ..KeyValue::default() }];
            let span = Span { attributes, ..Span::default() };
            let expected = if is_written { span } else { Span::default() };
            assert_eq!(Span::decode(&*written), Ok(expected));
        }
    }

    #[test]
    fn an_empty_message_is_not_an_absent_one() {
        let mut written = Vec::new();
        MessageWriter::new(&mut written).message(1, |_| {});
        let expected =
            ResourceSpans { resource: Some(Resource::default()), ..ResourceSpans::default() };
        assert_eq!(ResourceSpans::decode(&*written), Ok(expected));
    }
}
