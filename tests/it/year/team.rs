//! What the people of the team do each month.

use std::sync::Arc;
use std::time::Duration;

use gateway::backups::BackupSettings;
use jiff::Span;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use proto::v1;
use tests::{Home, ManualClock, NewKey, Product, RawUpstream, Session, Setup, Transport, question};
use tonic::Code;

use super::first_schema::{self, FOUNDER};

/// The account of the operator token.
pub(super) const OPERATOR: &str = "operator";
/// The newcomer of February, who is an operator from March to July.
const DEPUTY: &str = "member-2";
/// How long request records are kept.
pub(super) const KEEP: Duration = Duration::from_hours(90 * 24);

/// The gateway, and what was done so far.
pub(super) struct Year {
    /// The running gateway.
    pub(super) product: Product,
    /// Its clock.
    pub(super) clock: ManualClock,
    /// An upstream whose answers the test sends piece by piece, for the model `slow`.
    pub(super) upstream: RawUpstream,
    /// The founder's present key.
    pub(super) key: NewKey,
    /// The number of requests with a key that is or was valid, refused ones included.
    pub(super) sent: u64,
    /// Who did what, as (actor, action). The actor has the name that it has now.
    pub(super) steps: Vec<(String, &'static str)>,
    /// Who acts as operator.
    pub(super) actor: &'static str,
    /// The key of a person of the founder's account.
    pub(super) key_of_member: Option<NewKey>,
    /// The id of the guest of an account.
    pub(super) guest_id: String,
    /// The key of the last newcomer, whose quota of that month is used up.
    pub(super) newcomer: Option<NewKey>,
}

impl Year {
    /// Starts a gateway on a data directory of the first version, which upgrades it.
    pub(super) async fn begin(clock: &ManualClock) -> Self {
        let configure = |setup: &mut Setup| {
            setup.clock = Arc::new(clock.clone());
            setup.transport = Transport::Http1Tls;
            setup.config.records.keep_for = Some(KEEP);
        };
        let (mut home, key) = first_schema::home(clock, configure).await;
        home.setup.config.backups = Some(BackupSettings {
            every: Duration::from_hours(7 * 24),
            keep: 3.try_into().unwrap(),
            dir: home.scratch().join("copies"),
        });
        let product = home.start().await;
        let upstream = RawUpstream::start().await;
        let operator = product.operator().await;
        operator.add_model_on("slow", &[&upstream.url]).await;
        let limits = v1::Limits { monthly_tokens: Some(200), ..Default::default() };
        let plan = v1::Plan { name: "team".to_owned(), limits: Some(limits), ..Default::default() };
        operator.plans().put_plan(v1::PutPlanRequest { plan: Some(plan) }).await.unwrap();
        let by_operator = |action| (OPERATOR.to_owned(), action);
        let steps = ["upstream.update", "upstream.add", "model.add", "plan.put"].map(by_operator);
        Self {
            product,
            clock: clock.clone(),
            upstream,
            key,
            sent: first_schema::REQUESTS,
            steps: steps.into(),
            actor: OPERATOR,
            key_of_member: None,
            guest_id: String::new(),
            newcomer: None,
        }
    }

    /// Returns a session of the acting operator.
    pub(super) async fn acting(&self) -> Session {
        match self.actor {
            OPERATOR => self.product.operator().await,
            name => Session::sign_in(&self.product.admin, name).await,
        }
    }

    pub(super) fn record(&mut self, actor: &str, action: &'static str) {
        self.steps.push((actor.to_owned(), action));
    }

    /// Sends a request and returns its status.
    pub(super) async fn ask(&mut self, key: &NewKey) -> u16 {
        self.sent += 1;
        self.product.chat(&key.secret, &question("sim-chat", "hi")).answer().await.status
    }

    /// A quota that was used up covers the new month again.
    pub(super) async fn use_last_months_key(&mut self) {
        if let Some(key) = self.newcomer.take() {
            assert_eq!(self.ask(&key).await, 200);
        }
    }

