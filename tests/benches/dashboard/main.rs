//! How long the real dashboard takes to answer on a store with millions of requests.
//!
//! `cargo bench -p tests --bench dashboard -- 10` fills a SQLite store with ten million requests of
//! the last sixty days (one million by default; ten million take 2.7 GB of temporary files), starts
//! the real `gateway` and `tui` on it, and presses keys. For each it prints the time until the
//! dashboard answers another key, here `?`, which must not wait for the gateway, and the time until
//! the result is on the screen. `-- 10 /path/to/directory` makes that directory and keeps it, once it is full; if it is the
//! data directory of a gateway, the store in it is measured. No other gateway may be running on it.
//!
//! Build the binaries in the same profile before: `cargo build --release -p gateway -p tui`. To measure
//! unoptimised programs, build without `--release`, and run the benchmark with `--profile dev`.

#[expect(dead_code, reason = "the benchmark of the store uses the rest")]
#[path = "../../../gateway/benches/large/log.rs"]
mod log;
mod screen;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, bail, ensure};
use jiff::{SignedDuration, Timestamp};
use store::Requests;
use store::sqlite::SqliteStore;
use tests::Terminal;
use tests::process::Gateway;

use crate::log::Log;
use crate::screen::{Dashboard, millis};

/// Records per commit.
const BATCH: u64 = 10_000;
/// The size of the terminal.
const SIZE: (u16, u16) = (36, 120);

#[expect(clippy::print_stdout, reason = "the benchmark prints its results")]
#[expect(clippy::disallowed_methods, reason = "measures time and reads its arguments")]
fn main() -> anyhow::Result<()> {
    let (millions, kept) = read(std::env::args().skip(1))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let folder = tempfile::tempdir()?;
    let data = kept.unwrap_or_else(|| folder.path().join("data"));
    // The log begins sixty days ago, so that it ends now.
    let start = Timestamp::now().checked_sub(SignedDuration::from_hours(60 * 24))?;
    let log = Log { records: millions * 1_000_000, start };
    runtime.block_on(async {
        if !data.join("tollgate.db").exists() {
            let begun = Instant::now();
            make(&data, &log).await?;
            println!("{millions} M requests stored in {:.0} s", begun.elapsed().as_secs_f64());
        }
        let begun = Instant::now();
        let gateway = Gateway::start(&data, |_| {}).await;
        println!("gateway started in {:.0} ms", millis(begun.elapsed()));
        measure(folder.path(), &data, &gateway).await;
        gateway.stop().await;
        Ok(())
    })
}

/// Returns the number of millions of requests and the directory to keep, if any.
fn read(arguments: impl Iterator<Item = String>) -> anyhow::Result<(u64, Option<PathBuf>)> {
    let (mut millions, mut kept) = (1, None);
    // Cargo adds `--bench`.
    for argument in arguments.filter(|it| it != "--bench") {
        if let Ok(number) = argument.parse() {
            millions = number;
        } else if Path::new(&argument).is_absolute() {
            kept = Some(PathBuf::from(argument));
        } else {
            bail!("`{argument}` is neither a number of millions nor an absolute path");
        }
    }
    Ok((millions, kept))
}

/// Makes a data directory with the log. It has another name until it is full.
async fn make(data: &Path, log: &Log) -> anyhow::Result<()> {
    if data.exists() {
        let is_empty = std::fs::read_dir(data)?.next().is_none();
        ensure!(is_empty, "{} is neither empty nor a data directory", data.display());
    }
    let mut partial = data.as_os_str().to_owned();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    if partial.exists() {
        std::fs::remove_dir_all(&partial)?;
    }
    // The first start makes the operator and the default plan.
    Gateway::start(&partial, |_| {}).await.stop().await;
    fill(&partial.join("tollgate.db"), log).await?;
    std::fs::rename(&partial, data).with_context(|| format!("cannot make {}", data.display()))
}

async fn fill(path: &Path, log: &Log) -> anyhow::Result<()> {
    let store = SqliteStore::open(path)?;
    log::register(&store).await?;
    for first in (0..log.records).step_by(usize::try_from(BATCH)?) {
        store.commit(Arc::new(log.batch(first..first + BATCH))).await?;
    }
    store.close().await;
    Ok(())
}

/// Presses the keys of an operator who looks for something in the log.
#[expect(clippy::disallowed_methods, reason = "measures time")]
async fn measure(home: &Path, data: &Path, gateway: &Gateway) {
    let begun = Instant::now();
    let terminal = Terminal::start("tui", home, SIZE, |command| {
        command.args(["--server", &gateway.admin]);
        command.env("TOLLGATE_DATA_DIR", data);
    });
    let mut dashboard = Dashboard::new(terminal, begun);
    dashboard.loaded("first frame", |text| text.contains("Tollgate")).await;
    let total = |line: &str| line.contains("all used in 30 days") && line.contains('$');
    let totals = |text: &str| text.lines().any(total);
    dashboard.loaded("overview with its totals", totals).await;

    let all = |text: &str| text.contains("following") && text.contains("account-");
    dashboard.press("usage screen", "4", all).await;
    dashboard.press("the oldest row fetched, next page", "G", |it| !it.contains("fetching")).await;
    dashboard.press("the oldest row fetched, next page", "G", |it| !it.contains("fetching")).await;
    dashboard.press("sort by a column", ">", |it| it.contains("paused")).await;
    dashboard.press("follow again", "pg", |it| it.contains("following")).await;
    let filters = [
        ("a rare status", "status:failed"),
        ("several statuses", "status:failed,cancelled"),
        ("a model", "model:model-3"),
        ("a rare model", "model:model-8"),
        ("an account", "account:account-7"),
        ("an account with few requests", "account:account-200"),
        ("a duration that no request has", "duration>1h"),
        ("a cost that no request has", "cost>9"),
    ];
    for (name, filter) in filters {
        let shown = format!("/{filter} · following");
        let is_done = |text: &str| text.contains(&shown) && !text.contains("fetching");
        dashboard.press(&format!("filter {name}"), &format!("/{filter}\r"), is_done).await;
        dashboard.press("no filter", "/\u{15}\r", all).await;
    }
    let searched = |text: &str| text.contains("20,000 searched") && !text.contains("fetching");
    dashboard.press("search a word that no request has", "/nothing-like-it\r", searched).await;
    dashboard.press("no filter", "/\u{15}\r", all).await;
    let before = |text: &str| text.contains("/until:") && text.contains("account-");
    dashboard.press("go to a time 45 days ago", "t45d\r", before).await;
    dashboard.press("no filter", "/\u{15}\r", all).await;
    let month = |text: &str| text.contains("[30d]") && text.contains("Tokens/day");
    dashboard.press("totals of 30 days", "]]", month).await;
    dashboard.press("accounts", "6", |text| text.contains("Accounts · ")).await;
    dashboard.press("keys of all accounts", "2", |text| text.contains("Keys · ")).await;
}
