//! What operators do to the gateway: certificates, restarts, a rehearsed rollback, a move to another host, and a host
//! whose clock is wrong.

use std::path::PathBuf;

use gateway::app::restore;
use gateway::config::{AdminAddress, RestoreArgs};
use jiff::SignedDuration;
use proto::v1;
use serde_json::json;
use tests::http::Request;
use tests::process::Gateway;
use tests::{Certificate, Home, chunk, question, stream_head, with_timeout};

use super::team::{OPERATOR, Year};

/// The size of the largest file on a full disk. The journal soon needs more.
const FULL_DISK_BYTES: u64 = 64 * 1024;
const PIECE: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"}}]}\n\n";
const END: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}],\
                   \"usage\":{\"prompt_tokens\":5,\"completion_tokens\":2}}\n\ndata: [DONE]\n\n";

impl Year {
    /// A gateway on the copy that was made before the upgrade upgrades it once more.
    pub(super) async fn rehearse_rollback(&self) {
        let backups = self.product.home.data_dir().join("backups");
        let copy = std::fs::read_dir(backups).unwrap().next().unwrap().unwrap().path();
        let mut elsewhere = self.product.home.clone();
        let scratch = elsewhere.scratch().to_owned();
        elsewhere.setup.config.data_dir = scratch.join("rollback");
        elsewhere.setup.config.admin_listen = AdminAddress::Unix(scratch.join("rollback.sock"));
        elsewhere.setup.config.backups = None;
        self.restore(copy, &elsewhere).await;
        let product = elsewhere.start().await;
        assert!(crate::ledger::proof(&product).await.ok);
        product.stop().await;
    }

    async fn restore(&self, file: PathBuf, home: &Home) {
        let secrets_from = Some(self.product.home.data_dir().to_owned());
        let arguments = RestoreArgs { file, to: home.data_dir().to_owned(), secrets_from };
        let mut report = Vec::new();
        restore(&arguments, &mut report).await.unwrap();
        let report = String::from_utf8(report).unwrap();
        assert!(report.contains("charges and sums agree"), "{report}");
    }

    /// Replaces the certificate, and then the new one by the first, which the test clients trust.
    pub(super) async fn rotate_certificate(&mut self) {
        let new = Certificate::create();
        for certificate in [&new, Certificate::of_process()] {
            certificate.write(self.product.home.scratch());
            let operator = self.product.operator().await;
            let reloaded = operator.maintenance().reload(v1::ReloadRequest {}).await.unwrap();
            assert!(reloaded.get_ref().certificate_changed);
            self.record(OPERATOR, "gateway.reload");
            let ready = Request::get(self.product.http, "/readyz");
            let ready = ready.tls(certificate.client_config("http/1.1")).answer().await;
            assert_eq!(ready.status, 200);
        }
    }

    /// Restarts the gateway while it sends a stream, which is complete.
    pub(super) async fn restart_under_a_stream(mut self) -> Self {
        self.sent += 1;
        let mut body = question("slow", "hi");
        body["stream"] = json!(true);
        let request = self.product.chat(&self.key.secret, &body);
        let begin = async {
            let mut call = self.upstream.call().await;
            call.send(format!("{}{}", stream_head(), chunk(PIECE))).await;
            call
        };
        let (mut answer, mut call) = tokio::join!(request.send(), begin);
        assert!(answer.event().await.unwrap().contains("hi"));
        self.product.shutdown.cancel();
        let closed = async { while self.product.get("/readyz").connect().await.is_ok() {} };
        with_timeout("the end of the port", closed).await;
        call.send(format!("{}{}", chunk(END), chunk(""))).await;
        let events = answer.events().await;
        assert_eq!(events.last().unwrap(), "data: [DONE]", "{events:?}");
        self.restart(|_| {}).await
    }

    /// Restores the newest backup into another directory, and continues there.
    pub(super) async fn move_to_another_host(self) -> Self {
        let newest = self.backup_of_today().await;
        let mut moved = self.product.home.clone();
        moved.setup.config.data_dir = moved.scratch().join("moved");
        self.restore(newest, &moved).await;
        Box::pin(self.restart(|home| *home = moved)).await
    }

    /// The disk fills up while the gateway serves, and gets room again. In another process, because the limit on file sizes
    /// that stands for a full disk holds for a whole process.
    pub(super) async fn fill_the_disk(self) -> Self {
        let (secret, mut sent) = (self.key.secret.clone(), self.sent);
        let home = self.product.stop().await;
        let gateway = Gateway::start(home.data_dir(), |_| {}).await;
        let mut ask = async || {
            sent += 1;
            let request = Request::post(gateway.http, "/v1/chat/completions").bearer(&secret);
            request.json(&question("sim-chat", "hi")).answer().await.status
        };
        assert_eq!(ask().await, 200);
        gateway.limit_file_size(Some(FULL_DISK_BYTES));
        let refused = async { while ask().await != 503 {} };
        with_timeout("a refusal on the full disk", refused).await;
        gateway.limit_file_size(None);
        let served = async { while ask().await != 200 {} };
        with_timeout("an answer with room on the disk", served).await;
        gateway.stop().await;
        crate::retention::trust(&home, &self.clock.right_time().to_string());
        Self { product: home.start().await, sent, ..self }
    }

    /// Starts the gateway while the wall clock is wrong, then corrects it. No record is deleted.
    pub(super) async fn start_with_the_clock_ahead(self, by: SignedDuration) -> Self {
        let before = self.product.operator().await.records(0).await.len();
        let clock = self.clock.clone();
        let year = self.restart(|_| clock.set_wall_ahead(by)).await;
        // The first sweep of retention has begun before the first backup.
        year.backup_of_today().await;
        let year = year.restart(|_| clock.set_wall_ahead(SignedDuration::ZERO)).await;
        assert_eq!(year.product.operator().await.records(0).await.len(), before);
        year
    }
}
