//! The kinds of faults, and what each does to gateways and database servers.

use std::time::Duration;

use clap::ValueEnum;
use gateway::clock::Clock;
use proto::v1;
use tokio::process::Command;

use super::FleetDrill;
use crate::drill::client::Shape;
use crate::drill::round::Figure;
use crate::with_timeout;

/// A time that exceeds the patience and the interval of heartbeats.
const BEYOND_PATIENCE: Duration = Duration::from_millis(3_500);

/// What happens in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Fault {
    /// A gateway is killed and restarted.
    Kill,
    /// A gateway is suspended for longer than its patience.
    Suspend,
    /// A gateway does not reach the database for longer than its patience.
    Partition,
    /// No gateway reaches the database for longer than their patience.
    StoreDown,
    /// No gateway reaches the database for a while, within their patience: paced clients must not
    /// notice.
    StoreOutage,
    /// The server of the database crashes and restarts.
    StoreCrash,
    /// The server of the database crashes, and its synchronous standby takes its place.
    Promotion,
    /// A gateway is stopped and restarted, as is the next one, while clients try another gateway.
    RollingRestart,
    /// A gateway is stopped and removed, comes back and is refused; a new one takes its place.
    Removal,
}

impl Fault {
    /// All faults.
    pub const ALL: [Self; 9] = [
        Self::Kill,
        Self::Suspend,
        Self::Partition,
        Self::StoreCrash,
        Self::RollingRestart,
        Self::StoreDown,
        Self::Promotion,
        Self::Removal,
        Self::StoreOutage,
    ];

    /// Returns whether the drill must control the server of the database.
    pub(super) fn needs_server(self) -> bool {
        matches!(self, Self::StoreCrash | Self::Promotion)
    }
}

impl FleetDrill {
    /// Lets the fault happen, and waits until all gateways are ready. Returns the measurements and
    /// the differences that it caused.
    pub(super) async fn apply(
        &mut self,
        fault: Fault,
        victim: usize,
        key: &str,
    ) -> (Vec<Figure>, Vec<String>) {
        let (mut figures, mut differences) = (Vec::new(), Vec::new());
        match fault {
            Fault::Kill => {
                self.nodes[victim].gateway.take().expect("it runs").kill().await;
                let begun = self.clock.monotonic();
                self.start(victim).await;
                let time = self.clock.monotonic().saturating_sub(begun);
                figures.push(Figure::Time("restart", time));
                let client = self.client(victim, key);
                let first = client.send_request(Shape::Chat, "after the restart", None).await;
                let time = self.clock.monotonic().saturating_sub(begun);
                match first {
                    Some(answer) if answer.status == 200 => {
                        figures.push(Figure::Time("restart to first answer", time));
                    }
                    // A balance that is spent is looked for at the other gateways first.
                    Some(_) => {}
                    None => differences.push("no answer after the restart".to_owned()),
                }
            }
            Fault::Suspend => {
                self.signal(victim, "STOP").await;
                tokio::time::sleep(BEYOND_PATIENCE).await;
                self.signal(victim, "CONT").await;
            }
            Fault::Partition => {
                self.nodes[victim].link.cut();
                tokio::time::sleep(BEYOND_PATIENCE).await;
                self.nodes[victim].link.mend();
            }
            Fault::StoreDown => self.cut_store_off(BEYOND_PATIENCE).await,
            Fault::StoreOutage => self.cut_store_off(self.settings.store_outage).await,
            Fault::StoreCrash => {
                self.servers.as_ref().expect("a server of the drill").crash_primary().await;
            }
            Fault::Promotion => {
                self.servers.as_mut().expect("a server of the drill").fail_over().await;
            }
            // Each client ends with the gateway that it uses.
            Fault::RollingRestart => {
                for number in [1, 2] {
                    self.restart(number).await;
                }
            }
            Fault::Removal => differences.extend(self.replace(victim).await),
        }
        let begun = self.clock.monotonic();
        for number in 0..self.nodes.len() {
            self.wait_until_ready(number).await;
        }
        let time = self.clock.monotonic().saturating_sub(begun);
        figures.push(Figure::Time("back after the fault", time));
        (figures, differences)
    }

    async fn cut_store_off(&self, duration: Duration) {
        self.nodes.iter().for_each(|node| node.link.cut());
        tokio::time::sleep(duration).await;
        self.nodes.iter().for_each(|node| node.link.mend());
    }

    async fn wait_until_ready(&self, number: usize) {
        let address = self.gateway(number).http;
        let ready = async {
            let ask = || crate::http::Request::get(address, "/readyz");
            while ask().answer().await.status != 200 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        with_timeout("readiness after the fault", ready).await;
    }

    /// Stops a gateway, removes it, and starts another one in its place. Returns what went wrong.
    async fn replace(&mut self, victim: usize) -> Option<String> {
        // What only its journal has would be lost with it, which is not a difference.
        self.nodes[victim].gateway.take().expect("it runs").stop().await;
        tokio::time::sleep(BEYOND_PATIENCE).await;
        let name = self.nodes[victim].name.clone();
        let removal = v1::RemoveNodeRequest { name: name.clone(), lost: true };
        self.operator().await.nodes().remove_node(removal).await.expect("the removal");
        let refusal = self.fleet.refusal(&name).await;
        self.nodes[victim].name = format!("node-{}", self.rounds);
        self.start(victim).await;
        (!refusal.contains("removed")).then(|| format!("a removed node says: {refusal}"))
    }

    async fn signal(&self, number: usize, name: &str) {
        let (name, id) = (format!("-{name}"), self.gateway(number).id().to_string());
        let sent = Command::new("kill").args([name, id]).status().await.expect("kill runs");
        assert!(sent.success());
    }
}
