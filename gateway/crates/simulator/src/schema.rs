//! Generates a value that satisfies a JSON schema, for structured answers and tool arguments.
//!
//! Supports types (and unions of them), `enum`, `const`, objects, arrays, `anyOf`, `oneOf`,
//! `allOf`, `$ref`, bounds of numbers and lengths, and the usual formats; not `pattern`, `not`,
//! `if` or `uniqueItems`. Pure. Start at [`sample`].

use serde_json::{Map, Number, Value, json};

/// The number of nested references up to which optional values are generated. Beyond it, only
/// required values are, so that recursive schemas terminate.
const MAX_FULL_REFERENCES: u32 = 3;
/// The maximum depth of a value.
const MAX_DEPTH: u32 = 100;
/// The maximum number of values in total.
const MAX_VALUES: u32 = 10_000;

struct Sampler<'a> {
    root: &'a Value,
    values_left: u32,
}

/// The position of a value in the sample.
#[derive(Clone, Copy)]
struct Position<'a> {
    /// The name of the property.
    name: &'a str,
    depth: u32,
    references: u32,
}

/// Returns a value that satisfies `schema`. Deterministic. Strings contain `simulated`.
pub(super) fn sample(schema: &Value) -> Value {
    let mut sampler = Sampler { root: schema, values_left: MAX_VALUES };
    sampler.value(schema, Position { name: "value", depth: 0, references: 0 })
}

impl Sampler<'_> {
    fn value(&mut self, schema: &Value, position: Position) -> Value {
        if position.depth > MAX_DEPTH || self.values_left == 0 {
            return Value::Null;
        }
        self.values_left -= 1;
        let inner = Position { depth: position.depth + 1, ..position };
        if let Some(target) = schema["$ref"].as_str() {
            let root = self.root;
            let found = target.strip_prefix('#').and_then(|pointer| root.pointer(pointer));
            let inner = Position { references: position.references + 1, ..inner };
            return found.map_or(Value::Null, |schema| self.value(schema, inner));
        }
        if let Some(parts) = schema["allOf"].as_array().filter(|parts| !parts.is_empty()) {
            return self.value(&self.merged(schema, parts), inner);
        }
        if let Some(branches) = schema["anyOf"].as_array().or_else(|| schema["oneOf"].as_array()) {
            let null =
                branches.iter().find(|it| it["type"] == "null").filter(|_| position.is_minimal());
            return null.or(branches.first()).map_or(Value::Null, |it| self.value(it, inner));
        }
        if let Some(value) = schema.get("const").or_else(|| schema["enum"].get(0)) {
            return value.clone();
        }
        match kind(schema, position) {
            "object" => self.object(schema, inner),
            "array" => self.array(schema, inner),
            "integer" => integer(schema),
            "number" => number(schema),
            "boolean" => Value::Bool(true),
            "null" => Value::Null,
            _ => Value::String(string(schema, position.name)),
        }
    }

    fn object(&mut self, schema: &Value, position: Position) -> Value {
        let required = schema["required"].as_array().map(Vec::as_slice).unwrap_or_default();
        let any = Value::Object(Map::new());
        let mut object = Map::new();
        for name in required.iter().filter_map(Value::as_str) {
            let property = schema["properties"].get(name).unwrap_or(&any);
            object.insert(name.to_owned(), self.value(property, Position { name, ..position }));
        }
        if !position.is_minimal() {
            for (name, property) in schema["properties"].as_object().into_iter().flatten() {
                if !object.contains_key(name) {
                    object
                        .insert(name.clone(), self.value(property, Position { name, ..position }));
                }
            }
        }
        Value::Object(object)
    }

    fn array(&mut self, schema: &Value, position: Position) -> Value {
        let least = schema["minItems"].as_u64().unwrap_or(u64::from(!position.is_minimal()));
        let count = least.min(schema["maxItems"].as_u64().unwrap_or(u64::MAX));
        let any = Value::Object(Map::new());
        let items = schema.get("items").filter(|items| items.is_object()).unwrap_or(&any);
        // Bounds the memory for a large `minItems`.
        let count = count.min(u64::from(self.values_left));
        (0..count)
            .map(|at| {
                let at = usize::try_from(at).unwrap_or(usize::MAX);
                let item = schema["prefixItems"].get(at).unwrap_or(items);
                self.value(item, position)
            })
            .collect()
    }

    /// Merges the parts of an `allOf`, which usually is a single reference.
    fn merged(&self, schema: &Value, parts: &[Value]) -> Value {
        let mut whole = schema.clone();
        whole["allOf"].take();
        for part in parts {
            let target = part["$ref"].as_str().and_then(|target| target.strip_prefix('#'));
            let part = target.and_then(|pointer| self.root.pointer(pointer)).unwrap_or(part);
            for (key, value) in part.as_object().into_iter().flatten() {
                match (&mut whole[key], value) {
                    (Value::Object(known), Value::Object(more)) => known.extend(more.clone()),
                    (Value::Array(known), Value::Array(more)) if key == "required" => {
                        known.extend(more.iter().cloned());
                    }
                    (slot, value) => *slot = value.clone(),
                }
            }
        }
        whole
    }
}

