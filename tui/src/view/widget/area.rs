//! Stacked areas of braille dots: eight dots per cell, so two values and four heights.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use std::ops::Range;

/// The dots of a cell, by row from the top and by column.
const DOTS: [[u32; 2]; 4] = [[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]];
/// The braille pattern without dots.
const BLANK: u32 = 0x2800;

/// Areas on top of each other, and a line across them.
#[derive(Clone, Debug)]
pub struct Areas<'a> {
    /// The values of each area with its style, from bottom to top.
    pub layers: Vec<(Style, &'a [u64])>,
    /// The values and the style of the line, if there is one.
    pub line: Option<(Style, &'a [u64])>,
    /// The value at the upper edge.
    pub max: u64,
}

// === impl Areas ===

impl Areas<'_> {
    /// Draws the values, the oldest at the left, over the whole width.
    pub fn render(&self, buffer: &mut Buffer, area: Rect) {
        let count = self.layers.iter().map(|(_, values)| values.len()).max().unwrap_or(0);
        if count == 0 {
            return;
        }
        let dots = usize::from(area.width) * 2;
        let highest = |dot| covered(dot, dots, count).max_by_key(|index| self.sum(*index));
        let tops: Vec<_> = (0..dots)
            .map(|dot| highest(dot).map_or_else(Vec::new, |index| self.tops(index, area.height)))
            .collect();
        let line: Vec<_> = (0..dots)
            .map(|dot| {
                let (_, values) = self.line?;
                let values = covered(dot, dots, count).filter_map(|index| values.get(index));
                let value = values.max().filter(|value| **value > 0)?;
                Some(self.height(u128::from(*value), area.height).saturating_sub(1))
            })
            .collect();
        for (row_from_bottom, row) in area.rows().rev().enumerate() {
            for (index, cell) in row.columns().enumerate() {
                let columns = [2 * index, 2 * index + 1];
                self.cell(
                    columns.map(|it| tops[it].as_slice()),
                    columns.map(|it| line[it]),
                    row_from_bottom * 4,
                    buffer,
                    cell,
                );
            }
        }
    }

    /// Draws a cell whose lowest dots are at this height. Its colour is that of the area with the
    /// most dots in it.
    fn cell(
        &self,
        tops: [&[usize]; 2],
        line: [Option<usize>; 2],
        bottom: usize,
        buffer: &mut Buffer,
        place: Rect,
    ) {
        let mut pattern = 0;
        let mut counts = vec![0; self.layers.len()];
        let mut has_line = false;
        for (row, dots) in DOTS.iter().rev().enumerate() {
            for (column, dot) in dots.iter().enumerate() {
                let height = bottom + row;
                let layer = tops[column].iter().position(|top| height < *top);
                let is_line = line[column] == Some(height);
                // Within the areas, the line is a gap.
                if layer.is_some() != is_line {
                    pattern |= dot;
                }
                if let Some(layer) = layer {
                    counts[layer] += 1;
                }
                has_line |= is_line;
            }
        }
        let most =
            (0..counts.len()).filter(|layer| counts[*layer] > 0).max_by_key(|it| counts[*it]);
        let style = match (most, self.line) {
            (Some(layer), _) => self.layers[layer].0,
            (None, Some((style, _))) if has_line => style,
            _ => return,
        };
        if let (Some(symbol), Some(cell)) =
            (char::from_u32(BLANK | pattern), buffer.cell_mut((place.x, place.y)))
        {
            cell.set_char(symbol).set_style(style);
        }
    }

    /// Returns the sum of the areas at this value.
    fn sum(&self, index: usize) -> u128 {
        let values = self.layers.iter().filter_map(|(_, values)| values.get(index));
        values.map(|value| u128::from(*value)).sum()
    }

    /// Returns the height of the upper end of each area at this value, in dots.
    fn tops(&self, index: usize, rows: u16) -> Vec<usize> {
        let mut sum = 0_u128;
        let mut below = 0;
        self.layers
            .iter()
            .map(|(_, values)| {
                let value = u128::from(values.get(index).copied().unwrap_or(0));
                sum += value;
                // A value that is not zero has at least one dot.
                let least = below + usize::from(value > 0);
                below = self.height(sum, rows).max(least);
                below
            })
            .collect()
    }

    fn height(&self, value: u128, rows: u16) -> usize {
        let full = u128::from(rows) * 4;
        let dots = (value * full / u128::from(self.max.max(1))).min(full);
        usize::try_from(dots).unwrap_or(0).max(usize::from(value > 0))
    }
}

/// Returns the indexes of the values, among `count`, that the place with this index covers, among
/// `places`. Each value is in at least one place.
pub fn covered(place: usize, places: usize, count: usize) -> Range<usize> {
    let places = places.max(1);
    let start = place * count / places;
    let end = (place + 1) * count / places;
    start..end.max(start + 1).min(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(areas: &Areas<'_>, width: u16, height: u16) -> Vec<String> {
        let area = Rect::new(0, 0, width, height);
        let mut buffer = Buffer::empty(area);
        areas.render(&mut buffer, area);
        let row = |row: Rect| row.columns().map(|it| buffer[(it.x, it.y)].symbol()).collect();
        area.rows().map(row).collect()
    }

    fn areas<'a>(layers: &[&'a [u64]], line: Option<&'a [u64]>) -> Areas<'a> {
        let layers = layers.iter().map(|values| (Style::new(), *values)).collect();
        Areas { layers, line: line.map(|values| (Style::new(), values)), max: 8 }
    }

    #[test]
    fn values_fill_their_share_and_the_smallest_is_visible() {
        assert_eq!(drawn(&areas(&[&[0, 1, 4, 8]], None), 2, 2), [" ⢸", "⢀⣿"]);
        assert_eq!(drawn(&areas(&[&[1, 1], &[3, 7]], None), 1, 2), ["⢸", "⣿"]);
        assert_eq!(drawn(&areas(&[&[]], None), 1, 1), [" "]);
        assert_eq!(drawn(&areas(&[&[u64::MAX; 2][..]; 3], None), 1, 1), ["⣿"]);
    }

    #[test]
    fn no_value_is_left_out_where_several_share_a_place() {
        assert_eq!(drawn(&areas(&[&[0, 8, 0, 0, 0, 4]], None), 1, 2), ["⡇", "⣿"]);
        assert_eq!(drawn(&areas(&[&[0; 4]], Some(&[0, 8, 0, 0])), 1, 1), ["⠁"]);
        for (places, count) in [(3, 10), (10, 3), (7, 7), (1, 5), (5, 0)] {
            let mut all: Vec<_> = (0..places).flat_map(|it| covered(it, places, count)).collect();
            all.dedup();
            assert_eq!(all, (0..count).collect::<Vec<_>>(), "{count} in {places}");
        }
    }

    #[test]
    fn the_line_is_visible_above_and_within_the_areas() {
        assert_eq!(drawn(&areas(&[&[0, 8]], Some(&[8, 4])), 1, 2), ["⢹", "⢰"]);
    }
}
