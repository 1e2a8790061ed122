//! Sample data from a gateway, numbered by `index`.

use jiff::Timestamp;
use tui::model::accounts::{Account, AccountStatus, Role};
use tui::model::audit::AuditEntry;
use tui::model::catalogue::{Ability, CatalogueModel, Deployment, Modality, Price};
use tui::model::in_flight::InFlight;
use tui::model::invites::Invite;
use tui::model::keys::Key;
use tui::model::ledger::LedgerEntry;
use tui::model::nodes::{Node, NodeState};
use tui::model::people::{Person, PersonRole};
use tui::model::plans::{Limits, Plan};
use tui::model::record::{Record, RequestStatus, Tokens, UsageBasis};
use tui::model::sessions::Session;
use tui::model::traffic::{
    ErrorCount, LedgerState, LimitKind, LimitScope, LimitUse, Minute, Percentiles, Traffic,
};
use tui::model::upstreams::{
    BreakerState, CheckState, Credential, CredentialHealth, Deadlines, Health, Profile, Upstream,
};

use super::{NOW, Sample};

/// Wide characters, joined emoji and an escape sequence that must not reach the terminal.
const LONG: &str = "模型-very-long-name-👩‍🔬-e\u{301}-\u{1b}[31m-";

fn ago(seconds: usize) -> Option<Timestamp> {
    Timestamp::from_second(NOW - i64::try_from(seconds).unwrap()).ok()
}

/// Returns a numbered name, or an overlong one for [`Sample::Full`].
pub(super) fn name(name: &str, index: usize, state: Sample) -> String {
    match state {
        Sample::Full => format!("{name}-{index}-{}", LONG.repeat(4)),
        _ if index == 0 => name.to_owned(),
        _ => format!("{name}-{index}"),
    }
}

pub(super) fn money(index: usize, state: Sample) -> String {
    match state {
        Sample::Full => "-123456789012345678.123456789".to_owned(),
        Sample::Empty => "5.00".to_owned(),
        _ => format!("{}.998213500", 4 + index),
    }
}

pub(crate) fn account(index: usize, role: Role, state: Sample) -> Account {
    Account {
        id: format!("0193-{index:04}"),
        name: name("ada", index, state),
        role: Some(role),
        status: match index {
            _ if state == Sample::Full => AccountStatus::Suspended,
            2 => AccountStatus::Suspended,
            _ => AccountStatus::Active,
        },
        suspended_for: (index == 2).then(|| "the invoice of October is overdue".to_owned()),
        person_role: None,
        plan: Some(name("free", 0, state)),
        balance_usd: Some(money(index, state)),
        created_at: ago(86_400 * (index + 1)),
        recent: None,
    }
}

pub(crate) fn key(index: usize, state: Sample) -> Key {
    let limits = Limits { rpm: Some(60), tpm: Some(200_000), ..Limits::default() };
    Key {
        spend_cap_usd: (index == 0).then(|| "10".to_owned()),
        id: format!("d954a5ca{index:04}"),
        account: name("ada", 0, state),
        label: name("laptop", index, state),
        limits: if index.is_multiple_of(2) { limits } else { Limits::default() },
        models: vec![name("sim-chat", index, state); index % 3],
        created_at: ago(4_000 * (index + 1)),
        last_used_at: if index == 1 { None } else { ago(50 * index) },
        expires_at: if index == 1 { ago(9) } else { None },
        revoked_at: if index == 2 { ago(100) } else { None },
        successor: None,
        recent: None,
        as_of: None,
    }
}

pub(super) fn in_flight(index: usize, state: Sample) -> InFlight {
    let number = u64::try_from(index).unwrap();
    InFlight {
        id: format!("0193a7c4-0000-7000-8000-{index:012}"),
        account: name("ada", 0, state),
        key: "d954a5ca0000".to_owned(),
        endpoint: "responses".to_owned(),
        model: name("qwen3-coder", 0, state),
        deployment: if index == 2 { String::new() } else { "local/Qwen/Qwen3-Coder".to_owned() },
        stream: true,
        started_at: ago(70),
        age_ms: 71_000.0 / f64::from(u32::try_from(index + 1).unwrap()),
        input_bytes: 48_000,
        output_bytes: 2_048 * (3 - number.min(3)),
        recent: None,
    }
}

