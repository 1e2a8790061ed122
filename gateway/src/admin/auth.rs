//! Authenticates callers by the token in the metadata entry `authorization: Bearer …`.

use std::net::IpAddr;
use std::sync::Arc;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use prost::Message;
use secrecy::SecretString;
use tonic::metadata::MetadataMap;
use tonic::{Request, Status};

use super::track::CallAddress;
use crate::control::{Caller, Control, ControlError};

const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// Returns the caller.
///
/// # Errors
/// The call has no valid token.
pub(super) async fn caller<M>(
    control: &Arc<Control>,
    request: &Request<M>,
) -> Result<Caller, Status> {
    // The layer authenticates most methods before the message is received.
    if let Some(caller) = request.extensions().get::<Caller>() {
        return Ok(caller.clone());
    }
    authenticate(control, bearer(request.metadata()), address(request)).await
}

/// Returns the caller of a call with these headers.
///
/// # Errors
/// The headers contain no valid token.
pub(super) async fn caller_of_headers(
    control: &Arc<Control>,
    headers: &HeaderMap,
    address: Option<IpAddr>,
) -> Result<Caller, Status> {
    let authorization = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    authenticate(control, authorization.and_then(token), address).await
}

async fn authenticate(
    control: &Arc<Control>,
    token: Option<SecretString>,
    address: Option<IpAddr>,
) -> Result<Caller, Status> {
    let token =
        token.ok_or_else(|| ControlError::Unauthenticated("this call needs a token".into()))?;
    let authenticated = control.authenticate(&token, address).await;
    if let Err(ControlError::Unauthenticated(_)) = authenticated {
        control.note_refused_token(address);
    }
    Ok(authenticated?)
}

/// Returns the client's address; `None` on a Unix socket.
pub(super) fn address<M>(request: &Request<M>) -> Option<IpAddr> {
    request.extensions().get::<CallAddress>().and_then(|address| address.0)
}

/// Returns the caller of a method that needs no token. An invalid token is treated as a missing one.
pub(super) async fn optional_caller<M>(
    control: &Control,
    request: &Request<M>,
) -> Result<Option<Caller>, Status> {
    let Some(token) = bearer(request.metadata()) else { return Ok(None) };
    match control.authenticate(&token, address(request)).await {
        Ok(caller) => Ok(Some(caller)),
        Err(ControlError::Unauthenticated(_) | ControlError::Forbidden(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Returns the caller of a mutating method. If the call has the metadata entry `idempotency-key`, the caller
/// carries the key and the message, so that a repeated call is recognized.
pub(super) async fn mutating_caller<M: Message>(
    control: &Arc<Control>,
    request: &Request<M>,
) -> Result<Caller, Status> {
    let caller = caller(control, request).await?;
    let Some(key) = request.metadata().get(IDEMPOTENCY_KEY) else { return Ok(caller) };
    let method = std::any::type_name::<M>();
    let method = method.rsplit("::").next().unwrap_or(method);
    let message = request.get_ref().encode_to_vec();
    Ok(control.with_idempotency_key(caller, method, key.to_str().unwrap_or_default(), &message)?)
}

fn bearer(metadata: &MetadataMap) -> Option<SecretString> {
    metadata.get("authorization")?.to_str().ok().and_then(token)
}

/// Returns the token of an `authorization` header.
fn token(authorization: &str) -> Option<SecretString> {
    let (scheme, token) = authorization.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim().into())
}
