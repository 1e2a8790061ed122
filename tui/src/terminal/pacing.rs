//! When to draw the next frame, so that a slow link to the terminal stays usable.
//!
//! Over ssh, the program cannot see how much of its output is still on the way: everything that it
//! writes is accepted at once, and a key is answered after all of it has arrived. So the frames for
//! which the user has not asked are bounded in bytes per second.

use tokio::time::Instant;

use std::time::Duration;

/// The minimum time between two frames. All changes in between are drawn in one.
const FRAME_INTERVAL: Duration = Duration::from_millis(33);
/// The bytes per second of frames without input of the user: less than half of a link of 20 KB/s.
const BYTES_PER_SECOND: u32 = 8_000;
/// The time whose bytes may be written at once after input of the user or a pause: those of what a
/// new screen loads.
const BURST: Duration = Duration::from_secs(2);
/// The maximum wait of a frame without input of the user, however large the one before was.
const MAX_WAIT: Duration = Duration::from_secs(1);

/// The times of the frames.
#[derive(Clone, Copy, Debug)]
pub struct Pacing {
    /// The time of the next frame after input of the user.
    next: Instant,
    /// The time at which the link has carried all frames since the last input, at
    /// [`BYTES_PER_SECOND`].
    carried: Instant,
    /// Whether there was input since the last frame.
    is_asked: bool,
}

// === impl Pacing ===

impl Pacing {
    /// Returns times whose first frame is due at once.
    pub fn new(now: Instant) -> Self {
        Self { next: now, carried: now, is_asked: true }
    }

    /// Notes input of the user: what it leads to is drawn without a wait.
    pub fn ask(&mut self, now: Instant) {
        self.is_asked = true;
        self.carried = self.carried.min(now);
    }

    /// Notes that a frame with this number of bytes was drawn.
    pub fn drawn(&mut self, bytes: usize, now: Instant) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let carried = self.carried.max(now) + Duration::from_secs(1) * bytes / BYTES_PER_SECOND;
        self.carried = carried.min(now + BURST + MAX_WAIT);
        self.next = now + FRAME_INTERVAL;
        self.is_asked = false;
    }

    /// Returns when the next frame may be drawn.
    pub fn next_frame(&self) -> Instant {
        let unasked = self.carried.checked_sub(BURST).unwrap_or(self.next);
        if self.is_asked { self.next } else { self.next.max(unasked) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Draws each frame as soon as it may be, for a minute. Returns the bytes.
    fn bytes_of_a_minute(frame: usize) -> usize {
        let start = Instant::now();
        let mut pacing = Pacing::new(start);
        let mut bytes = 0;
        while pacing.next_frame() < start + Duration::from_mins(1) {
            bytes += frame;
            pacing.drawn(frame, pacing.next_frame());
        }
        bytes
    }

    #[test]
    fn frames_without_input_are_bounded_in_bytes_per_second() {
        for frame in [300, 2_500, 8_000] {
            let bytes = bytes_of_a_minute(frame);
            assert!((480_000..=510_000).contains(&bytes), "{bytes} in frames of {frame}");
        }
        // small ones are as frequent as those of input
        assert_eq!(bytes_of_a_minute(10), 10 * (60_000 / 33 + 1));
        // a frame of more than a second is followed by others all the same
        assert_eq!(bytes_of_a_minute(100_000), 100_000 * 60);
    }

    #[test]
    fn input_is_answered_without_a_wait_and_so_is_what_it_leads_to() {
        let start = Instant::now();
        let mut pacing = Pacing::new(start);
        pacing.drawn(1_000_000, start);
        assert_eq!(pacing.next_frame(), start + MAX_WAIT);
        pacing.ask(start);
        assert_eq!(pacing.next_frame(), start + FRAME_INTERVAL);
        let mut now = pacing.next_frame();
        for _ in 0..4 {
            pacing.drawn(4_000, now);
            assert_eq!(pacing.next_frame(), now + FRAME_INTERVAL, "what the new screen loads");
            now = pacing.next_frame();
        }
        pacing.drawn(4_000, now);
        assert!(pacing.next_frame() > now + FRAME_INTERVAL * 5);
    }
}
