//! Checks that a model accepts the content parts of a chat request.

use std::ops::ControlFlow;

use domain::model::{Modality, Model};
use domain::refusal::{Refusal, RequestFault};
use domain::wire::content::for_each_part;

/// Refuses the first part that the model does not accept. If the model's entry does not state what it
/// accepts, everything is sent and the body is not inspected.
///
/// # Errors
/// [`RequestFault::UnsupportedContentPart`], which names the part.
pub(super) fn check(model: &Model, body: &[u8]) -> Result<(), Refusal> {
    if model.inputs.is_empty() {
        return Ok(());
    }
    let refused = for_each_part(body, |part| {
        let message = match part.modality() {
            _ if part.kind.is_none() => "a content part must have one `type`, a string".to_owned(),
            Some(modality) if modality != Modality::Text && !model.inputs.contains(&modality) => {
                format!(
                    "model `{}` takes no {}; leave this part out or use another model",
                    model.id,
                    modality.plural()
                )
            }
            _ => return ControlFlow::Continue(()),
        };
        let param = format!("messages[{}].content[{}].type", part.message, part.index);
        let code = RequestFault::UnsupportedContentPart;
        ControlFlow::Break(Refusal::invalid(code, Some(&param), message))
    });
    match refused {
        Some(ControlFlow::Break(refusal)) => Err(refusal),
        Some(ControlFlow::Continue(())) | None => Ok(()),
    }
}