impl Position<'_> {
    /// Whether to generate required values only.
    fn is_minimal(self) -> bool {
        self.references > MAX_FULL_REFERENCES
    }
}

fn kind<'a>(schema: &'a Value, position: Position) -> &'a str {
    if let Some(union) = schema["type"].as_array() {
        let mut kinds = union.iter().filter_map(Value::as_str);
        let wanted = kinds.clone().find(|kind| (*kind == "null") == position.is_minimal());
        return wanted.or_else(|| kinds.next()).unwrap_or("null");
    }
    match schema["type"].as_str() {
        Some(kind) => kind,
        None if schema.get("properties").is_some() => "object",
        None if schema.get("items").is_some() => "array",
        None if schema.get("minimum").is_some() || schema.get("maximum").is_some() => "number",
        None => "string",
    }
}

fn integer(schema: &Value) -> Value {
    let bound = |key: &str, round: fn(f64) -> f64| {
        let value = &schema[key];
        #[expect(clippy::cast_possible_truncation, reason = "saturates, as intended")]
        value.as_i64().or_else(|| value.as_f64().map(|value| round(value) as i64))
    };
    let least = bound("minimum", f64::ceil)
        .max(bound("exclusiveMinimum", f64::floor).map(|bound| bound.saturating_add(1)));
    let above = bound("exclusiveMaximum", f64::ceil).map(|bound| bound.saturating_sub(1));
    let most = [bound("maximum", f64::floor), above].into_iter().flatten().min();
    let step = bound("multipleOf", f64::ceil).filter(|step| *step > 0).unwrap_or(1);

    let start = 1.max(least.unwrap_or(1)).min(most.unwrap_or(i64::MAX));
    let start = least.map_or(start, |least| start.max(least));
    let up = start.saturating_add((step - start.rem_euclid(step)) % step);
    let fits = most.is_none_or(|most| up <= most);
    json!(if fits { up } else { start - start.rem_euclid(step) })
}

fn number(schema: &Value) -> Value {
    let bound = |key: &str| schema[key].as_f64();
    let least = bound("minimum").or(bound("exclusiveMinimum"));
    let most = bound("maximum").or(bound("exclusiveMaximum"));
    let value = match (least, most) {
        _ if schema.get("multipleOf").is_some() => return integer_multiple(schema),
        (Some(least), Some(most)) => f64::midpoint(least, most),
        (Some(least), None) => least + 1.5,
        (None, Some(most)) => most - 1.5,
        (None, None) => 1.5,
    };
    Number::from_f64(value).map_or(Value::Null, Value::Number)
}

/// Returns the smallest multiple of `multipleOf` that satisfies the lower bound.
fn integer_multiple(schema: &Value) -> Value {
    let step = schema["multipleOf"].as_f64().filter(|step| *step > 0.0).unwrap_or(1.0);
    let least = schema["minimum"].as_f64();
    let above = schema["exclusiveMinimum"].as_f64();
    let steps = match (least, above) {
        (Some(least), _) => (least / step).ceil(),
        (None, Some(above)) => (above / step).floor() + 1.0,
        (None, None) => 0.0,
    };
    Number::from_f64(steps * step).map_or(Value::Null, Value::Number)
}

fn string(schema: &Value, name: &str) -> String {
    let formatted = match schema["format"].as_str() {
        Some("date-time") => "2025-01-01T00:00:00Z",
        Some("date") => "2025-01-01",
        Some("time") => "00:00:00Z",
        Some("duration") => "PT1S",
        Some("email") => "simulated@example.com",
        Some("hostname") => "example.com",
        Some("ipv4") => "192.0.2.1",
        Some("ipv6") => "2001:db8::1",
        Some("uri" | "url") => "https://example.com/simulated",
        Some("uuid") => "00000000-0000-4000-8000-000000000000",
        _ => return sized(schema, &format!("simulated {name}")),
    };
    formatted.to_owned()
}