pub(super) fn invite(index: usize, state: Sample) -> Invite {
    Invite {
        id: format!("4be1f07a{index:04}"),
        created_by: (index != 1).then(|| name("ada", 0, state)),
        plan: (index == 1).then(|| name("team", 0, state)),
        credit_usd: (index == 1).then(|| money(index, state)),
        created_at: ago(4_000 * (index + 1)),
        expires_at: ago(0),
        used_at: if index == 2 { ago(100) } else { None },
    }
}

pub(super) fn person(index: usize, state: Sample) -> Person {
    let roles = [PersonRole::Admin, PersonRole::Member];
    Person {
        id: format!("0198c5f0-0000-7000-8000-{index:012}"),
        name: name("carol", index, state),
        role: Some(roles[index % 2]),
        is_removed: index == 2,
        created_at: ago(90_000 * (index + 1)),
    }
}

pub(super) fn session(index: usize, state: Sample) -> Session {
    Session {
        id: name("5cf2e18b", index, state),
        created_at: ago(4_000 * (index + 1)),
        expires_at: ago(0),
        is_current: index == 0,
    }
}

pub(super) fn node(index: usize, state: Sample) -> Node {
    let states = [NodeState::Serving, NodeState::Draining, NodeState::Silent, NodeState::Stopped];
    let number = u64::try_from(index).unwrap();
    let scale = if state == Sample::Full { 1_234_567_890 } else { 1 };
    Node {
        name: name("gate", index, state),
        state: states.get(index).copied(),
        epoch: number + 1,
        version: name("0.1.0", 0, state),
        address: name("10.0.0.7:8080", 0, state),
        started_at: ago(86_400 * (index + 1)),
        silent_ms: 400 + number * 65_000 * scale,
        in_flight: 41 * scale,
        requests_per_second: 12 * number * scale,
        waiting_records: number * scale,
    }
}

pub(crate) fn catalogue_model(index: usize, state: Sample) -> CatalogueModel {
    let abilities =
        [Ability::Tools, Ability::Vision, Ability::Reasoning, Ability::StructuredOutput];
    let names = ["qwen3-coder", "gpt-oss-20b", "tiny"];
    let full = (state == Sample::Full).then(|| name("qwen3-coder", index, state));
    CatalogueModel {
        id: full.unwrap_or_else(|| names[index % 3].to_owned()),
        display_name: name("Model", index, state),
        description: "A model for code with a context as long as a book.".to_owned(),
        context: (index != 1).then_some(262_144),
        max_output: Some(65_536),
        limits: Limits { tpm: Some(1_000_000), ..Limits::default() },
        price: Price {
            input_usd: Some("0.10".to_owned()),
            cached_usd: Some("0.025".to_owned()),
            output_usd: Some(format!("0.{}", 4 - index % 3)),
            version: 2,
        },
        abilities: abilities[..index % 5].to_vec(),
        inputs: if index == 0 { vec![Modality::Text, Modality::Image] } else { Vec::new() },
        aliases: vec!["coder".to_owned(); index % 2],
        deployments: vec![Deployment {
            upstream: name("local", 0, state),
            model: "Qwen/Qwen3-Coder-480B".to_owned(),
            weight: 1,
            priority: 0,
        }],
        recent: None,
    }
}

pub(super) fn plan(index: usize, state: Sample) -> Plan {
    let monthly_tokens = (index == 0).then_some(50_000_000);
    let observe = index == 2;
    let limits =
        Limits { rpm: Some(60), tpm: Some(200_000), concurrency: None, monthly_tokens, observe };
    Plan {
        name: name("free", index, state),
        trial_credit_usd: Some("5".to_owned()),
        limits: if index == 1 { Limits::default() } else { limits },
        max_keys: Some(100),
        models: vec![name("qwen3-coder", 0, state); index % 2 * 3],
    }
}

