//! Each `ctl` command that the dashboard shows is one that `ctl` accepts.

use ctl::profile::Environment;
use tui::model::accounts::Role;
use tui::model::catalogue::{CatalogueModel, Deployment, Price};
use tui::model::change::{Change, CredentialDraft, KeyEnd, UpstreamDraft};
use tui::model::command_line::arguments;
use tui::model::keys::Key;
use tui::model::people::PersonRole;
use tui::model::plans::{Limits, Plan};
use tui::model::upstreams::{Deadlines, Profile};

/// The exit code of `ctl` for a gateway that cannot be reached.
const UNAVAILABLE: u8 = 6;

fn changes() -> Vec<Change> {
    let text = |text: &str| text.to_owned();
    let limits = Limits {
        rpm: Some(60),
        tpm: Some(200_000),
        concurrency: Some(4),
        monthly_tokens: None,
        observe: true,
    };
    let price = |usd: &str| Some(usd.to_owned());
    let model = CatalogueModel {
        id: text("tiny"),
        display_name: text("Tiny model"),
        context: Some(128_000),
        max_output: Some(8_000),
        limits: Limits { rpm: Some(60), ..Limits::default() },
        price: Price {
            input_usd: price("0.1"),
            cached_usd: price("0.01"),
            output_usd: price("0.4"),
            version: 1,
        },
        deployments: vec![Deployment::parse("local:qwen").unwrap()],
        ..CatalogueModel::default()
    };
    let upstream = |credential| UpstreamDraft {
        name: text("local"),
        url: text("http://127.0.0.1:8000/v1"),
        profile: Profile::LlamaCpp,
        credential,
        deadlines: Deadlines {
            connect_ms: Some(2_000),
            first_byte_ms: Some(0),
            idle_ms: Some(60_000),
            total_ms: Some(1),
        },
    };
    let plan = Plan {
        name: text("team"),
        trial_credit_usd: price("5"),
        limits,
        max_keys: Some(10),
        models: vec![text("a"), text("b")],
    };
    vec![
        Change::CreateKey {
            label: text("my laptop"),
            limits,
            spend_cap_usd: price("10"),
            models: vec![text("a"), text("b")],
            expires_in_seconds: Some(30 * 86_400),
        },
        Change::UpdateKey {
            before: Box::new(Key { spend_cap_usd: price("1"), ..Key::default() }),
            after: Box::new(Key {
                id: text("d954a5ca"),
                label: text("my laptop"),
                limits,
                models: vec![text("a")],
                ..Key::default()
            }),
            end: Some(KeyEnd::Never),
        },
        Change::UpdateKey {
            before: Box::new(Key { models: vec![text("a")], ..Key::default() }),
            after: Box::new(Key {
                id: text("d954a5ca"),
                spend_cap_usd: price("2"),
                ..Key::default()
            }),
            end: Some(KeyEnd::After(3_600)),
        },
        Change::RenameAccount { account: text("ada"), name: text("eve") },
        Change::CloseAccount { account: text("ada") },
        Change::DeleteAccount { account: text("ada") },
        Change::ResetPassword { account: text("ada") },
        Change::AddPerson { account: String::new(), name: text("carol"), role: PersonRole::Admin },
        Change::AddPerson { account: text("ada"), name: text("carol"), role: PersonRole::Member },
        Change::SetPersonRole { name: text("carol"), role: PersonRole::Admin },
        Change::RemovePerson { name: text("carol") },
        Change::CreateInvite { ttl_seconds: 172_800, plan: text("team"), credit_usd: price("5") },
        Change::RevokeInvite { id: text("4be1f07a92c3") },
        Change::RevokeSession { id: text("4be1f07a92c3") },
        Change::RevokeOtherSessions,
        Change::CancelRequest { id: text("0193a7c4-0000-7000-8000-000000000000") },
        Change::RotateKey { id: text("d954a5ca"), overlap_seconds: 3_600 },
        Change::RevokeKey { id: text("d954a5ca"), label: text("laptop") },
        Change::Credit { account: text("ada"), amount_usd: text("-2.5"), reason: text("a fee") },
        Change::Suspend { account: text("ada"), reason: text("not paid") },
        Change::Resume { account: text("ada") },
        Change::SetPlan { account: text("ada"), plan: text("team") },
        Change::GrantRole { account: text("ada"), role: Role::Support },
        Change::PutPlan { plan: plan.clone(), is_new: true },
        Change::PutPlan {
            plan: Plan { models: Vec::new(), max_keys: None, ..plan },
            is_new: false,
        },
        Change::AddModel(Box::new(model.clone())),
        Change::UpdateModel {
            before: Box::new(model.clone()),
            after: Box::new(CatalogueModel { id: text("tiny"), ..CatalogueModel::default() }),
        },
        Change::RemoveModel { id: text("tiny") },
        Change::AddUpstream(upstream(Some(CredentialDraft::Variable(text("LOCAL_KEY"))))),
        Change::AddUpstream(upstream(Some(CredentialDraft::Secret("secret".into())))),
        Change::UpdateUpstream(upstream(Some(CredentialDraft::File(text("/run/key"))))),
        Change::ResetUpstream { name: text("local") },
        Change::RemoveUpstream { name: text("local") },
        Change::DrainNode { name: text("gate-2"), is_draining: false },
        Change::RemoveNode { name: text("gate-2"), is_lost: true },
        Change::ChangePassword { old: "old".into(), new: "new password".into() },
    ]
}

#[tokio::test]
async fn ctl_accepts_each_shown_command() {
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let environment = Environment {
        token: Some("token".into()),
        // Nothing listens on port 1.
        server: Some("http://127.0.0.1:1".to_owned()),
        ..Environment::for_home(home.path())
    };
    for change in changes() {
        let arguments = arguments(&change).unwrap();
        // Of the questions that `ctl` asks on a terminal, `--yes` answers all.
        let line = ["ctl", "--yes"].map(str::to_owned).into_iter().chain(arguments.clone());
        let mut stdin = &b"secret one\nsecret two\nsecret two\n"[..];
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let exit =
            Box::pin(ctl::run(line, &environment, &mut stdin, &mut out, &mut err)).await as u8;
        let problem = String::from_utf8_lossy(&err);
        assert!(!problem.contains("secret"), "{problem}");
        if matches!(change, Change::ChangePassword { .. }) {
            assert!(problem.contains("terminal"), "it asks for both: {problem}");
            continue;
        }
        assert_eq!(exit, UNAVAILABLE, "{arguments:?}: {problem}");
    }
}
