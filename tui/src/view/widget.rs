//! Widgets shared by the screens.

pub mod area;
pub mod bars;
pub mod chart;
pub mod detail;
pub mod field;
pub mod frame;
pub mod scale;
pub mod status;
pub mod table;
pub mod text;