    pub(super) async fn rotate_the_founders_key(&mut self) {
        let founder = Session::sign_in(&self.product.admin, FOUNDER).await;
        let old = self.key.clone();
        assert_eq!(self.ask(&old).await, 200);
        let request = v1::RotateKeyRequest { id: old.id.clone(), overlap_seconds: 0 };
        let rotated = founder.keys().rotate_key(request).await.unwrap().into_inner();
        self.key = NewKey { id: rotated.key.unwrap().id, secret: rotated.secret };
        self.record(FOUNDER, "key.rotate");
        assert_eq!(self.ask(&old).await, 401);
        let new = self.key.clone();
        assert_eq!(self.ask(&new).await, 200);
    }

    /// Someone joins by an invite, and uses up the quota of the month.
    pub(super) async fn welcome(&mut self, month: i8) {
        let name = format!("member-{month}");
        let invite = v1::CreateInviteRequest {
            ttl_seconds: 3_600,
            plan: "team".to_owned(),
            credit_usd: "2".to_owned(),
        };
        let acting = self.acting().await;
        let invite = acting.accounts().create_invite(invite).await.unwrap().into_inner();
        self.record(self.actor, "account.invite");
        let request = v1::RegisterRequest {
            name: name.clone(),
            password: format!("correct horse battery {name}"),
            invite_code: invite.code,
        };
        self.product.anonymous().await.accounts().register(request).await.unwrap();
        self.record(&name, "account.register");
        let member = Session::sign_in(&self.product.admin, &name).await;
        let key = member.key().await;
        self.record(&name, "key.create");
        let mut served = 0;
        while self.ask(&key).await == 200 {
            served += 1;
            assert!(served < 20, "the quota is not enforced");
        }
        assert!(served > 0);
        self.newcomer = Some(key);
    }

    /// The newcomer of two months ago leaves; that of three months ago is forgotten.
    pub(super) async fn part(&mut self, month: i8) {
        let named = |ago: i8| (month > ago).then(|| format!("member-{}", month - ago));
        let acting = self.acting().await;
        if let Some(account) = named(2).filter(|name| name != DEPUTY) {
            acting.accounts().close_account(v1::CloseAccountRequest { account }).await.unwrap();
            self.record(self.actor, "account.close");
        }
        if let Some(account) = named(3).filter(|name| name != DEPUTY) {
            let request =
                v1::DeleteAccountRequest { account: account.clone(), confirm: account.clone() };
            let deleted = acting.accounts().delete_account(request).await.unwrap().into_inner();
            let pseudonym = deleted.account.unwrap().name;
            for (actor, _) in self.steps.iter_mut().filter(|(actor, _)| *actor == account) {
                actor.clone_from(&pseudonym);
            }
            self.record(self.actor, "account.delete");
        }
    }

    pub(super) async fn grant_deputy(&mut self) {
        self.grant(v1::Role::Operator).await;
        self.actor = DEPUTY;
    }

    /// The deputy becomes a member, and its open session is refused.
    pub(super) async fn revoke_deputy(&mut self) {
        let deputy = self.acting().await;
        self.actor = OPERATOR;
        self.grant(v1::Role::Member).await;
        let request = v1::CloseAccountRequest { account: FOUNDER.to_owned() };
        let refused = deputy.accounts().close_account(request).await.unwrap_err();
        assert_eq!(refused.code(), Code::PermissionDenied);
    }

    async fn grant(&mut self, role: v1::Role) {
        let request = v1::GrantRoleRequest { account: DEPUTY.to_owned(), role: role.into() };
        self.product.operator().await.accounts().grant_role(request).await.unwrap();
        self.record(OPERATOR, "account.grant");
    }

    /// Lets the gateway run until the first day of the next month.
    pub(super) fn advance_to_the_next_month(&self) {
        use gateway::clock::Clock as _;
        let now = self.clock.now();
        let date: Date = now.to_zoned(TimeZone::UTC).date();
        let next = date.first_of_month().checked_add(Span::new().months(1)).unwrap();
        let next = next.at(9, 0, 0, 0).to_zoned(TimeZone::UTC).unwrap().timestamp();
        self.clock.advance(next.duration_since(now).unsigned_abs());
    }

    /// Restarts the gateway on the directory that `change` may replace.
    pub(super) async fn restart(self, change: impl FnOnce(&mut Home)) -> Self {
        let mut home = self.product.stop().await;
        change(&mut home);
        // It has run until now, although no sweep of retention has stored the time since the clock was advanced.
        crate::retention::trust(&home, &self.clock.right_time().to_string());
        Self { product: home.start().await, ..self }
    }
}