pub(super) fn upstream(index: usize, state: Sample) -> Upstream {
    Upstream {
        name: name("local", index, state),
        url: format!("http://10.0.0.{index}:8000/v1"),
        credentials: match index {
            2 => vec![Credential::Variable("LOCAL_KEY".to_owned()), Credential::Sealed],
            _ => vec![Credential::Variable("LOCAL_KEY".to_owned())],
        },
        proxy: (index == 2).then(|| "http://10.0.0.9:3128".to_owned()),
        proxy_user: (index == 2).then(|| "gate".to_owned()),
        max_connections: (index == 2).then_some((8, 100)),
        health_check: (index == 2).then(|| ("/health".to_owned(), 10_000)),
        profile: Profile::Vllm,
        deadlines: Deadlines {
            idle_ms: (index == 2).then_some(90_000),
            total_ms: (index == 2).then_some(3_600_000),
            ..Deadlines::default()
        },
        problem: (index == 2).then(|| "the variable `LOCAL_KEY` is not set".to_owned()),
        created_at: ago(9_000),
        health: None,
        recent: None,
    }
}

pub(super) fn health(index: usize, state: Sample) -> Health {
    let breakers = [BreakerState::Closed, BreakerState::Open, BreakerState::HalfOpen];
    Health {
        name: name("local", index, state),
        breaker: Some(breakers[index % 3]),
        retry_at: (index % 3 == 1).then(|| ago(0)).flatten(),
        in_flight: 12,
        requests: 3_456,
        failures: if index == 0 { 0 } else { 78 },
        latency: Some(Percentiles { p50_ms: 210.0, p90_ms: 890.0, p99_ms: 12_345.0 }),
        last_error: (index > 0).then(|| "connection refused (os error 111)".to_owned()),
        last_error_at: ago(70),
        check: (index == 2).then_some(CheckState::Passing),
        credentials: vec![
            CredentialHealth {
                requests: 3_400,
                problem: (index == 2).then(|| "the variable `LOCAL_KEY` is not set".to_owned()),
                ..CredentialHealth::default()
            },
            CredentialHealth {
                paused_until: ago(0),
                requests: 56,
                refusals: 2,
                ..CredentialHealth::default()
            },
        ],
    }
}

pub(super) fn ledger_entry(index: usize, state: Sample) -> LedgerEntry {
    let kinds = ["charge", "credit", "trial"];
    LedgerEntry {
        id: (1_000 - index).to_string(),
        account: name("ada", 0, state),
        kind: Some(kinds[index % 3]),
        amount_usd: Some(["-0.000012500", "2.5", "5"][index % 3].to_owned()),
        request: index.is_multiple_of(3).then(|| format!("0193-{index}")),
        note: (index % 3 == 1).then(|| name("a gift", 0, state)),
        at: ago(1_000 * index),
    }
}

pub(super) fn entry(index: usize, state: Sample) -> AuditEntry {
    let actions = ["key.create", "account.suspend", "model.update"];
    AuditEntry {
        id: index.to_string(),
        at: ago(1_000 * index),
        actor: (index != 2).then(|| name("ada", 0, state)),
        address: (index != 2).then(|| format!("192.0.2.{index}")),
        action: actions[index % 3].to_owned(),
        object: name("d954a5ca", index, state),
        account: (index != 1).then(|| name("bob", 0, state)),
        details: name("prices changed", 0, state),
    }
}

pub(super) fn limits(state: Sample) -> Vec<LimitUse> {
    let limit = |scope, subject: &str, kind, used, limit| LimitUse {
        scope: Some(scope),
        subject: name(subject, 0, state),
        kind: Some(kind),
        limit,
        used,
        observed: false,
        resets_at: ago(0),
    };
    let all = [
        limit(LimitScope::Plan, "free", LimitKind::Requests, 12, 60),
        limit(LimitScope::Plan, "free", LimitKind::Tokens, 200_000, 200_000),
        limit(LimitScope::Plan, "free", LimitKind::Concurrency, 3, 4),
        limit(LimitScope::Key, "laptop", LimitKind::Spending, 1_250_000_000, 10_000_000_000),
        LimitUse {
            resets_at: Timestamp::from_second(NOW + 86_400 * 12).ok(),
            ..limit(LimitScope::Plan, "free", LimitKind::MonthlyTokens, 50_000_000, 50_000_000)
        },
    ];
    match state {
        Sample::Full => all.iter().cycle().take(30).cloned().collect(),
        Sample::Normal => all.to_vec(),
        Sample::Empty | Sample::Error => Vec::new(),
    }
}

