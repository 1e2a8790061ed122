//! Whether a model takes what the messages of a chat request hold.

use domain::model::{Modality, Model};
use domain::refusal::{Refusal, RequestFault};
use domain::wire::content::content_parts;

/// Refuses the first part that the model does not take. A model whose entry does not say what it takes is
/// sent everything, and its body is not looked at.
///
/// # Errors
/// [`RequestFault::UnsupportedContentPart`], which names the part.
pub(super) fn check(model: &Model, body: &[u8]) -> Result<(), Refusal> {
    if model.inputs.is_empty() {
        return Ok(());
    }
    let parts = content_parts(body).unwrap_or_default();
    for part in parts {
        let Some(modality) = part.modality() else { continue };
        if modality != Modality::Text && !model.inputs.contains(&modality) {
            let param = format!("messages[{}].content[{}].type", part.message, part.index);
            return Err(Refusal::invalid(
                RequestFault::UnsupportedContentPart,
                Some(&param),
                format!(
                    "model `{}` takes no {}; leave this part out or use another model",
                    model.id,
                    modality.plural()
                ),
            ));
        }
    }
    Ok(())
}
