//! No sequence of keys, messages and sizes makes it panic.

use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};
use tui::keymap;
use tui::message::Message;
use tui::model::Link;
use tui::model::record::Tailed;
use tui::update::update;

use crate::sample::{draw, overlong, overview, records, sign_in, snapshot};

/// A small generator of numbers that look random (splitmix64).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % limit as u64).unwrap()
    }

    fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }
}

#[test]
fn random_keys_messages_and_sizes_never_panic() {
    use KeyCode::{
        BackTab, Backspace, Char, Delete, Down, End, Enter, Esc, F, Home, Left, PageDown, PageUp,
        Right, Tab, Up,
    };
    let codes = [
        BackTab,
        Backspace,
        Delete,
        Down,
        End,
        Enter,
        Esc,
        F(1),
        Home,
        Left,
        PageDown,
        PageUp,
        Right,
        Tab,
        Up,
        Char('j'),
        Char('k'),
        Char('G'),
        Char('g'),
        Char('r'),
        Char('?'),
        Char('w'),
        Char('u'),
        Char('é'),
        Char('型'),
        Char('👩'),
        Char('\u{200d}'),
        Char('\u{301}'),
        Char('\u{7}'),
    ];
    let modifiers =
        [KeyModifiers::NONE, KeyModifiers::NONE, KeyModifiers::CONTROL, KeyModifiers::SHIFT];
    for seed in 0..60 {
        let mut numbers = Numbers(seed);
        let mut model = match seed % 3 {
            0 => sign_in(),
            1 => overlong(),
            _ => overview(snapshot(), records(numbers.below(60))),
        };
        for _ in 0..60 {
            let message = match numbers.below(12) {
                0 => Some(Message::Tailed(Tailed {
                    restarted: numbers.below(3) == 0,
                    records: records(numbers.below(60)),
                    dropped: u64::MAX,
                    live: true,
                })),
                1 => Some(Message::LinkChanged(Link::Reconnecting { problem: "型".repeat(99) })),
                2 => Some(Message::SignedOut("型 ".repeat(99))),
                3 => Some(Message::SignedIn("token".into())),
                _ => {
                    let key = KeyEvent::new(numbers.pick(&codes), numbers.pick(&modifiers));
                    keymap::message(model.focus(), &Event::Key(key))
                }
            };
            if let Some(message) = message {
                update(&mut model, message);
            }
            let width = numbers.pick(&[0, 1, 2, 7, 59, 60, 61, 80, 133, 300]);
            let height = numbers.pick(&[0, 1, 2, 5, 15, 16, 17, 24, 61]);
            draw(&model, (width, height));
        }
    }
}
