//! The axis of values at the left of a chart: round numbers, as many as the rows have room for.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;

use crate::theme::Theme;

/// The labelled values of an axis: the multiples of a step up to the upper edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// The distance between two labels: 1, 2, 2.5 or 5 times a power of ten, without a fraction.
    pub step: u64,
    /// The value at the upper edge, a multiple of the step.
    pub top: u64,
}

/// The maximum number of steps of a scale.
const MAX_STEPS: u64 = 4;

impl Scale {
    /// Returns the scale with the least step whose upper edge is not less than `max`.
    pub fn up_to(max: u64) -> Self {
        let max = max.max(1);
        let powers = std::iter::successors(Some(1_u64), |power| power.checked_mul(10));
        let steps = powers.flat_map(|power| {
            let quarter = (power >= 10).then(|| power / 10 * 25);
            [Some(power), power.checked_mul(2), quarter, power.checked_mul(5)]
        });
        steps
            .flatten()
            .find(|step| max.div_ceil(*step) <= MAX_STEPS)
            .and_then(|step| Some(Self { step, top: max.div_ceil(step).checked_mul(step)? }))
            .unwrap_or(Self { step: max, top: max })
    }

    /// Returns the labelled values above zero, the highest first.
    pub fn labels(self) -> impl Iterator<Item = u64> {
        (1..=self.top / self.step).rev().map(move |number| number * self.step)
    }

    /// Returns those of the labels that have room in this number of rows: all of them with a free row
    /// between two, else the highest and its half, else the highest.
    fn labels_in(self, rows: u16) -> Vec<u64> {
        let steps = self.top / self.step;
        let (all, half) = (u64::from(rows) >= 2 * steps, rows >= 4 && steps.is_multiple_of(2));
        let is_shown = |label: &u64| all || *label == self.top || (half && *label == self.top / 2);
        self.labels().filter(is_shown).collect()
    }

    /// Draws the labels, each in the row below its value, at the right of `area` but for one column.
    pub fn render(
        self,
        theme: Theme,
        text: impl Fn(u64) -> String,
        buffer: &mut Buffer,
        area: Rect,
    ) {
        let rows = u128::from(area.height);
        for label in self.labels_in(area.height) {
            let below_top = u128::from(self.top - label) * rows / u128::from(self.top);
            let row = u16::try_from(below_top).unwrap_or(u16::MAX);
            let width = area.width.saturating_sub(1);
            let place = Rect { y: area.y.saturating_add(row), height: 1, width, ..area };
            let line = Line::from(Span::styled(text(label), theme.faint())).right_aligned();
            line.render(place.intersection(area), buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_labels_are_round_numbers_and_the_highest_is_at_the_edge() {
        for (max, labels) in [
            (0, &[1][..]),
            (1, &[1]),
            (3, &[3, 2, 1]),
            (5, &[6, 4, 2]),
            (11, &[15, 10, 5]),
            (50, &[60, 40, 20]),
            (100, &[100, 75, 50, 25]),
            (9_001, &[10_000, 7_500, 5_000, 2_500]),
            (24_001, &[30_000, 20_000, 10_000]),
            (u64::MAX, &[u64::MAX]),
        ] {
            let scale = Scale::up_to(max);
            assert_eq!(scale.labels().collect::<Vec<_>>(), labels, "{max}");
            assert_eq!(scale.top, labels[0]);
        }
    }

    #[test]
    fn labels_are_left_out_where_they_have_no_room() {
        for (max, rows, labels) in [
            (4, 8, &[4, 3, 2, 1][..]),
            (4, 7, &[4, 2]),
            (4, 3, &[4]),
            (30, 6, &[30, 20, 10]),
            (30, 5, &[30]),
            (1, 1, &[1]),
            (0, 0, &[1]),
        ] {
            assert_eq!(Scale::up_to(max).labels_in(rows), labels, "{max} in {rows}");
        }
    }
}
