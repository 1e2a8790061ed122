//! The calls that fetch data.

use proto::client;
use proto::v1;
use proto::v1::account_service_client::AccountServiceClient;
use proto::v1::audit_service_client::AuditServiceClient;
use proto::v1::key_service_client::KeyServiceClient;
use proto::v1::ledger_service_client::LedgerServiceClient;
use proto::v1::model_service_client::ModelServiceClient;
use proto::v1::node_service_client::NodeServiceClient;
use proto::v1::people_service_client::PeopleServiceClient;
use proto::v1::plan_service_client::PlanServiceClient;
use proto::v1::traffic_service_client::TrafficServiceClient;
use proto::v1::upstream_service_client::UpstreamServiceClient;
use proto::v1::usage_service_client::UsageServiceClient;
use tonic::{Code, Status};

use super::call::with_timeout;
use super::{convert, usage};
use crate::message::Loaded;
use crate::model::accounts::AccountStatus;
use crate::model::subscription::{Scope, Subscription, Topic};
use crate::model::usage::Range;

/// The page size for long lists.
const PAGE_SIZE: u32 = 1_000;
/// The maximum number of account pages to fetch.
const MAX_PAGES: usize = 20;

/// Returns the base URL of the client API, or `None` if the gateway does not report it.
pub(super) async fn api_url(channel: client::Connection, server: &str) -> Option<String> {
    let mut accounts = AccountServiceClient::new(channel);
    let described =
        with_timeout(accounts.describe_gateway(v1::DescribeGatewayRequest {})).await.ok()?;
    Some(client::api_url(server, &described))
}

/// Fetches one topic as subscribed. Returns the topic with the result, because several fetches run
/// concurrently.
pub(super) async fn fetch(
    channel: client::Connection,
    topic: Topic,
    subscription: Subscription,
) -> (Topic, Result<Loaded, Status>) {
    (topic, answer(channel, topic, subscription).await)
}

