//! Each change has the same audit entry, whether the dashboard makes it or the `ctl` command that the
//! dashboard shows for it.

use ctl::profile::{Environment, TokenSource};
use jiff::Timestamp;
use proto::v1;
use tests::{Product, Session};
use tokio::sync::mpsc;
use tui::connection::Address;
use tui::effect::{Effect, Runner};
use tui::message::Message;
use tui::model::accounts::Role;
use tui::model::catalogue::{CatalogueModel, Deployment, Price};
use tui::model::change::{Change, CredentialDraft, KeyEnd, UpstreamDraft};
use tui::model::command_line::arguments;
use tui::model::keys::Key;
use tui::model::people::PersonRole;
use tui::model::plans::{Limits, Plan};
use tui::model::upstreams::{Deadlines, Profile};

/// The ids that a gateway chose.
#[derive(Default)]
struct Ids {
    /// The newest key.
    key: String,
    /// The newest invite.
    invite: String,
    /// The account that is not the operator's.
    account: String,
}

/// How a change is made.
enum Way {
    Dashboard(Box<Runner>, mpsc::Receiver<Message>),
    Ctl(Box<Environment>),
}

fn text(text: &str) -> String {
    text.to_owned()
}

fn key(ids: &Ids) -> Key {
    Key {
        id: ids.key.clone(),
        label: text("my laptop"),
        limits: Limits { rpm: Some(60), ..Limits::default() },
        ..Key::default()
    }
}

fn model(context: Option<u64>, price: &str) -> Box<CatalogueModel> {
    Box::new(CatalogueModel {
        id: text("tiny"),
        context,
        price: Price { input_usd: Some(text(price)), ..Price::default() },
        deployments: vec![Deployment::parse("local:qwen").unwrap()],
        ..CatalogueModel::default()
    })
}

fn upstream(url: &str, credential: Option<CredentialDraft>) -> UpstreamDraft {
    let deadlines = Deadlines { idle_ms: Some(60_000), ..Deadlines::default() };
    let (name, url, profile) = (text("local"), text(url), Profile::Vllm);
    UpstreamDraft { name, url, profile, credential, deadlines }
}

/// The changes in an order in which each is possible.
const CHANGES: &[fn(&Ids) -> Change] = &[
    |_| Change::CreateKey {
        label: text("my laptop"),
        limits: Limits { rpm: Some(60), ..Limits::default() },
        spend_cap_usd: None,
        models: Vec::new(),
        expires_in_seconds: None,
    },
    |ids| Change::UpdateKey {
        before: Box::new(key(ids)),
        after: Box::new(Key {
            label: text("desk"),
            limits: Limits { tpm: Some(9_000), ..Limits::default() },
            spend_cap_usd: Some(text("2.5")),
            models: vec![text("sim-chat")],
            ..key(ids)
        }),
        end: Some(KeyEnd::Never),
    },
    |ids| Change::RotateKey { id: ids.key.clone(), overlap_seconds: 0 },
    |ids| Change::RevokeKey { id: ids.key.clone(), label: text("desk") },
    |_| Change::Credit { account: text("ada"), amount_usd: text("-2.5"), reason: text("a fee") },
    |_| Change::Suspend { account: text("ada"), reason: text("it's late") },
    |_| Change::Resume { account: text("ada") },
    |_| {
        let plan = Plan {
            name: text("team"),
            trial_credit_usd: Some(text("5")),
            limits: Limits { concurrency: Some(4), observe: true, ..Limits::default() },
            max_keys: Some(10),
            models: vec![text("sim-chat")],
        };
        Change::PutPlan { plan, is_new: true }
    },
    |_| Change::SetPlan { account: text("ada"), plan: text("team") },
    |_| Change::GrantRole { account: text("ada"), role: Role::Support },
    |_| Change::GrantRole { account: text("ada"), role: Role::Member },
    |_| {
        let variable = CredentialDraft::Variable(text("LOCAL_KEY"));
        Change::AddUpstream(upstream("http://127.0.0.1:9/v1", Some(variable)))
    },
    |_| Change::UpdateUpstream(upstream("http://127.0.0.1:10/v1", None)),
    |_| Change::ResetUpstream { name: text("local") },
    |_| Change::AddModel(model(None, "0.1")),
    |_| Change::UpdateModel { before: model(None, "0.1"), after: model(Some(128_000), "0.2") },
    |_| Change::RemoveModel { id: text("tiny") },
    |_| Change::RemoveUpstream { name: text("local") },
    |_| Change::ResetPassword { account: text("ada") },
    |_| Change::AddPerson { account: text("ada"), name: text("carol"), role: PersonRole::Member },
    |_| Change::SetPersonRole { name: text("carol"), role: PersonRole::Admin },
    |_| Change::ResetPassword { account: text("carol") },
    |_| Change::RemovePerson { name: text("carol") },
    |_| Change::CreateInvite {
        ttl_seconds: 172_800,
        plan: text("team"),
        credit_usd: Some(text("5")),
    },
    |ids| Change::RevokeInvite { id: ids.invite.clone() },
    |_| Change::RenameAccount { account: text("ada"), name: text("eve") },
    |_| Change::CloseAccount { account: text("eve") },
    |_| Change::DeleteAccount { account: text("eve") },
];

