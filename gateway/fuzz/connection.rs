//! Fuzzes a connection of the API, from the bytes of its client to the records of its requests. Invariants: nothing
//! panics, the connection ends, each answer is valid HTTP with a request id, an error has the shape of an error, and
//! each answered request of the known key has one record.
//!
//! `fuzz::input` describes the inputs. Time is paused while there is something to do, so that timeouts cost nothing.
#![no_main]

use std::collections::HashSet;
use std::sync::{LazyLock, Mutex};
use std::time::Duration;

use fuzz::answer::Answer;
use fuzz::input::{Ending, Input};
use fuzz::process::Gateway;
use fuzz::{http1, http2};
use libfuzzer_sys::fuzz_target;
use proto::v1::ledger_service_client::LedgerServiceClient;
use proto::v1::usage_service_client::UsageServiceClient;
use proto::v1::{self, RequestRecord, TailRequestsResponse};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::time::{pause, resume, sleep, timeout};
use tonic::Streaming;

/// The longest that a connection may last whose client has done everything. All deadlines of the gateway are shorter.
const MAX_LIFE: Duration = Duration::from_hours(2);
/// What is added to it in real time, for threads that do not know the paused one.
const GRACE: Duration = Duration::from_secs(5);
/// Longer than the time between two writes of merged records.
const AGGREGATION: Duration = Duration::from_secs(3);
/// The number of inputs between two verifications of the ledger.
const VERIFY_EVERY: u64 = 256;

/// A gateway, and what it has recorded.
struct Rig {
    gateway: Gateway,
    key: String,
    /// A key of another account. A record of its request is the last after the records of an input.
    last_key: String,
    tail: Streaming<TailRequestsResponse>,
    /// The ids of all records.
    recorded: HashSet<String>,
    /// The most requests of clients that have left whose records may be still to come. If a client has sent more than its
    /// request, HTTP/1 does not read, and notices only at the next write that it has left.
    unfinished: usize,
    inputs: u64,
}

static RIG: LazyLock<(Runtime, Mutex<Rig>)> = LazyLock::new(|| {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().build().expect("a runtime");
    let rig = runtime.block_on(Rig::start());
    (runtime, Mutex::new(rig))
});

fuzz_target!(|bytes: &[u8]| {
    let (runtime, rig) = &*RIG;
    let mut rig = rig.lock().expect("a panic ends the process");
    runtime.block_on(rig.check(bytes));
});

impl Rig {
    async fn start() -> Self {
        let gateway = Gateway::start().await;
        let (key, last_key) = (gateway.key("client").await, gateway.key("last").await);
        let mut usage = UsageServiceClient::new(gateway.operator.clone());
        let tail = usage.tail_requests(v1::TailRequestsRequest::default()).await;
        let tail = tail.expect("the operator may read all").into_inner();
        pause();
        Self { gateway, key, last_key, tail, recorded: HashSet::new(), unfinished: 0, inputs: 0 }
    }

    async fn check(&mut self, bytes: &[u8]) {
        let Some(input) = Input::read(bytes, &self.key) else { return };
        let received = self.exchange(&input).await;
        let answers = if input.is_http2 {
            http2::answers(&received)
        } else {
            let has_head = input.sent().windows(5).any(|window| window == b"HEAD ");
            http1::answers(&received, has_head)
        };
        answers.iter().for_each(Answer::check);
        let records = self.records().await;
        self.check_records(&input, &answers, &records);
        self.inputs += 1;
        if self.inputs.is_multiple_of(VERIFY_EVERY) {
            self.verify().await;
        }
    }

    /// Does what the input says, and returns what the client received.
    async fn exchange(&self, input: &Input) -> Vec<u8> {
        let mut stream = TcpStream::connect(self.gateway.http).await.expect("it accepts");
        // A connection that waits for its end would keep the port of the client.
        stream.set_zero_linger().expect("the socket is open");
        let mut received = Vec::new();
        let life = async {
            let (mut reading, mut writing) = stream.split();
            let write = async {
                for piece in &input.pieces {
                    if writing.write_all(piece).await.is_err() {
                        break;
                    }
                    sleep(Duration::from_millis(1)).await;
                }
                match input.ending {
                    Ending::Wait => std::future::pending().await,
                    Ending::HalfClose => {
                        _ = writing.shutdown().await;
                        std::future::pending().await
                    }
                    Ending::Reset => {}
                }
            };
            let read =
                async { while !matches!(reading.read_buf(&mut received).await, Ok(0) | Err(_)) {} };
            tokio::select! {
                () = read => {}
                () = write => {}
            }
        };
        let mut life = Box::pin(life);
        if timeout(MAX_LIFE, &mut life).await.is_err() {
            resume();
            let ended = timeout(GRACE, &mut life).await;
            assert!(ended.is_ok(), "the connection does not end: {input:?}");
            pause();
        }
        drop(life);
        received
    }

    /// Returns the records since the last call.
    async fn records(&mut self) -> Vec<RequestRecord> {
        sleep(AGGREGATION).await;
        let request = format!(
            "GET /v1/models HTTP/1.1\r\nhost: a\r\nconnection: close\r\nauthorization: Bearer {}\r\n\r\n",
            self.last_key
        );
        let pieces = vec![request.into_bytes()];
        let last = Input { is_http2: false, pieces, ending: Ending::Wait };
        let received = self.exchange(&last).await;
        let answers = http1::answers(&received, false);
        assert_eq!(answers.len(), 1, "{answers:?}");
        let last = answers[0].request_id();
        let mut records = Vec::new();
        loop {
            let update = self.tail.message().await.expect("the tail is whole");
            let update = update.expect("the tail does not end");
            assert_eq!(update.dropped, 0);
            for record in update.requests {
                assert!(self.recorded.insert(record.id.clone()), "recorded twice: {record:?}");
                if record.id == last {
                    return records;
                }
                records.push(record);
            }
        }
    }

    fn check_records(&mut self, input: &Input, answers: &[Answer], records: &[RequestRecord]) {
        let merged: u32 = records.iter().map(|record| record.count.saturating_sub(1)).sum();
        let missing: Vec<_> = answers
            .iter()
            .filter(|answer| answer.must_be_recorded())
            .filter(|answer| !self.recorded.contains(answer.request_id()))
            .collect();
        assert!(missing.len() <= merged as usize, "no record of {missing:?}: {records:?}");
        let sent = input.sent();
        let possible = if input.is_http2 {
            sent.len() / 9
        } else {
            sent.windows(7).filter(|window| window == b"HTTP/1.").count()
        };
        let recorded: u32 = records.iter().map(|record| record.count).sum();
        let left = (possible + self.unfinished).checked_sub(recorded as usize);
        let left = left.unwrap_or_else(|| panic!("records of no request: {records:?}"));
        self.unfinished =
            if input.ending == Ending::Reset { left } else { left.min(self.unfinished) };
    }

    async fn verify(&self) {
        let mut ledger = LedgerServiceClient::new(self.gateway.operator.clone());
        let report = ledger.verify_ledger(v1::VerifyLedgerRequest {}).await;
        let report = report.expect("the operator may verify it").into_inner();
        assert!(report.ok, "{report:?}");
    }
}
