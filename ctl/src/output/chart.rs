//! Bars and sparklines, with a resolution of an eighth of a cell in Unicode, or in plain ASCII.

/// Draws a bar that fills `share` (0 to 1) of `width` cells; a nonzero share is never empty.
pub(crate) fn bar(share: f64, width: usize, unicode: bool) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
    let steps = if unicode { width * 8 } else { width };
    let filled = scaled(share, steps).max(usize::from(share > 0.0 && steps > 0));
    if unicode {
        format!("{}{}", "█".repeat(filled / 8), EIGHTHS[filled % 8])
    } else {
        "#".repeat(filled)
    }
}

/// Draws a column for each value, scaled to the maximum; only zero is blank.
pub(crate) fn sparkline(values: &[u64], unicode: bool) -> String {
    const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    const ASCII: [char; 5] = [' ', '.', ':', '|', '#'];
    let marks: &[char] = if unicode { &BLOCKS } else { &ASCII };
    let max = values.iter().copied().max().unwrap_or_default();
    let height = |value: u64| match value {
        0 => 0,
        value => scaled(ratio(value, max), marks.len() - 1).max(1),
    };
    values.iter().map(|value| marks[height(*value)]).collect()
}

/// Returns `part / whole`; 0 if `whole` is 0.
#[expect(clippy::cast_precision_loss, reason = "a chart has some hundred steps")]
pub(crate) fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a share of some hundred steps, from 0 to 1"
)]
fn scaled(share: f64, steps: usize) -> usize {
    (share * steps as f64).round() as usize
}

#[cfg(test)]
mod tests {
    use super::{bar, ratio, sparkline};

    #[test]
    fn bars_have_eighths_and_are_never_empty_for_nonzero_shares() {
        for (share, drawn, ascii) in [
            (0.0, "", ""),
            (0.001, "▏", "#"),
            (0.5, "██", "##"),
            (0.53, "██▏", "##"),
            (1.0, "████", "####"),
            (7.0, "████", "####"),
            (f64::NAN, "", ""),
        ] {
            assert_eq!(bar(share, 4, true), drawn, "{share}");
            assert_eq!(bar(share, 4, false), ascii, "{share}");
        }
        assert_eq!(bar(1.0, 0, true), "");
    }

    #[test]
    fn sparklines_scale_to_their_maximum() {
        assert_eq!(sparkline(&[0, 1, 4, 8], true), " ▁▄█");
        assert_eq!(sparkline(&[0, 1, 800], false), " .#");
        assert_eq!(sparkline(&[0, 0], true), "  ");
        assert_eq!(sparkline(&[], true), "");
    }

    #[test]
    fn a_ratio_to_zero_is_zero() {
        assert!(ratio(3, 0).abs() < f64::EPSILON);
        assert!((ratio(1, 4) - 0.25).abs() < f64::EPSILON);
    }
}
