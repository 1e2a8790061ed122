//! What the user can do with the catalogue.

use secrecy::SecretString;

use crate::effect::Effect;
use crate::keymap::Action;
use crate::model::Model;

/// Copies what one needs to use the model under the cursor.
pub(super) fn act(model: &mut Model, action: Action) -> Vec<Effect> {
    let Some(offer) = model.data.offers.current() else { return Vec::new() };
    let (text, notice) = match action {
        Action::Copy => {
            (offer.curl(&model.base_url).join("\n"), "a curl command is in the clipboard")
        }
        Action::CopyAgent => (
            offer.agent_config(&model.base_url).join("\n"),
            "the command that writes the configuration is in the clipboard",
        ),
        _ => return Vec::new(),
    };
    let text = SecretString::from(text);
    model.say(notice);
    vec![Effect::Copy(text)]
}
