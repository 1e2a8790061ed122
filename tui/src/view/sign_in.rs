//! The sign-in screen.

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Rect};
use ratatui::text::Text;

use crate::model::Model;
use crate::model::form::FormKind;

use super::overlay::form;

/// Draws the form centred in `area`.
pub(super) fn render(model: &Model, buffer: &mut Buffer, area: Rect) {
    let open = &model.sign_in.form;
    let theme = model.theme;
    let remark = match (&model.sign_in.unreachable, &open.kind) {
        (Some(problem), _) => Text::styled(problem.as_str(), theme.bad()),
        (None, FormKind::Register) => {
            Text::styled("Ctrl-N: I have an account already", theme.faint())
        }
        (None, _) => Text::styled("no account yet? Ctrl-N makes one", theme.faint()),
    };
    let rows = u16::try_from(open.fields.len()).unwrap_or(u16::MAX).saturating_add(6);
    let area = area.centered(Constraint::Max(64), Constraint::Max(rows));
    form(theme, open, remark, buffer, area);
}
