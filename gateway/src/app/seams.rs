//! The parts of a gateway that tests may replace.

use std::sync::Arc;

use crate::clock::{Clock, Entropy, SystemClock, SystemEntropy};
use crate::telemetry::Log;
use crate::workers::WorkerRuntime;
use ::simulator::{Simulator, TruthLog};

/// A fixed seed: the simulator answers the same request alike on every installation.
const SIMULATOR_SEED: u64 = 1;

/// What tests may replace.
pub struct Seams {
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Randomness and ids.
    pub entropy: Arc<dyn Entropy>,
    /// The target of `sim:` addresses.
    pub simulator: Simulator,
    /// Where the workers run.
    pub worker_runtime: WorkerRuntime,
    /// The log, for the export and for the lines of requests.
    pub log: Log,
}

impl Default for Seams {
    fn default() -> Self {
        let settings = ::simulator::Settings { seed: SIMULATOR_SEED, truth: TruthLog::memory() };
        Self {
            clock: Arc::new(SystemClock::new()),
            entropy: Arc::new(SystemEntropy),
            simulator: Simulator::new(settings),
            worker_runtime: WorkerRuntime::Threads,
            log: Log::default(),
        }
    }
}
