//! Numbers as lengths and heights: bars and sparklines, in eighths of a cell or in plain ASCII.

/// Draws a bar of `share` (0 to 1) of `width` cells; whatever is more than nothing is seen.
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

/// Draws a column for each value, the highest of them a full cell; nothing is the lowest.
pub(crate) fn sparkline(values: &[u64], unicode: bool) -> String {
    const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    const ASCII: [char; 5] = [' ', '.', ':', '|', '#'];
    let marks: &[char] = if unicode { &BLOCKS } else { &ASCII };
    let most = values.iter().copied().max().unwrap_or_default();
    let height = |value: u64| match value {
        0 => 0,
        value => scaled(ratio(value, most), marks.len() - 1).max(1),
    };
    values.iter().map(|value| marks[height(*value)]).collect()
}

/// Returns how much of `whole` `part` is; nothing of nothing is nothing.
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
    fn bars_have_eighths_and_are_never_empty_for_something() {
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
    fn sparklines_scale_to_their_highest_value() {
        assert_eq!(sparkline(&[0, 1, 4, 8], true), " ▁▄█");
        assert_eq!(sparkline(&[0, 1, 800], false), " .#");
        assert_eq!(sparkline(&[0, 0], true), "  ");
        assert_eq!(sparkline(&[], true), "");
    }

    #[test]
    fn a_ratio_of_nothing_is_nothing() {
        assert!(ratio(3, 0).abs() < f64::EPSILON);
        assert!((ratio(1, 4) - 0.25).abs() < f64::EPSILON);
    }
}
