//! Runs the built-in simulator: as the target of `sim:` addresses, or on a port.

use simulator::Simulator;
use tokio::net::{TcpListener, UnixStream};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::connections::{Acceptor, ConnectionLimits, ConnectionSlots};
use crate::upstream::SimulatorDialer;

/// Serves `simulator` on its own listener until `shutdown`, for upstreams that outlive a gateway.
pub async fn run_simulator(
    listener: TcpListener,
    simulator: Simulator,
    shutdown: CancellationToken,
) {
    let tasks = TaskTracker::new();
    let slots = ConnectionSlots::new(ConnectionLimits::default());
    let mut acceptor = Acceptor::new(listener, "simulator", slots);
    while let Some(accepted) = shutdown.run_until_cancelled(acceptor.accept()).await {
        let simulator = simulator.clone();
        tasks.spawn(async move {
            let _slot = accepted.slot;
            simulator.serve(accepted.stream).await;
        });
    }
}

/// Connects to the simulator over a socket pair, which needs no port. The simulator runs on the current runtime,
/// not on that of the worker that connects.
pub(super) fn dialer(simulator: Simulator, tasks: TaskTracker) -> SimulatorDialer {
    let runtime = Handle::current();
    SimulatorDialer::new(move || {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        theirs.set_nonblocking(true)?;
        let simulator = simulator.clone();
        let serve = async move {
            match UnixStream::from_std(theirs) {
                Ok(stream) => simulator.serve(stream).await,
                Err(error) => tracing::warn!(%error, "the simulator cannot serve a connection"),
            }
        };
        tasks.spawn_on(serve, &runtime);
        UnixStream::from_std(ours)
    })
}
