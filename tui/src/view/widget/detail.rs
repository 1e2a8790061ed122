//! The detail pane: labelled values, headings and text, wrapped to the width.

use std::borrow::Cow;

use proto::text::{is_hidden, visible};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;

use super::text::wrap;
use crate::theme::Theme;

/// The width of the label column.
const LABEL_WIDTH: u16 = 13;

/// The contents of a detail pane, from top to bottom.
#[derive(Debug, Default)]
pub struct Detail<'a> {
    parts: Vec<Part<'a>>,
    /// The keys that scroll down and up, if they are not `J` and `K`.
    keys: Option<(&'a str, &'a str)>,
}

#[derive(Debug)]
enum Part<'a> {
    Heading(&'a str),
    Row(&'a str, Span<'a>),
    Text(Span<'a>),
    Gap,
}

impl<'a> Detail<'a> {
    /// Adds a heading, preceded by an empty line.
    pub fn heading(&mut self, text: &'a str) -> &mut Self {
        self.parts.extend([Part::Gap, Part::Heading(text)]);
        self
    }

    /// Adds an empty line.
    pub fn gap(&mut self) -> &mut Self {
        self.parts.push(Part::Gap);
        self
    }

    /// Adds a labelled value.
    pub fn row(&mut self, label: &'a str, value: impl Into<Span<'a>>) -> &mut Self {
        self.parts.push(Part::Row(label, value.into()));
        self
    }

    /// Adds a labelled value, if there is one.
    pub fn optional_row(
        &mut self,
        label: &'a str,
        value: Option<impl Into<Span<'a>>>,
    ) -> &mut Self {
        if let Some(value) = value {
            self.row(label, value);
        }
        self
    }

    /// Adds text over the full width.
    pub fn text(&mut self, text: impl Into<Span<'a>>) -> &mut Self {
        self.parts.push(Part::Text(text.into()));
        self
    }

    /// Sets the keys that scroll down and up.
    pub fn scrolled_by(&mut self, down: &'a str, up: &'a str) -> &mut Self {
        self.keys = Some((down, up));
        self
    }

    /// Returns the number of lines in `width`.
    pub fn height(&self, theme: Theme, width: u16) -> u16 {
        u16::try_from(self.lines(theme, width, true).len()).unwrap_or(u16::MAX)
    }

    /// Draws as many lines as fit from line `scroll` on, and counts those below. Omits empty lines
    /// if the contents are too long.
    pub fn render(&self, theme: Theme, scroll: usize, buffer: &mut Buffer, area: Rect) {
        let with_gaps = self.lines(theme, area.width, true);
        let lines = if with_gaps.len() > usize::from(area.height) {
            self.lines(theme, area.width, false)
        } else {
            with_gaps
        };
        let room = usize::from(area.height);
        // The last row says how to scroll if the lines do not fit.
        let is_long = lines.len() > room;
        let shown = room - usize::from(is_long && room > 0);
        let skipped = scroll.min(lines.len().saturating_sub(shown));
        if let (true, Some(last)) = (is_long, area.rows().next_back()) {
            let (down, up) = self.keys.unwrap_or(("J", "K"));
            let text = match lines.len().saturating_sub(skipped + shown) {
                0 => format!("{up} scrolls up"),
                below => format!("… {below} more lines: {down} scrolls down"),
            };
            Line::from(Span::styled(text, theme.faint())).render(last, buffer);
        }
        let lines = lines.into_iter().skip(skipped).take(shown);
        for ((indent, line, label), row) in lines.zip(area.rows()) {
            if let Some(label) = label {
                Line::from(Span::styled(label, theme.faint())).render(row, buffer);
            }
            let place = Rect {
                x: row.x.saturating_add(indent),
                width: row.width.saturating_sub(indent),
                ..row
            };
            line.render(place.intersection(row), buffer);
        }
    }

    /// Returns the lines as indentation, text and label.
    fn lines(&self, theme: Theme, width: u16, gaps: bool) -> Vec<(u16, Line<'_>, Option<&str>)> {
        let mut lines = Vec::new();
        let width = usize::from(width);
        for part in &self.parts {
            match part {
                Part::Gap if !gaps => {}
                Part::Gap => lines.push((0, Line::default(), None)),
                Part::Heading(text) => lines.push((0, Line::styled(*text, theme.accent()), None)),
                Part::Text(text) => {
                    let wrapped = wrap(&text.content, width).into_iter();
                    lines.extend(wrapped.map(|it| (0, Line::styled(it, text.style), None)));
                }
                Part::Row(label, value) => {
                    let room = width.saturating_sub(usize::from(LABEL_WIDTH) + 1);
                    let wrapped = wrap(&value.content, room).into_iter().enumerate();
                    lines.extend(wrapped.map(|(number, it)| {
                        (
                            LABEL_WIDTH + 1,
                            Line::styled(it, value.style),
                            (number == 0).then_some(*label),
                        )
                    }));
                }
            }
        }
        lines
    }
}

/// Returns an unstyled span. Invisible characters are made visible.
pub fn plain<'a>(text: impl Into<Cow<'a, str>>) -> Span<'a> {
    let text = text.into();
    if text.contains(is_hidden) {
        return Span::styled(visible(&text), Style::new());
    }
    Span::styled(text, Style::new())
}
