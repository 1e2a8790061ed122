//! The `ctl` binary: runs [`ctl::run`] in the environment of the process and exits with its code.

use std::io::BufReader;
use std::process::ExitCode;

use ctl::profile::Environment;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let environment = Environment::of_process();
    let mut stdin = BufReader::new(std::io::stdin());
    let (mut out, mut err) = (std::io::stdout(), std::io::stderr());
    if environment.complete.is_some() {
        let completed = ctl::complete(std::env::args_os(), &environment, &mut out);
        return completed
            .map_or_else(|failure| (failure.exit() as u8).into(), |()| ExitCode::SUCCESS);
    }
    let code = ctl::run(std::env::args_os(), &environment, &mut stdin, &mut out, &mut err).await;
    ExitCode::from(code)
}
