//! Passes the events of the log that have a stable name to a sink, besides the lines on standard error.

use std::fmt::{self, Write as _};
use std::sync::{Arc, OnceLock};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

/// An event of the log.
#[derive(Clone, Debug, PartialEq)]
pub struct LogEvent {
    /// The level.
    pub level: LogLevel,
    /// The stable name.
    pub name: String,
    /// The message.
    pub message: String,
    /// The other fields, in the order of the line.
    pub fields: Vec<(&'static str, LogValue)>,
}

/// The level of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// Something does not work.
    Error,
    /// Something may need attention.
    Warn,
    /// Something happened.
    Info,
    /// For developers.
    Debug,
    /// In detail, for developers.
    Trace,
}

/// The value of a field.
#[derive(Clone, Debug, PartialEq)]
pub enum LogValue {
    /// A text.
    Text(String),
    /// A number.
    Integer(i64),
    /// A number that is not whole.
    Float(f64),
    /// True or false.
    Flag(bool),
}

type Sink = Box<dyn Fn(LogEvent) + Send + Sync>;

/// The events of the log. Clones share the sink.
#[derive(Clone, Default)]
pub struct LogEvents(Arc<OnceLock<Sink>>);

/// Collects the fields of an event.
#[derive(Default)]
struct Fields {
    name: String,
    message: String,
    others: Vec<(&'static str, LogValue)>,
}

// === impl LogEvents ===

impl LogEvents {
    /// Passes each event from now on to `sink`, on the thread that logs it. The first call counts.
    pub fn connect(&self, sink: impl Fn(LogEvent) + Send + Sync + 'static) {
        _ = self.0.set(Box::new(sink));
    }
}

impl<S: Subscriber> Layer<S> for LogEvents {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let Some(sink) = self.0.get() else { return };
        if event.metadata().fields().field("event").is_none() {
            return;
        }
        let mut fields = Fields::default();
        event.record(&mut fields);
        let level = match *event.metadata().level() {
            Level::ERROR => LogLevel::Error,
            Level::WARN => LogLevel::Warn,
            Level::INFO => LogLevel::Info,
            Level::DEBUG => LogLevel::Debug,
            Level::TRACE => LogLevel::Trace,
        };
        let Fields { name, message, others: fields } = fields;
        sink(LogEvent { level, name, message, fields });
    }
}

// === impl Fields ===

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "event" => value.clone_into(&mut self.name),
            "message" => value.clone_into(&mut self.message),
            name => self.others.push((name, LogValue::Text(value.to_owned()))),
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.others.push((field.name(), LogValue::Integer(value)));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        let value = i64::try_from(value)
            .map_or_else(|_| LogValue::Text(value.to_string()), LogValue::Integer);
        self.others.push((field.name(), value));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.others.push((field.name(), LogValue::Float(value)));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.others.push((field.name(), LogValue::Flag(value)));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let mut text = String::new();
        // A type that cannot be shown has no text.
        _ = write!(text, "{value:?}");
        self.record_str(field, &text);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    #[test]
    fn events_with_a_name_reach_the_sink_with_their_fields() {
        let events = LogEvents::default();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let subscriber = tracing_subscriber::registry().with(events.clone());
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!(event = "serving", "nothing is connected");
            let sink = seen.clone();
            events.connect(move |event| sink.lock().unwrap().push(event));
            tracing::info!("without a name");
            let (model, count, absent) = ("a\nb", 3_u64, None::<&str>);
            tracing::warn!(
                event = "stopped",
                model,
                count,
                absent,
                cost = 0.5,
                whole = true,
                "a message"
            );
        });
        let expected = LogEvent {
            level: LogLevel::Warn,
            name: "stopped".to_owned(),
            message: "a message".to_owned(),
            fields: vec![
                ("model", LogValue::Text("a\nb".to_owned())),
                ("count", LogValue::Integer(3)),
                ("cost", LogValue::Float(0.5)),
                ("whole", LogValue::Flag(true)),
            ],
        };
        assert_eq!(*seen.lock().unwrap(), [expected]);
    }
}