fn sized(schema: &Value, text: &str) -> String {
    let length = |key: &str| schema[key].as_u64().and_then(|it| usize::try_from(it).ok());
    // Bounds the memory for a large `minLength`.
    let least = length("minLength").unwrap_or_default().min(100_000);
    let most = length("maxLength").unwrap_or(usize::MAX);
    let count = text.chars().count().max(least).min(most);
    text.chars().chain(std::iter::repeat('x')).take(count).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(schema: &Value, expected: &Value) {
        assert_eq!(sample(schema), *expected, "{schema}");
    }

    #[test]
    fn simple_types() {
        check(&json!({ "type": "string" }), &json!("simulated value"));
        check(&json!({ "type": "string", "maxLength": 3 }), &json!("sim"));
        check(&json!({ "type": "string", "minLength": 17 }), &json!("simulated valuexx"));
        check(&json!({ "type": "string", "format": "date" }), &json!("2025-01-01"));
        check(&json!({ "type": ["null", "boolean"] }), &json!(true));
        check(&json!({ "type": "null" }), &json!(null));
        check(&json!({}), &json!("simulated value"));
    }

    #[test]
    fn enums_and_constants() {
        check(&json!({ "type": "string", "enum": ["b", "a"] }), &json!("b"));
        check(&json!({ "const": 7 }), &json!(7));
    }

    #[test]
    fn integers_are_within_bounds() {
        check(&json!({ "type": "integer" }), &json!(1));
        check(&json!({ "type": "integer", "minimum": 5 }), &json!(5));
        check(&json!({ "type": "integer", "maximum": -5 }), &json!(-5));
        check(&json!({ "type": "integer", "exclusiveMinimum": 1, "maximum": 2 }), &json!(2));
        check(&json!({ "type": "integer", "exclusiveMaximum": 1 }), &json!(0));
        check(&json!({ "type": "integer", "minimum": 7, "multipleOf": 5 }), &json!(10));
        check(&json!({ "type": "integer", "maximum": 9, "multipleOf": 10 }), &json!(0));
    }

    #[test]
    fn numbers_are_within_bounds() {
        check(&json!({ "type": "number" }), &json!(1.5));
        check(&json!({ "minimum": 0, "maximum": 1 }), &json!(0.5));
        check(&json!({ "type": "number", "exclusiveMinimum": 10 }), &json!(11.5));
        check(&json!({ "type": "number", "maximum": 1 }), &json!(-0.5));
        check(&json!({ "type": "number", "minimum": 1, "multipleOf": 0.5 }), &json!(1.0));
    }

    #[test]
    fn objects_and_arrays() {
        let schema = json!({
            "type": "object",
            "properties": {
                "city": { "type": "string" },
                "days": { "type": "array", "items": { "type": "integer" }, "minItems": 2 },
                "tags": { "type": "array", "items": { "type": "string" }, "maxItems": 0 },
            },
            "required": ["city", "other"],
        });
        let expected = json!({
            "city": "simulated city", "days": [1, 1], "tags": [], "other": "simulated other",
        });
        check(&schema, &expected);
    }

    #[test]
    fn branches_and_references() {
        let schema = json!({
            "anyOf": [{ "$ref": "#/$defs/Point" }, { "type": "null" }],
            "$defs": { "Point": { "allOf": [
                { "properties": { "x": { "type": "integer" } }, "required": ["x"] },
                { "$ref": "#/definitions/Y" },
            ] } },
            "definitions": { "Y": { "properties": { "y": { "const": 2 } }, "required": ["y"] } },
        });
        check(&schema, &json!({ "x": 1, "y": 2 }));
    }

    #[test]
    fn recursive_schemas_terminate() {
        let next = json!({ "anyOf": [{ "$ref": "#" }, { "type": "null" }] });
        let schema = json!({ "properties": { "next": next }, "required": ["next"] });
        let deepest = sample(&schema).pointer(&"/next".repeat(5)).cloned();
        assert_eq!(deepest, Some(Value::Null));

        let tree = json!({
            "properties": { "children": { "type": "array", "items": { "$ref": "#" } } },
            "required": ["children"],
        });
        let deepest =
            sample(&tree).pointer(&format!("{}/children", "/children/0".repeat(4))).cloned();
        assert_eq!(deepest, Some(json!([])));
    }

    #[test]
    fn unsatisfiable_and_huge_schemas_terminate() {
        check(&json!({ "$ref": "#" }), &json!(null));
        check(&json!({ "$ref": "#/nowhere" }), &json!(null));
        let all = json!({ "allOf": [{ "$ref": "#" }] });
        sample(&all);
        let pair = json!({ "properties": { "a": { "$ref": "#" }, "b": { "$ref": "#" } },
            "required": ["a", "b"] });
        sample(&pair);
        sample(&json!({ "type": "array", "minItems": u64::MAX }));
        sample(&json!({ "type": "integer", "minimum": i64::MAX, "multipleOf": 2 }));
        sample(&json!({ "type": "integer", "minimum": i64::MIN, "maximum": i64::MIN }));
    }
}