pub(super) fn traffic(state: Sample) -> Traffic {
    if state == Sample::Empty {
        return Traffic { minutes: vec![Minute::default(); 60], ..Traffic::default() };
    }
    let scale = if state == Sample::Full { u64::MAX / 100 } else { 1 };
    let minute = |it: u64| Minute {
        requests: (it * 7 % 31) * scale,
        errors: (it % 13 / 11) * scale,
        tokens: (it * it % 97) * scale,
    };
    let codes = ["upstream_timeout", "rate_limit_exceeded", "insufficient_quota"];
    let error = |index: usize| ErrorCount {
        code: name(codes[index % 3], 0, state),
        count: 40 / (index as u64 + 1),
        last_at: ago(70 * index),
    };
    Traffic {
        in_flight: 17,
        requests_per_second: 12.34,
        tokens_per_second: if state == Sample::Full { 1e18 } else { 5_432.1 },
        minutes: (0..60).map(minute).collect(),
        ttft: Some(Percentiles { p50_ms: 180.0, p90_ms: 950.0, p99_ms: 4_200.0 }),
        errors: (0..if state == Sample::Full { 30 } else { 3 }).map(error).collect(),
        ledger: Some(LedgerState {
            balance_usd: "1234.5".to_owned(),
            held_usd: "0.75".to_owned(),
            waiting_records: 12,
            ..LedgerState::default()
        }),
    }
}

/// Returns a record one minute after its predecessor; cycles through all statuses, with some values
/// unknown.
pub(crate) fn record(index: usize) -> Record {
    let statuses = [
        Some(RequestStatus::Completed),
        Some(RequestStatus::Incomplete),
        Some(RequestStatus::Failed),
        Some(RequestStatus::Cancelled),
        Some(RequestStatus::Interrupted),
        Some(RequestStatus::Rejected),
        None,
    ];
    let known = !index.is_multiple_of(4);
    let status = statuses[index % statuses.len()];
    let number = u32::try_from(index).unwrap();
    Record {
        id: format!("0193-5c00-{index:08}"),
        account: "ada".to_owned(),
        key: "d954a5ca".to_owned(),
        endpoint: if known { "chat.completions".to_owned() } else { "responses".to_owned() },
        model: known.then(|| "gpt-oss-20b".to_owned()),
        deployment: known.then(|| "local/openai/gpt-oss-20b".to_owned()),
        stream: index.is_multiple_of(3),
        status,
        http_status: known.then_some(200),
        error_code: (status == Some(RequestStatus::Failed)).then(|| "upstream_timeout".to_owned()),
        started_at: Timestamp::new(1_795_000_000 + 60 * i64::from(number), 0).ok(),
        tokens: Tokens {
            input: Some(u64::from(number) * 77_777),
            cached: None,
            output: known.then_some(u64::from(number)),
            reasoning: None,
        },
        basis: known.then_some(UsageBasis::Upstream),
        duration_ms: known.then_some(f64::from(number) * 1_234.5),
        ttft_ms: known.then_some(f64::from(number) * 12.3),
        cost_usd: known.then(|| format!("0.{:07}", number * 12_345)),
        price_version: known.then_some(2),
        notes: vec!["the grammar of tool `patch` was not enforced".to_owned(); index % 3],
        count: if status == Some(RequestStatus::Rejected) { 1_234 } else { 1 },
    }
}

/// Returns a record whose texts are all too long.
pub(crate) fn overlong_record(index: usize) -> Record {
    let long = LONG.repeat(9);
    Record {
        account: long.clone(),
        key: long.clone(),
        endpoint: long.clone(),
        model: Some(format!("{index}{long}")),
        deployment: Some(long.clone()),
        error_code: Some(long.clone()),
        cost_usd: Some("123456789012345678.123456789".to_owned()),
        duration_ms: Some(1e12),
        ttft_ms: Some(1e12),
        notes: vec![long; 30],
        ..record(index)
    }
}
