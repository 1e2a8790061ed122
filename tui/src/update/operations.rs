//! Actions on the operations screen.

use secrecy::SecretString;

use crate::effect::Effect;
use crate::model::accounts::Role;
use crate::model::command_line::line;
use crate::model::form::{Field, Form, FormKind};
use crate::model::operations::{OperationKind, OperationRequest, OperationRun, RunState};
use crate::model::overlay::Overlay;
use crate::model::{Action, Model};

use super::parse::{FieldError, required};

/// The label of the field for the file of a backup.
const FILE: &str = "file";

/// Selects, starts or stops an operation, or copies its command.
pub(super) fn act(model: &mut Model, action: Action) -> Vec<Effect> {
    let operations = &mut model.data.operations;
    let (kind, last) = (operations.kind(), OperationKind::ALL.len() - 1);
    let select = match action {
        Action::Move(steps) => operations.selected.saturating_add_signed(steps).min(last),
        Action::First => 0,
        Action::Last => last,
        Action::Run => return run(model, kind),
        Action::Stop if operations.current().is_running() => {
            operations.current().state = RunState::Stopped;
            return vec![Effect::StopOperation(kind)];
        }
        Action::Stop => {
            model.set_problem(format!("to {}: it does not run", kind.name()));
            return Vec::new();
        }
        Action::Copy => {
            let file = operations.current().file.clone();
            let command = line(&kind.arguments(file.as_deref()));
            model.set_success(format!("`{command}` was sent to the terminal's clipboard"));
            return vec![Effect::Copy(SecretString::from(command))];
        }
        _ => return Vec::new(),
    };
    operations.selected = select;
    Vec::new()
}

/// Starts an operation, after a form if it costs money or needs a file.
fn run(model: &mut Model, kind: OperationKind) -> Vec<Effect> {
    if model.data.operations.current().is_running() {
        model.set_problem(format!("to {}: it runs already; x stops it", kind.name()));
        return Vec::new();
    }
    if kind.needs_operator() && !model.has_role(Role::Operator) {
        model.set_problem(format!("to {}: only operators can", kind.name()));
        return Vec::new();
    }
    let field = match kind {
        OperationKind::Diagnosis | OperationKind::Verification => return start(model, kind, None),
        OperationKind::TestRequests if model.is_read_only => {
            model.set_problem("test requests cost money, and --read-only refuses them");
            return Vec::new();
        }
        OperationKind::TestRequests => Field::fixed("sends to", "each model of each upstream"),
        OperationKind::Backup => {
            Field::text(FILE, "where to write it on this host", name(model)).required()
        }
    };
    let form = Form::new(title(kind), FormKind::Operation(kind), vec![field]);
    model.overlay = Some(Overlay::Form(Box::new(form)));
    Vec::new()
}

/// Starts the operation of a form.
pub(super) fn submit(
    model: &mut Model,
    form: &Form,
    kind: OperationKind,
) -> Result<Vec<Effect>, FieldError> {
    let file = match kind {
        OperationKind::Backup => Some(required(form, FILE, "type the path of a new file")?),
        _ => None,
    };
    Ok(start(model, kind, file))
}

/// Returns the `ctl` command that does the same as a form.
pub(super) fn command(form: &Form, kind: OperationKind) -> Option<String> {
    let file = form.field(FILE).map(|_| form.text(FILE));
    (file != Some("")).then(|| line(&kind.arguments(file)))
}

/// Returns what to know before the operation of a form is started.
pub(super) fn preview(kind: OperationKind) -> Option<String> {
    let text = match kind {
        OperationKind::TestRequests => "A short request to each, for which upstreams may charge.",
        OperationKind::Backup => "Written here, where the dashboard runs. Keep `seal.key` with it.",
        OperationKind::Diagnosis | OperationKind::Verification => return None,
    };
    Some(text.to_owned())
}

fn title(kind: OperationKind) -> &'static str {
    if kind == OperationKind::Backup { "Back up the database" } else { "Check with test requests" }
}

/// Returns the proposed name of a backup, with the date and the time in UTC, because an existing file
/// is not replaced.
fn name(model: &Model) -> String {
    let time = model.now.map(|now| now.strftime("-%Y-%m-%dT%H%M%SZ").to_string());
    format!("tollgate{}.db", time.unwrap_or_default())
}

fn start(model: &mut Model, kind: OperationKind, file: Option<String>) -> Vec<Effect> {
    model.operation_runs += 1;
    let run = model.operation_runs;
    let fresh = OperationRun { number: run, state: RunState::Running, ..OperationRun::default() };
    *model.data.operations.current() = OperationRun { file: file.clone(), ..fresh };
    vec![Effect::Operate(OperationRequest { run, kind, file })]
}
