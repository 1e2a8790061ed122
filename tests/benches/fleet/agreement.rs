//! How fast gateways agree on revoked keys and on the parts of a limit.

use std::time::Duration;

use http::StatusCode;
use proto::v1;
use tests::process::Gateway;
use tests::{Session, wait_for_model};
use tokio::time::Instant;

use crate::load::{Client, Load};
use crate::{Arguments, MODEL};

/// The number of limits of which one gateway obtains what it can.
const LIMITS: usize = 3;

/// Measures how long after the answer to a revocation the last gateway refuses the key.
#[expect(clippy::print_stdout, reason = "the benchmark prints its results")]
pub(crate) async fn revocations(arguments: &Arguments, operator: &Session, gateways: &[Gateway]) {
    let mut times = Vec::new();
    for _ in 0..arguments.revocations {
        let key = operator.key().await;
        wait_for_model(gateways, &key.secret, MODEL).await;
        let mut others = Vec::new();
        for other in &gateways[1..] {
            others.push(Client::of_models(other.http, &key.secret).await);
        }
        operator.keys().revoke_key(v1::RevokeKeyRequest { id: key.id }).await.expect("it exists");
        let revoked = Instant::now();
        for other in &mut others {
            while other.ask().await != StatusCode::UNAUTHORIZED {}
        }
        times.push(revoked.elapsed());
    }
    times.sort();
    let Some(longest) = times.last() else { return };
    let at = |percent: usize| times[(times.len() * percent).div_ceil(100).max(1) - 1].as_secs_f64();
    println!(
        "revoked keys are refused by the last gateway after: p50 {:.1} ms, p99 {:.1} ms, maximum {:.1} ms",
        at(50) * 1e3,
        at(99) * 1e3,
        longest.as_secs_f64() * 1e3
    );
}

/// Measures which part of a limit one gateway admits within two seconds, after all have used some of it.
#[expect(clippy::print_stdout, reason = "the benchmark prints its results")]
pub(crate) async fn hot_gateway(arguments: &Arguments, operator: &Session, gateways: &[Gateway]) {
    for _ in 0..LIMITS {
        let rpm = Some(arguments.limit.into());
        let limits = v1::Limits { rpm, ..Default::default() };
        let key = operator.key_with(|key| key.limits = Some(limits)).await;
        wait_for_model(gateways, &key.secret, MODEL).await;
        for gateway in gateways {
            let mut client = Client::of_chat(gateway.http, &key.secret).await;
            assert!(client.ask().await.is_success());
        }
        let keys = std::slice::from_ref(&key);
        let mut load = Load::connect(&gateways[..1], keys).await;
        let admitted = load.count_admitted(Duration::from_secs(2)).await;
        println!(
            "one gateway admits {:.3} of a limit of {} requests per minute within two seconds",
            f64::from(admitted) / f64::from(arguments.limit),
            arguments.limit
        );
    }
}
