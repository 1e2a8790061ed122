//! A Responses request in the chat dialect of each upstream that may serve it.

use super::AppState;
use super::Fault;
use super::admit::AdmittedRequest;
use super::authenticate::Principal;
use super::forward::{self, BegunAnswer, ForwardError, Outgoing};
use super::recall::Recalled;
use super::request_copies::RequestCopies;
use crate::upstream::UpstreamError;
use domain::key::Translation;
use domain::model::{Ability, Model};
use domain::refusal::Refusal;
use domain::upstream::Profile;
use domain::wire::conversation::ConversationKey;
use translate::dialect::Dialect;
use translate::plan::ReasoningSealer;
use translate::request::{
    HostedTools, InputModalities, Request, StoredHistory, TranslateOptions, TranslatedRequest,
};

/// A request in the dialect of each upstream that may serve it.
pub(super) struct Translations {
    by_profile: Vec<(Profile, Result<TranslatedRequest, Refusal>)>,
    /// The cap on the output that is sent upstream, in tokens, if the client set none or a higher one; see
    /// [`AdmittedRequest::cap_to_send`].
    cap: Option<u64>,
    /// The key of the conversation, if the client has named it.
    named_conversation: Option<ConversationKey>,
}

// === impl Translations ===

impl Translations {
    /// Translates the request for each upstream that the model is deployed on.
    pub(super) fn new(
        app: &AppState,
        principal: &Principal,
        request: &Request<'_>,
        recalled: Option<&Recalled>,
        model: &Model,
        cap: Option<u64>,
        sealer: &dyn ReasoningSealer,
    ) -> Self {
        let (strict, hosted_tools) = match principal.key.translation {
            Translation::Lenient => (false, HostedTools::Refuse),
            Translation::Strict => (true, HostedTools::Refuse),
            Translation::OmitHostedTools => (false, HostedTools::Omit),
        };
        let catalogue = app.directory.catalogue();
        let mut by_profile = Vec::with_capacity(1);
        for deployment in &model.deployments {
            let Some(upstream) = catalogue.upstreams.get(&deployment.upstream) else { continue };
            if by_profile.iter().any(|(known, _)| *known == upstream.profile) {
                continue;
            }
            let dialect = Dialect::of(upstream.profile);
            let options = TranslateOptions {
                dialect,
                inputs: InputModalities::of(model, dialect),
                verbosity: model.abilities.contains(&Ability::Verbosity),
                strict,
                hosted_tools,
                reasoning: app.responses_policy.reasoning,
                sealer,
                history: match recalled {
                    Some(Recalled { items, references, .. }) => {
                        StoredHistory::Loaded { items, references }
                    }
                    None => StoredHistory::Disabled,
                },
            };
            by_profile.push((upstream.profile, request.translate(&options)));
        }
        let named = request.prompt_cache_key.as_deref().filter(|key| !key.is_empty());
        Self { by_profile, cap, named_conversation: named.map(ConversationKey::of_cache_key) }
    }

    /// Returns the key of the request's conversation.
    fn conversation(&self) -> Option<ConversationKey> {
        self.named_conversation.or_else(|| {
            let translated = self.first().ok()?;
            ConversationKey::of_chat(&translated.chat_body("", None))
        })
    }

    /// Returns the first translation that an upstream can serve.
    pub(super) fn first(&self) -> Result<&TranslatedRequest, Fault> {
        let mut translated = self.by_profile.iter().map(|(_, translated)| translated);
        let Some(first) =
            translated.clone().find(|translated| translated.is_ok()).or(translated.next())
        else {
            return Err(
                UpstreamError::Misconfigured("the model has no deployment".to_owned()).into()
            );
        };
        first.as_ref().map_err(|refusal| refusal.clone().into())
    }

    fn of(&self, profile: Profile) -> Result<&TranslatedRequest, Refusal> {
        match self.by_profile.iter().find(|(known, _)| *known == profile) {
            Some((_, translated)) => translated.as_ref().map_err(Clone::clone),
            // The catalogue changed since it was read.
            None => Err(Refusal::CatalogueChanged),
        }
    }

    /// Sends the request to one deployment after the other, and reports the losses of the one that answers.
    pub(super) async fn forward(
        &self,
        app: &AppState,
        model: &Model,
        stream: bool,
        admitted: AdmittedRequest,
    ) -> Result<BegunAnswer, ForwardError> {
        let account = admitted.open.account();
        let route = forward::route(app, model, || self.conversation());
        let mut begun = forward::forward(app, &route, stream, admitted, |upstream, target| {
            let body = self.of(upstream.profile)?.chat_body(&target.upstream_model, self.cap);
            let body = RequestCopies::count_body(app, account, body);
            Ok(Outgoing { body, edits: Vec::new() })
        })
        .await?;
        match self.of(begun.upstream_client.profile()) {
            Ok(translated) => begun.report(&translated.plan.report),
            Err(refusal) => {
                let (fault, request) = (refusal.into(), begun.request);
                return Err(ForwardError { fault, request });
            }
        }
        Ok(begun)
    }
}
