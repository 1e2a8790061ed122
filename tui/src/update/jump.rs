//! Goes to a time in the request log: the filter of the log gets an `until:` term.

use jiff::civil::{Date, DateTime, Time};
use jiff::{SignedDuration, Timestamp};

use crate::model::form::{Field, Form, FormKind};
use crate::model::overlay::Overlay;
use crate::model::{Model, Screen};

use super::list;
use super::parse::{FieldError, duration};

/// The label of the field.
const TIME: &str = "before";

/// Opens the form.
pub(super) fn open(model: &mut Model) {
    let hint = "14:05, 11-20 14:05, 2026-11-20 or 3h; else the newest";
    let fields = vec![Field::text(TIME, hint, "")];
    let form = Form::new("Go to a time", FormKind::Jump, fields);
    model.overlay = Some(Overlay::Form(Box::new(form)));
}

/// Shows the requests before the time in the form. An empty field shows the newest ones.
pub(super) fn submit(model: &mut Model, form: &Form) -> Result<(), FieldError> {
    let text = form.text(TIME);
    let term = match text {
        "" => None,
        text => Some(format!("until:{}", parse(model, form, text)?)),
    };
    let kept = list::filter(model).split(' ').filter(|it| !it.is_empty());
    let kept = kept.filter(|it| !it.starts_with("until:")).map(str::to_owned);
    let filter: Vec<_> = kept.chain(term).collect();
    if model.screen == Screen::Usage {
        list::set_filter(model, &filter.join(" "));
    }
    Ok(())
}

/// Parses a duration before now, or a local time whose date or day may be left out.
fn parse(model: &Model, form: &Form, text: &str) -> Result<Timestamp, FieldError> {
    let invalid = || (TIME, "a time such as 14:05, 11-20 14:05 or 3h".to_owned());
    let now = model.now.ok_or_else(invalid)?;
    if let Ok(Some(seconds)) = duration(form, TIME, 60) {
        let ago = SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX));
        return now.checked_sub(ago).map_err(|_| invalid());
    }
    let today = now.to_zoned(model.zone.clone()).date();
    let (date, time) = text.split_once([' ', 'T']).unwrap_or(if text.contains(':') {
        ("", text)
    } else {
        (text, "00:00")
    });
    let date = match date.trim() {
        "" => today,
        date => {
            let with_year = format!("{}-{date}", today.year());
            date.parse::<Date>().or_else(|_| with_year.parse()).map_err(|_| invalid())?
        }
    };
    let time: Time = time.trim().parse().map_err(|_| invalid())?;
    let zoned = DateTime::from_parts(date, time).to_zoned(model.zone.clone());
    zoned.map(|it| it.timestamp()).map_err(|_| invalid())
}