impl Way {
    /// Makes the change.
    async fn make(&mut self, change: Change) {
        match self {
            Self::Dashboard(runner, messages) => {
                assert!(runner.run(Effect::Change(change)).is_none());
                loop {
                    match messages.recv().await.unwrap() {
                        Message::Changed(outcome) => break drop(outcome.unwrap()),
                        Message::SignedOut(reason) => panic!("{reason}"),
                        _ => {}
                    }
                }
            }
            Self::Ctl(environment) => {
                let shown = arguments(&change).unwrap();
                let line = ["ctl", "--yes"].map(str::to_owned).into_iter().chain(shown.clone());
                let (mut out, mut err) = (Vec::new(), Vec::new());
                let exit =
                    Box::pin(ctl::run(line, environment, &mut &b""[..], &mut out, &mut err)).await;
                let problem = String::from_utf8_lossy(&err);
                assert_eq!(exit as u8, 0, "{shown:?}: {problem}");
            }
        }
    }
}

/// Returns the ids of the newest key, the newest invite and the other account.
async fn newest(operator: &Session) -> Ids {
    let keys = operator.keys().list_keys(v1::ListKeysRequest::default()).await.unwrap();
    let invites = operator.accounts().list_invites(v1::ListInvitesRequest {}).await.unwrap();
    let accounts = operator.accounts().list_accounts(v1::ListAccountsRequest::default()).await;
    let mut accounts = accounts.unwrap().into_inner().accounts.into_iter();
    let other = accounts.find(|it| it.role() == v1::Role::Member);
    Ids {
        account: other.map(|account| account.id).unwrap_or_default(),
        key: keys.into_inner().keys.first().map(|key| key.id.clone()).unwrap_or_default(),
        invite: invites.into_inner().invites.first().map(|it| it.id.clone()).unwrap_or_default(),
    }
}

/// Makes all changes on a new gateway. Returns action, object, account and details of each audit
/// entry, with names instead of the ids that the gateway chose.
async fn entries(way: impl AsyncFnOnce(&Product) -> Way) -> Vec<[String; 4]> {
    let product = Product::start().await;
    product.member("ada").await;
    let operator = product.operator().await;
    let mut way = way(&product).await;
    let request = v1::ListAuditRequest { page_size: 1_000, ..Default::default() };
    // The setup differs by the port of its upstream, if that has a port.
    let of_setup = operator.audit().list_audit(request.clone()).await.unwrap().into_inner();
    let mut known = vec![Ids::default()];
    for change in CHANGES {
        way.make(change(known.last().unwrap())).await;
        known.push(newest(&operator).await);
    }
    let mut entries = operator.audit().list_audit(request).await.unwrap().into_inner().entries;
    // The newest come first.
    entries.truncate(entries.len() - of_setup.entries.len());
    let named = |text: String| {
        known.iter().enumerate().fold(text, |text, (number, ids)| {
            let of = |text: String, id: &str, name: &str| match id {
                "" => text,
                id => text.replace(id, &format!("{name}-{number}")),
            };
            let text = of(of(text, &ids.key, "key"), &ids.invite, "invite");
            if ids.account.is_empty() { text } else { text.replace(&ids.account, "account") }
        })
    };
    // The same change is made at another time.
    let untimed = |text: String| {
        let is_time = |word: &&str| word.trim_end_matches(',').parse::<Timestamp>().is_ok();
        text.split(' ').filter(|word| !is_time(word)).collect::<Vec<_>>().join(" ")
    };
    let shown = |it: v1::AuditEntry| {
        [it.action, it.object, it.account, it.details].map(|text| untimed(named(text)))
    };
    entries.into_iter().map(shown).collect()
}

#[tokio::test]
async fn the_shown_commands_have_the_same_audit_entries() {
    let dashboard = async |product: &Product| {
        let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap().keep();
        let (sender, messages) = mpsc::channel(64);
        let environment = Environment::for_home(&home);
        let address = Address::new(product.admin.clone());
        let mut runner = Runner::new(address, TokenSource::Missing, environment, sender);
        let token = product.home.operator_token().into();
        assert!(runner.run(Effect::Connect { token, is_kept: false }).is_none());
        Way::Dashboard(Box::new(runner), messages)
    };
    let commands = async |product: &Product| {
        let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap().keep();
        Way::Ctl(Box::new(Environment {
            token: Some(product.home.operator_token().into()),
            server: Some(product.admin.clone()),
            ..Environment::for_home(&home)
        }))
    };
    let (by_dashboard, by_ctl) =
        tokio::join!(Box::pin(entries(dashboard)), Box::pin(entries(commands)));
    assert!(by_dashboard.len() >= CHANGES.len(), "{by_dashboard:#?}");
    for (dashboard, ctl) in by_dashboard.iter().zip(&by_ctl) {
        assert_eq!(dashboard, ctl);
    }
    assert_eq!(by_dashboard.len(), by_ctl.len());
}
