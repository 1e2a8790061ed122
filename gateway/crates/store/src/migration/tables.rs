//! The tables that are copied, in an order in which foreign keys find their objects, and how each
//! column of PostgreSQL is read from SQLite.
//!
//! Tests compare the list with both schemas: a new table or column that is not copied fails them.

/// A table of PostgreSQL and where its rows are in SQLite.
#[derive(Debug)]
pub(crate) struct Table {
    /// Its name.
    pub(crate) name: &'static str,
    /// Columns that have the same name in the source.
    same: &'static [&'static str],
    /// Columns that are computed: the name and the expression.
    computed: &'static [(&'static str, &'static str)],
    /// The part of the statement after the columns.
    source: &'static str,
}

/// The columns of sums, after those of their group.
const SUMS: &[&str] = &[
    "account",
    "hour",
    "key",
    "status",
    "requests",
    "input",
    "cached",
    "output",
    "reasoning",
    "cost",
];
const DAY_SUMS: &[&str] = &[
    "account",
    "day",
    "key",
    "status",
    "requests",
    "input",
    "cached",
    "output",
    "reasoning",
    "cost",
];
/// SQLite has 0 instead of NULL in sums without a model.
const MODEL: &[(&str, &str)] = &[("model", "iif(typeof(model) = 'text', model, NULL)")];

