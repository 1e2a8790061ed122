//! What the live screen and the requests in flight say, at sizes at which it matters.

use tui::message::Message;
use tui::model::{Action, Screen};
use tui::update::update;

use crate::sample::{Sample, act, draw, open};

/// Regression test: panels and figures that had no room were left out without a word.
#[test]
fn the_live_screen_says_what_a_larger_terminal_shows() {
    let mut model = open(Screen::Live, Sample::Normal);
    let mut drawn = |size: (u16, u16)| {
        update(&mut model, Message::Resized(size.0, size.1));
        draw(&model, size).to_string()
    };
    let large = drawn((130, 36));
    assert!(large.contains(" held ") && large.contains("$0.75"), "{large}");
    assert!(large.contains(" waiting ") && !large.contains(" on "), "{large}");
    let usual = drawn((80, 24));
    assert!(usual.contains("Upstreams") && usual.contains("Accounts"), "{usual}");
    assert!(usual.contains(" balances, held, waiting, ttft p90 from 130 columns on "), "{usual}");
    let wide = drawn((130, 22));
    assert!(wide.contains(" accounts, models, upstreams from 23 rows on "), "{wide}");
    let small = drawn((60, 16));
    assert!(small.contains(" more in 130×23 "), "{small}");
    let exact = drawn((130, 23));
    assert!(exact.contains("Upstreams") && !exact.contains("rows on"), "{exact}");
}

#[test]
fn a_late_request_in_flight_has_a_mark_and_a_reason() {
    let mut model = open(Screen::InFlight, Sample::Normal);
    act(&mut model, Action::Detail);
    let drawn = draw(&model, (160, 50)).to_string();
    assert!(drawn.contains("! 1m11s") && !drawn.contains("! 35.5s"), "{drawn}");
    assert!(drawn.contains("longer than 1m00s; too few recent answers"), "{drawn}");
    act(&mut model, Action::Last);
    let drawn = draw(&model, (160, 50)).to_string();
    assert!(!drawn.contains(" late "), "{drawn}");
}
