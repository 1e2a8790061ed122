//! Converts requests that create and change keys.

use std::time::Duration;

use proto::v1;

use super::request::{amount, limits, observe, optional_amount, time, unknown};
use crate::control::key_update::{FieldChange, KeyChange};
use crate::control::keys::NewKey;
use domain::ValidationError;
use domain::key::{ClientGone, Translation};

pub(in super::super) fn new_key(request: v1::CreateKeyRequest) -> Result<NewKey, ValidationError> {
    Ok(NewKey {
        label: request.label,
        limits: limits(request.limits),
        spend_cap: optional_amount("spend_cap_usd", &request.spend_cap_usd)?,
        models: request.models,
        translation: translation(request.translation)?,
        client_gone: client_gone(request.client_gone, request.drain_seconds)?,
        expires_at: request.expires_at.map(|end| time("expires_at", &end)).transpose()?,
    })
}

pub(in super::super) fn key_change(
    request: v1::UpdateKeyRequest,
) -> Result<(String, KeyChange), ValidationError> {
    use v1::update_key_request::Expiry;
    let spend_cap = match request.spend_cap_usd.as_deref() {
        None => FieldChange::Keep,
        Some("") => FieldChange::Remove,
        Some(text) => FieldChange::Set(amount("spend_cap_usd", text)?),
    };
    let expires_at = match request.expiry {
        None => FieldChange::Keep,
        Some(Expiry::Never(_)) => FieldChange::Remove,
        Some(Expiry::ExpiresAt(end)) => FieldChange::Set(time("expires_at", &end)?),
    };
    let drain_seconds = request.drain_seconds;
    let client_gone = match request.client_gone {
        None if drain_seconds == 0 => None,
        number => Some(client_gone(number.unwrap_or_default(), drain_seconds)?),
    };
    let change = KeyChange {
        label: request.label,
        observe_limits: observe(request.limits.as_ref()),
        limits: limits(request.limits),
        spend_cap,
        models: request.models.map(|list| list.models),
        translation: request.translation.map(translation).transpose()?,
        client_gone,
        trace_content: request.trace_content,
        expires_at,
    };
    Ok((request.id, change))
}

fn translation(number: i32) -> Result<Translation, ValidationError> {
    match v1::Translation::try_from(number) {
        Ok(v1::Translation::Unspecified | v1::Translation::Lenient) => Ok(Translation::Lenient),
        Ok(v1::Translation::Strict) => Ok(Translation::Strict),
        Ok(v1::Translation::OmitHostedTools) => Ok(Translation::OmitHostedTools),
        Err(_) => Err(unknown("translation", number)),
    }
}

fn client_gone(number: i32, drain_seconds: u64) -> Result<ClientGone, ValidationError> {
    match v1::ClientGone::try_from(number) {
        Ok(v1::ClientGone::Drain) => Ok(ClientGone::Drain(Duration::from_secs(drain_seconds))),
        Ok(_) if drain_seconds > 0 => {
            let message = "`drain_seconds` requires that `client_gone` is drain";
            Err(ValidationError::new("drain_seconds", message))
        }
        Ok(v1::ClientGone::Unspecified | v1::ClientGone::Cancel) => Ok(ClientGone::Cancel),
        Err(_) => Err(unknown("client_gone", number)),
    }
}