/// All tables.
pub(crate) const TABLES: &[Table] = &[
    // The version of the program that wrote the source does not describe the copy.
    Table::same("meta", &["name", "value"], "FROM meta WHERE name <> 'written_by'"),
    // PostgreSQL also has the role that gateways of earlier versions know.
    Table {
        name: "accounts",
        same: &[
            "id",
            "name",
            "folded_name",
            "password_hash",
            "status",
            "plan",
            "created_at",
            "ended",
            "belongs_to",
            "person_role",
        ],
        computed: &[
            ("role", "iif(role IN ('operator', 'owner'), 'operator', 'member')"),
            ("admin_role", "role"),
        ],
        // People after the accounts that they refer to.
        source: "FROM accounts ORDER BY belongs_to IS NOT NULL",
    },
    Table::same("account_deletions", &["account", "at"], "FROM account_deletions"),
    Table::same(
        "invites",
        &[
            "digest",
            "id",
            "created_by",
            "created_at",
            "expires_at",
            "plan",
            "credit",
            "used_at",
            "used_by",
        ],
        "FROM invites",
    ),
    Table::same(
        "sessions",
        &["digest", "id", "account", "created_at", "expires_at"],
        "FROM sessions",
    ),
    Table::same(
        "password_resets",
        &["account", "digest", "created_by", "created_at", "expires_at"],
        "FROM password_resets",
    ),
    Table::same(
        "keys",
        &[
            "id",
            "digest",
            "account",
            "label",
            "origin",
            "rpm",
            "tpm",
            "concurrency",
            "monthly_tokens",
            "observe",
            "spend_cap",
            "models",
            "translation",
            "created_at",
            "expires_at",
            "revoked_at",
            "successor",
            "drain_seconds",
            "created_by",
            "trace_content",
            "last_used_at",
        ],
        "FROM keys",
    ),
    Table::same("trial_days", &["day", "amount"], "FROM trial_days"),
    Table::same(
        "plans",
        &[
            "name",
            "trial_credit",
            "rpm",
            "tpm",
            "concurrency",
            "monthly_tokens",
            "observe",
            "models",
            "max_keys",
        ],
        "FROM plans",
    ),
    Table::same(
        "upstreams",
        &[
            "name",
            "url",
            "profile",
            "connect",
            "first_byte",
            "idle",
            "total",
            "proxy",
            "ca_certificates",
            "client_certificate",
            "client_key",
            "max_connections",
            "max_waiting",
            "health_check",
            "health_check_interval",
            "proxy_user",
            "proxy_password_kind",
            "proxy_password",
            "created_at",
        ],
        "FROM upstreams",
    ),
    // SQLite has the first credential of an upstream in its row.
    Table::same(
        "credentials",
        &["upstream", "position", "kind", "credential"],
        "FROM (SELECT name AS upstream, 0 AS position, credential_kind AS kind, \
            ifnull(credential, x'') AS credential FROM upstreams WHERE credential_kind <> 'none' \
            UNION ALL SELECT upstream, position + 1, kind, credential FROM further_credentials)",
    ),
    Table::same(
        "models",
        &[
            "id",
            "display_name",
            "description",
            "context_window",
            "max_output_tokens",
            "rpm",
            "tpm",
            "concurrency",
            "monthly_tokens",
            "observe",
            "price_input",
            "price_cached",
            "price_output",
            "price_version",
            "abilities",
            "inputs",
            "routing",
            "hedge_after",
            "created_at",
        ],
        "FROM models",
    ),
    Table::same("model_names", &["name", "model", "position"], "FROM model_names"),
    Table::same(
        "deployments",
        &["model", "position", "upstream", "upstream_model", "weight", "priority"],
        "FROM deployments",
    ),
    Table {
        name: "requests",
        same: &[
            "account",
            "id",
            "seq",
            "key",
            "started_at",
            "duration",
            "ttft",
            "endpoint",
            "stream",
            "status",
            "http_status",
            "basis",
            "input",
            "cached",
            "output",
            "reasoning",
            "cost",
            "overrun",
            "price_version",
            "model",
            "upstream",
            "upstream_model",
            "error_code",
            "notes",
            "idempotency",
            "count",
        ],
        // Rounded down, too, for a time before 1970.
        computed: &[("day", "(started_at - (started_at < 0) * 86399999999) / 86400000000")],
        source: "FROM requests ORDER BY seq",
    },
    // PostgreSQL has no sums over all accounts.
    Table {
        name: "request_sums",
        same: SUMS,
        computed: MODEL,
        source: "FROM request_sums WHERE account <> x''",
    },
    Table {
        name: "deleted_sums",
        same: SUMS,
        computed: MODEL,
        source: "FROM forgotten_sums WHERE account <> x''",
    },
    Table { name: "key_days", same: DAY_SUMS, computed: MODEL, source: "FROM key_days" },
    Table::same(
        "ledger_entries",
        &["account", "seq", "amount", "kind", "request", "note", "at"],
        "FROM ledger_entries ORDER BY seq",
    ),
    Table::same("balances", &["account", "amount"], "FROM balances"),
    Table::same(
        "responses",
        &["account", "id", "previous", "conversation", "created_at", "bytes", "input", "object"],
        "FROM responses",
    ),
    Table::same("response_items", &["account", "item", "response"], "FROM response_items"),
    Table::same("response_bytes", &["account", "bytes"], "FROM response_bytes"),
    Table::same(
        "audit",
        &["seq", "at", "actor", "action", "object", "account", "details", "address"],
        "FROM audit ORDER BY seq",
    ),
    Table::same("alerts", &["kind", "subject", "node", "at"], "FROM alerts"),
    Table::same(
        "admin_calls",
        &["actor", "method", "key", "digest", "object", "at"],
        "FROM admin_calls",
    ),
];

impl Table {
    const fn same(name: &'static str, same: &'static [&'static str], source: &'static str) -> Self {
        Self { name, same, computed: &[], source }
    }

    /// Returns the names of the columns in the order of rows.
    pub(crate) fn columns(&self) -> impl Iterator<Item = &'static str> {
        self.same.iter().copied().chain(self.computed.iter().map(|(name, _)| *name))
    }

    /// Returns the statement of SQLite that returns the rows.
    pub(crate) fn select(&self) -> String {
        let expressions = self.computed.iter().map(|(_, expression)| *expression);
        let columns: Vec<_> = self.same.iter().copied().chain(expressions).collect();
        format!("SELECT {} {}", columns.join(", "), self.source)
    }

    /// Returns the statement of SQLite that counts the rows.
    pub(crate) fn count(&self) -> String {
        format!("SELECT count(*), 0 {}", self.source)
    }

    /// Returns the part of a statement of PostgreSQL that selects the copied rows.
    pub(crate) fn copy(&self) -> String {
        // The others are of the migration, or are made by gateways.
        let is_meta = self.name == "meta";
        let condition =
            if is_meta { " WHERE name NOT IN ('migration', 'seal_key', 'written_by')" } else { "" };
        format!("{}{condition}", self.name)
    }
}
