//! Reads the CPU time of the process.

use std::time::Duration;

/// Returns the CPU time of all live threads of this process, from Linux's `schedstat`.
pub(crate) fn cpu_time() -> anyhow::Result<Duration> {
    let mut nanos = 0;
    for task in std::fs::read_dir("/proc/self/task")? {
        let stat = std::fs::read_to_string(task?.path().join("schedstat"))?;
        nanos += stat.split(' ').next().unwrap_or_default().parse::<u64>()?;
    }
    Ok(Duration::from_nanos(nanos))
}