async fn answer(
    channel: client::Connection,
    topic: Topic,
    subscription: Subscription,
) -> Result<Loaded, Status> {
    let Subscription { range, filter, subject, .. } = subscription;
    match topic {
        Topic::Account => {
            let mut accounts = AccountServiceClient::new(channel.clone());
            let answer = with_timeout(accounts.who_am_i(v1::WhoAmIRequest {})).await?;
            let mut account = convert::account(answer.account.unwrap_or_default());
            account.person_role = answer.person.map(convert::own_role);
            if account.status == AccountStatus::Suspended {
                account.suspended_for = suspension_reason(channel, &account.name).await;
            }
            Ok(Loaded::Account(account))
        }
        Topic::Limits => {
            let mut traffic = TrafficServiceClient::new(channel);
            let account = subscription.limits_of;
            let name = account.clone().unwrap_or_default();
            let request = v1::ListLimitUseRequest { account: name };
            let answer = match with_timeout(traffic.list_limit_use(request)).await {
                // A deleted account has no limits.
                Err(status) if account.is_some() && status.code() == Code::NotFound => {
                    v1::ListLimitUseResponse::default()
                }
                answer => answer?,
            };
            let limits = answer.limits.into_iter().map(convert::limit_use).collect();
            Ok(Loaded::Limits { account, limits })
        }
        Topic::Suspension => {
            let account = subscription.limits_of.unwrap_or_default();
            let reason = suspension_reason(channel, &account).await;
            Ok(Loaded::Suspension { account, reason })
        }
        Topic::Usage => {
            let by_time = subscription.models_by_time;
            let usage = usage::summary(channel, &filter, range, 0, by_time).await?;
            Ok(Loaded::Usage { range, filter, usage })
        }
        Topic::UsageBefore => {
            let usage = usage::summary(channel, &filter, range, 1, false).await?;
            Ok(Loaded::UsageBefore { range, filter, usage })
        }
        Topic::Matching => {
            let usage = usage::summary(channel, &filter, Range::Month, 0, false).await?;
            Ok(Loaded::Matching { filter, requests: usage.totals.requests })
        }
        Topic::Minutes => usage::minutes(channel).await.map(Loaded::Minutes),
        Topic::Errors => usage::errors(channel).await.map(Loaded::Errors),
        Topic::Keys => {
            let mut keys = KeyServiceClient::new(channel);
            let account = match subscription.keys {
                Scope::Account => String::new(),
                Scope::Gateway => "*".to_owned(),
            };
            let answer = with_timeout(keys.list_keys(v1::ListKeysRequest { account })).await?;
            Ok(Loaded::Keys(answer.keys.into_iter().map(convert::key).collect()))
        }
        Topic::Models => {
            let mut models = ModelServiceClient::new(channel);
            let answer = with_timeout(models.list_models(v1::ListModelsRequest {})).await?;
            Ok(Loaded::Models(answer.models.into_iter().map(convert::catalogue_model).collect()))
        }
        Topic::Accounts => accounts(channel).await,
        Topic::Upstreams => {
            let mut upstreams = UpstreamServiceClient::new(channel);
            let answer =
                with_timeout(upstreams.list_upstreams(v1::ListUpstreamsRequest {})).await?;
            Ok(Loaded::Upstreams(answer.upstreams.into_iter().map(convert::upstream).collect()))
        }
        Topic::Health => {
            let mut traffic = TrafficServiceClient::new(channel);
            let request = v1::ListUpstreamHealthRequest {};
            let answer = with_timeout(traffic.list_upstream_health(request)).await?;
            Ok(Loaded::Health(answer.upstreams.into_iter().map(convert::health).collect()))
        }
        Topic::Plans => {
            let mut plans = PlanServiceClient::new(channel);
            let answer = with_timeout(plans.list_plans(v1::ListPlansRequest {})).await?;
            Ok(Loaded::Plans(answer.plans.into_iter().map(convert::plan).collect()))
        }
        Topic::Audit => {
            let mut audit = AuditServiceClient::new(channel);
            let account = subject.clone().unwrap_or_default();
            let request =
                v1::ListAuditRequest { account, page_size: PAGE_SIZE, ..Default::default() };
            let answer = with_timeout(audit.list_audit(request)).await?;
            let has_more = !answer.next_page_token.is_empty();
            let entries = answer.entries.into_iter().map(convert::audit).collect();
            Ok(Loaded::Audit { subject, entries, has_more })
        }
        Topic::Ledger => {
            let mut ledger = LedgerServiceClient::new(channel);
            let account = subject.clone().unwrap_or_default();
            let request =
                v1::ListEntriesRequest { account, page_size: PAGE_SIZE, page_token: String::new() };
            let answer = with_timeout(ledger.list_entries(request)).await?;
            let has_more = !answer.next_page_token.is_empty();
            let entries = answer.entries.into_iter().map(convert::ledger_entry).collect();
            Ok(Loaded::Ledger { subject, entries, has_more })
        }
        Topic::InFlight => {
            let mut usage = UsageServiceClient::new(channel);
            let request = v1::ListRequestsInFlightRequest::default();
            let answer = with_timeout(usage.list_requests_in_flight(request)).await?;
            let known = u64::try_from(answer.requests.len()).unwrap_or(u64::MAX);
            let requests = answer.requests.into_iter().map(convert::in_flight).collect();
            Ok(Loaded::InFlight { requests, has_more: answer.total > known })
        }
        Topic::Invites => {
            let mut accounts = AccountServiceClient::new(channel);
            let answer = with_timeout(accounts.list_invites(v1::ListInvitesRequest {})).await?;
            Ok(Loaded::Invites(answer.invites.into_iter().map(convert::invite).collect()))
        }
        Topic::People => {
            let mut people = PeopleServiceClient::new(channel);
            let account = subject.clone().unwrap_or_default();
            let answer =
                with_timeout(people.list_people(v1::ListPeopleRequest { account })).await?;
            let people = answer.people.into_iter().map(convert::person).collect();
            Ok(Loaded::People { subject, people })
        }
        Topic::Sessions => {
            let mut accounts = AccountServiceClient::new(channel);
            let answer = with_timeout(accounts.list_sessions(v1::ListSessionsRequest {})).await?;
            Ok(Loaded::Sessions(answer.sessions.into_iter().map(convert::session).collect()))
        }
        Topic::Nodes => {
            let mut nodes = NodeServiceClient::new(channel);
            let answer = with_timeout(nodes.list_nodes(v1::ListNodesRequest {})).await?;
            Ok(Loaded::Nodes(answer.nodes.into_iter().map(convert::node).collect()))
        }
        Topic::Traffic | Topic::Log => Err(Status::internal("this topic is a stream")),
    }
}

/// Returns the reason of the latest suspension from the audit log, which lists the entries about an
/// account to that account, too.
async fn suspension_reason(channel: client::Connection, account: &str) -> Option<String> {
    let mut audit = AuditServiceClient::new(channel);
    let account = account.to_owned();
    let request = v1::ListAuditRequest { account, page_size: PAGE_SIZE, ..Default::default() };
    let answer = with_timeout(audit.list_audit(request)).await.ok()?;
    let entry = answer.entries.into_iter().find(|entry| entry.action == "account.suspend")?;
    Some(entry.details).filter(|reason| !reason.is_empty())
}

async fn accounts(channel: client::Connection) -> Result<Loaded, Status> {
    let mut client = AccountServiceClient::new(channel);
    let mut accounts = Vec::new();
    let mut page_token = String::new();
    for _ in 0..MAX_PAGES {
        let request = v1::ListAccountsRequest { page_size: PAGE_SIZE, page_token };
        let answer = with_timeout(client.list_accounts(request)).await?;
        accounts.extend(answer.accounts.into_iter().map(convert::account));
        page_token = answer.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    Ok(Loaded::Accounts(accounts))
}
