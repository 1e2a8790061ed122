//! Actions in the chart above the usage screen.

use jiff::{SignedDuration, Timestamp};

use crate::effect::Effect;
use crate::model::chart::{ChartView, Measure};
use crate::model::overlay::Overlay;
use crate::model::{Action, Model, Screen};

use super::{shell, trail, usage};

/// Opens the chart above the usage screen.
pub(super) fn open(model: &mut Model) {
    if model.screen != Screen::Usage {
        shell::open(model, Screen::Usage);
    }
    model.overlay = Some(Overlay::Chart(ChartView::default()));
}

/// Moves the cursor, changes what is drawn or the range, or goes to the requests of a period.
pub(super) fn act(model: &mut Model, mut view: ChartView, action: Action) -> Vec<Effect> {
    let periods = model.data.usage.sums.value.as_ref().map_or(0, |usage| usage.series.len());
    match action {
        Action::Back => return Vec::new(),
        Action::Submit => {
            if let Some((start, end)) = period(model, view) {
                let zone = model.zone.clone();
                let name = start.to_zoned(zone).strftime("%m-%d %H:%M").to_string();
                trail::open_requests(model, name, &format!("since:{start} until:{end}"));
                return Vec::new();
            }
        }
        Action::Move(steps) => {
            let back = view.back.saturating_add_signed(-steps);
            view.back = back.min(periods.saturating_sub(1));
        }
        Action::First => view.back = periods.saturating_sub(1),
        Action::Last => view.back = 0,
        Action::Measure(steps) => view.measure = view.measure.step(steps),
        Action::Range(_) => {
            view.back = 0;
            usage::act(model, action);
        }
        _ => {}
    }
    model.overlay = Some(Overlay::Chart(view));
    Vec::new()
}

/// Has the log fetch the requests of the range while their durations are drawn.
pub(super) fn refresh(model: &mut Model) {
    let since = match &model.overlay {
        Some(Overlay::Chart(view)) if view.measure == Measure::Latency => {
            let usage = model.data.usage.sums.value.as_ref();
            usage.and_then(|usage| Some(usage.series.first()?.start))
        }
        _ => None,
    };
    model.data.log.want_since(since);
}

/// Returns the start and the end of the period under the cursor.
fn period(model: &Model, view: ChartView) -> Option<(Timestamp, Timestamp)> {
    let usage = &model.data.usage;
    let series = &usage.sums.value.as_ref()?.series;
    let index = series.len().checked_sub(view.back + 1)?;
    let start = series.get(index)?.start;
    let length = SignedDuration::from_secs(usage.range.period_seconds());
    Some((start, start.checked_add(length).ok()?))
}
