//! The sign-in screen.

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Rect};

use crate::model::Model;
use crate::model::form::FormKind;

use super::overlay::form;

/// Draws the form centred in `area`.
pub(super) fn render(model: &Model, buffer: &mut Buffer, area: Rect) {
    let open = &model.sign_in.form;
    let remark = match open.kind {
        FormKind::Register => "Ctrl-N: I have an account already",
        _ => "no account yet? Ctrl-N makes one",
    };
    let rows = u16::try_from(open.fields.len()).unwrap_or(u16::MAX).saturating_add(6);
    let area = area.centered(Constraint::Max(64), Constraint::Max(rows));
    form(model.theme, open, remark, buffer, area);
}
