//! What `/healthz?verbose` answers.

use bytes::Bytes;
use serde_json::json;

use store::Schema;

/// Returns which program serves, and the schema of its database.
pub(super) fn verbose(schema: Schema) -> Bytes {
    let health = json!({
        "status": "ok",
        "version": version::VERSION,
        "commit": version::COMMIT,
        "database": schema.backend,
        "schema": schema.version,
    });
    health.to_string().into()
}
