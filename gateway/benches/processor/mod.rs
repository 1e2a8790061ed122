//! How much processor time a bench has taken.

use std::time::Duration;

/// The time that all threads of this process have run so far.
pub(crate) fn processor_time() -> anyhow::Result<Duration> {
    let mut nanos = 0;
    for task in std::fs::read_dir("/proc/self/task")? {
        let stat = std::fs::read_to_string(task?.path().join("schedstat"))?;
        nanos += stat.split(' ').next().unwrap_or_default().parse::<u64>()?;
    }
    Ok(Duration::from_nanos(nanos))
}
