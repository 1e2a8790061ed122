//! The translation rules, by the ids that comments and tests of this crate cite.
//!
//! "Chat" is the chat completions API of the upstream, "Responses" the Responses API of the client.
//! A *dialect* is the [`Dialect`](crate::dialect::Dialect) of the upstream, a *loss* an entry of
//! the [`LossReport`](crate::report::LossReport). With [strict
//! options](crate::request::TranslateOptions::strict) a loss is a refusal instead. Refusals are
//! HTTP 400 with the code given here; `param` is the path of the value.
//!
//! Ids are never reused. An id that is missing here (`I-25`, `R-11`) names a rule that is not
//! implemented. Rules marked *(caller)* are the task of the program that embeds this crate; they
//! are listed because code here depends on them.
//!
//! # §0 Principles
//!
//! - **§0.1.1** A response has one id, which the caller generates before it calls the upstream. It
//!   is the same in every event; SDKs raise an error if it changes.
//! - **§0.1.2** The whole request is validated before the upstream is called. Nothing that can be
//!   refused is refused inside a stream.
//! - **§0.1.3** *(caller)* HTTP 200 is sent late: after the first usable chunk or a grace period
//!   (§5.9), so that an upstream error keeps its status.
//! - **§0.1.4** `finish_reason` is not the end of a stream. Usage, text and calls may follow it.
//! - **§0.1.5** Every stream has exactly one terminal event, after all items are closed. A stream
//!   that is cut anywhere ends with `response.failed`.
//! - **§0.1.6** An `output_index` is assigned when an item is announced and never reused. The
//!   terminal event repeats the items of the `output_item.done` events, with the same ids, in
//!   order.
//! - **§0.1.7** A call is not announced before its name is known. Empty strings never overwrite an
//!   id or a name.
//! - **§0.1.8** Consecutive assistant-side items become one assistant message, and tool messages
//!   follow it directly (§2.4).
//! - **§0.1.9** A request with a tool that cannot be converted is refused as a whole (`T-5`).
//! - **§0.1.10** Only fields that the dialect accepts are sent upstream: strict servers refuse
//!   unknown fields.
//!
//! # §1 Request fields
//!
//! `null` means absent for every optional field. A value of the wrong type is `invalid_type`. A
//! body that is not a JSON object, is not UTF-8, or has an object with a duplicate member on a
//! level that is parsed, is `invalid_json`. A field that differs from a known field in letter case
//! only is `unsupported_parameter`.
//!
//! "Echo" means that the response object repeats the value (§4.1).
//!
//! - **Q-1** `model`: a required, non-empty string, otherwise `missing_required_parameter`. The
//!   caller chooses the upstream's name for the model; the response has the client's.
//! - **Q-2** `input` as a string is one user message. An empty string is `invalid_value`.
//! - **Q-3** `input` as an array is translated by §2. A conversation without any chat message is
//!   `invalid_value`.
//! - **Q-4** `input` is required: `missing_required_parameter`.
//! - **Q-5** `instructions`: a string, the first message, with the dialect's role for developers.
//!   An empty string is not sent. Echo.
//! - **Q-6** `stream`: default `false`. The upstream is called with the same value.
//! - **Q-7** `stream_options`: an object; the client's value has no effect, and obfuscation is
//!   never sent. A streaming chat request has `stream_options: {"include_usage": true}`.
//! - **Q-8** `max_output_tokens`: an integer of at least 1. Sent as `max_tokens`, or as
//!   `max_completion_tokens` by the OpenAI dialect. The lower of the client's and the caller's cap
//!   is sent. Echo.
//! - **Q-9** `temperature`, `top_p`, `presence_penalty`, `frequency_penalty`: finite numbers, sent
//!   as written and only if present, so that the model's own defaults apply. Echo.
//! - **Q-10** `top_logprobs`: 0 to 20. Above 0, it is sent with `logprobs: true`. Echo.
//! - **Q-11** `include`: `reasoning.encrypted_content` requests `R-9`,
//!   `message.output_text.logprobs` sends `logprobs: true`. The values of hosted tools have no
//!   effect. Any other value is `invalid_value`.
//! - **Q-12** `tools`: §3. Echo.
//! - **Q-13** `tool_choice`: §3.6. Echo.
//! - **Q-14** `parallel_tool_calls`: a boolean, sent only if tools are sent, because servers refuse
//!   it otherwise. Echo, default `true`.
//! - **Q-15** `max_tool_calls`: an integer of at least 1. It limits hosted tools, of which there
//!   are none. Echo only.
//! - **Q-16** `reasoning.effort`: a string, sent as `reasoning_effort` without validation, since
//!   clients add values faster than servers. Echo.
//! - **Q-17** `reasoning.summary`, `reasoning.generate_summary`: strings. Echo only, both as
//!   `summary`.
//! - **Q-18** `reasoning.context`, `reasoning.mode`: echo only.
//! - **Q-19** `text.format` of type `text`, or absent: no `response_format` is sent.
//! - **Q-20** `text.format` of type `json_object`: `response_format: {"type": "json_object"}`.
//! - **Q-21** `text.format` of type `json_schema`: `name`, `schema`, `strict` and `description`
//!   move into `response_format.json_schema`; absent keys stay absent. `name` and `schema` are
//!   required. Another type is `invalid_value`.
//! - **Q-22** `text.verbosity`: a string, sent as `verbosity` if the dialect or the model accepts
//!   it; otherwise a loss (`field_ignored`) unless it is `medium`. Echo.
//! - **Q-23** `service_tier`: a string, sent by the OpenAI dialect; otherwise a loss
//!   (`field_ignored`) unless it is `auto` or `default`. The response has the upstream's value, or
//!   `default`.
//! - **Q-24** `metadata`: at most 16 strings of at most 512 characters, with keys of at most 64.
//!   Never sent: OpenAI accepts it only with `store: true`. Echo.
//! - **Q-25** `user`, `safety_identifier`, `prompt_cache_key`, `prompt_cache_retention`: strings,
//!   sent by the OpenAI dialect only. Echo, also of `prompt_cache_options`.
//! - **Q-26** `store`: a boolean. A response is to be stored unless `store` is `false` or the store
//!   is off. Echo of the effective value.
//! - **Q-27** `previous_response_id`: a string. The stored items of the previous responses precede
//!   the input. With the store off it is `unsupported_parameter`, since the model would answer
//!   without its history. An error in a stored item has the param `previous_response_id`. Echo.
//! - **Q-28** `conversation`: `unsupported_parameter`.
//! - **Q-29** `prompt`: `unsupported_parameter`.
//! - **Q-30** `background: true`: `unsupported_parameter`. Echo `false`.
//! - **Q-31** `truncation`: `auto` or `disabled`, otherwise `invalid_value`. Nothing is truncated.
//!   Echo.
//! - **Q-32** `context_management`, `moderation`, `access_programs`, `image`:
//!   `unsupported_parameter`, because they request work of the server.
//! - **Q-33** `client_metadata`: ignored without a loss; Codex sends it with every request.
//! - **Q-34** The chat fields `messages`, `max_tokens`, `max_completion_tokens`, `response_format`,
//!   `functions`, `function_call`, `n`, `stop`, `seed`, `logit_bias`: `unsupported_parameter`; the
//!   message names the Responses equivalent. Ignoring them would lose structured output silently.
//! - **Q-35** Other fields are not sent and are a loss (`field_ignored`).
//!
//! # §2 Input items
//!
//! ## §2.1 Messages and content parts
//!
//! - **I-1** An item without `type` but with `role` is a message. An item with nothing but `id` is
//!   an `item_reference`. Any other item without `type` is `invalid_value`.
//! - **I-2** Roles are `user`, `assistant`, `system` and `developer`; others are `invalid_value`.
//! - **I-3** `system` and `developer` messages have the dialect's role for developers: `developer`
//!   for OpenAI, `system` otherwise.
//! - **I-4** `instructions` and the system and developer messages before the first other message
//!   become one message. Texts are joined by a blank line; if there is a part other than text, the
//!   content is an array. Chat templates of some models accept one leading system message only.
//! - **I-5** A later system or developer message keeps its position (generic, OpenAI, Ollama), or
//!   is merged into the leading one (vLLM, llama.cpp, SGLang), because strict templates refuse it
//!   elsewhere.
//! - **I-6** Content is a string, or an array of parts. Parts that are all text become one string,
//!   concatenated without a separator, because many servers mishandle arrays.
//! - **I-7** Only keys that chat knows are sent: no `id`, `status`, `phase`, `annotations` or
//!   `logprobs`.
//! - **I-8** A user or system message without parts is left out; so is an assistant message without
//!   text, refusal, reasoning and calls.
//!
//! Content parts, by container. A part that is not listed is `unsupported_content_part`.
//!
//! - Text: `input_text`, `output_text` and `text`, in every container.
//! - `refusal`, in assistant messages: appended to the text, or a refusal part for OpenAI.
//! - `input_image`, in messages to the model and in tool results: an `image_url` part. `detail` is
//!   `auto`, `low` or `high`; `original` becomes `high`; others are `invalid_value`. Only
//!   `image_url` is supported, not `file_id`.
//! - `input_file`, in messages to the model and in tool results: a `file` part with `file_data` and
//!   `filename`. `file_id` and `file_url` are unsupported.
//! - `input_audio`, in messages to the model: an `input_audio` part.
//! - `encrypted_content`: unsupported, since the text is unknown.
//!
//! Images, files and audio are refused if the model does not accept them. The model's catalogue
//! entry decides; without one, images are accepted, and files and audio are accepted by the generic
//! and OpenAI dialects.
//!
//! ## §2.2 Calls, results, reasoning and other items
//!
//! - **I-9** `function_call`: a tool call with the wire name of `namespace` and `name` (`T-6`).
//!   `call_id` and `name` must not be empty. `arguments` is sent as written if it is a string, and
//!   as JSON text otherwise; blank arguments are `{}`.
//! - **I-9b** Arguments that are not JSON are wrapped as `{"__invalid_arguments": "…"}`, which is a
//!   loss (`arguments_wrapped`). Servers refuse the whole history otherwise, after an aborted turn
//!   for example.
//! - **I-10** `function_call_output`: a tool message. A string is sent as is, even if it looks like
//!   JSON; an array by §2.3; `null` is an empty string; other values are sent as JSON text.
//!   `output` is required.
//! - **I-11** `custom_tool_call`: a tool call with the arguments `{"input": "…"}`.
//!   `custom_tool_call_output` is read like `I-10`.
//! - **I-11b** An output string that parses as an array of supported parts with at least one image
//!   is read as that array. Codex sends images this way, and base64 text would be billed as tokens.
//! - **I-12** `reasoning`: the text is the opened `encrypted_content` if the sealer can open it,
//!   else the joined `content`, else the joined `summary`. It is sent in the dialect's field of the
//!   turn's assistant message: `reasoning_content` (generic, llama.cpp, SGLang) or `reasoning`
//!   (vLLM, Ollama). Where the dialect has no such field (OpenAI), it is a loss
//!   (`reasoning_dropped`). An item without readable text, such as the blob of another server, is
//!   left out with a note and never refused, not even with strict options.
//! - **I-13** `item_reference`: replaced by the stored item. An unknown id is `invalid_value`; with
//!   the store off it is `unsupported_input_item`.
//! - **I-14** `additional_tools`: adds tools (`T-2`) and no message. `tools` is a required array.
//! - **I-15** `web_search_call` and `image_generation_call` are records without readable content:
//!   `unsupported_input_item`, or left out as a loss (`hosted_tool_omitted`) by the policy of §9.7.
//!   Other items of hosted tools are `unsupported_input_item`.
//! - **I-16** `tool_search_call` and `tool_search_output` are translated (`T-10`) if they have a
//!   `call_id` and their `execution` is `client` or absent; otherwise `unsupported_input_item`.
//! - **I-17** Items of other types, such as `compaction`: `unsupported_input_item`. Leaving out a
//!   compaction would lose the history.
//!
//! ## §2.3 Tool results with parts
//!
//! - **I-18** Parts that are all text become one string.
//! - **I-19** Images and files become parts of the tool message (vLLM). In other dialects tool
//!   messages are text only: the tool message has the text, or `[image attached below]` or `[file
//!   attached below]` if there is none, and the media follow in one user message after the last
//!   tool message of the turn, each after a text part with the call id.
//! - **I-20** That user message never comes between two tool messages of a turn.
//!
//! ## §2.4 The merge algorithm
//!
//! A *turn* is a sequence of assistant-side items: reasoning, assistant messages and calls. A turn
//! becomes one assistant message, followed by its tool messages. Steps, by item:
//!
//! 1. Reasoning is added to the turn. Several texts are joined by a blank line; an exact repeat is
//!    skipped.
//! 2. An assistant message is added to the text of the turn, joined by a newline. If no turn has
//!    begun, and the last turn has a result later in the input, the message is added to that turn:
//!    servers refuse a message between calls and results.
//! 3. A call is added to the turn.
//! 4. A result ends the turn and is attached to its call.
//! 5. A user or system message ends the turn. If the turn has results later in the input, the
//!    message follows their tool messages.
//! 6. The end of the input ends the turn.
//!
//! - **I-21** Tool messages follow their assistant message in the order of its calls, whatever
//!   their order in the input.
//! - **I-22** A result without an unanswered earlier call of its id is `invalid_value`, with the
//!   message of OpenAI's service.
//! - **I-23** A call without a result gets the result `[no output: the call was interrupted]`,
//!   which is a loss (`output_invented`): servers require a result for every call.
//! - **I-24** A repeated `call_id` is made unique by a suffix, which is a loss (`call_id_changed`).
//!   Results are matched in order.
//! - **I-26** An assistant message with calls and no text has `content: null`.
//! - **I-27** Reasoning in a turn without message or call is left out, which is a loss
//!   (`reasoning_dropped`): strict servers refuse a message with reasoning only.
//!
//! # §3 Tools
//!
//! ## §3.1 Declarations
//!
//! - **T-1** A function is nested into `{"type": "function", "function": {…}}`. `name` consists of
//!   1 to 64 letters, digits, `_` and `-`. Absent or empty `parameters` become an object without
//!   properties; an object without `type` gets `"type": "object"`; the schema is unchanged
//!   otherwise. The nested chat shape is accepted too.
//! - **T-1b** `strict` is sent if present and supported by the dialect (generic, OpenAI). Otherwise
//!   `strict: true` is a loss (`strict_not_enforced`). It is never added: models fill every
//!   optional property of a strict schema.
//! - **T-2** Tools come from `tools`, a top-level `additional_tools`, and the `additional_tools`
//!   items and search results in input order. Duplicates by namespace, kind and name keep the first
//!   position and the newest definition: Codex repeats its list with every request.
//! - **T-3** Two different tools with the same wire name are `invalid_value`.
//! - **T-4** `defer_loading: true` (unless found by a search), `async: true`, and `allowed_callers`
//!   without `direct` are treated like an unsupported type. `output_schema` has no effect.
//! - **T-5** Every tool that cannot be converted is named, with its path, in one refusal:
//!   `unsupported_tools`, with the path of the first as `param`, whatever `tool_choice` is.
//!   `function`, `custom`, and at the top level `namespace` and `tool_search` with `execution:
//!   client`, can be converted. Hosted tools (`web_search…`, `computer…`, `file_search`,
//!   `code_interpreter`, `image_generation`, `mcp`, `local_shell`, `shell`, `apply_patch`,
//!   `programmatic_tool_calling`, other `tool_search`), unknown types and a missing type cannot;
//!   §9.7 has an exception.
//!
//! ## §3.2 Namespaces
//!
//! - **T-6** The wire name of a member is `namespace__name`; the name alone if it starts with the
//!   namespace; no second `__` if the namespace ends in one. A wire name of more than 64 characters
//!   is cut to 55 and gets `_` and 8 digits of its SHA-256. It is never split again: the plan maps
//!   it back.
//! - **T-7** Call items have the declared name and namespace in all events and in the object;
//!   clients look up calls by both. A call of an undeclared tool is passed on as a function call
//!   under the name that the model used.
//!
//! ## §3.3 Custom tools and tool search
//!
//! - **T-8** A custom tool becomes a function with one string argument, `input`. Its description
//!   explains this and includes the grammar, if there is one. The grammar is not enforced, which is
//!   a loss (`grammar_not_enforced`).
//! - **T-9** A call of a custom tool is a `custom_tool_call`. Its `input` is the argument of that
//!   name, else the only string argument, since models choose other names, else the raw text. A
//!   truncated wrapper is removed too. A call in the native form of chat's custom tools is a
//!   violation, because none was declared.
//! - **T-10** `tool_search` with `execution: client` becomes a function with the tool's own
//!   parameters, or `query` and `limit`. Its calls are `tool_search_call` items with object
//!   arguments. A `tool_search_output` declares the found tools, and its tool message lists their
//!   wire names.
//!
//! ## §3.6 The choice of tools
//!
//! `tool_choice` and `parallel_tool_calls` are sent only with tools.
//!
//! - `auto`, `none` and `required` are sent as they are. `required` without tools is
//!   `invalid_value`.
//! - A `function`, `custom` or `tool_search` choice becomes a named function, in the Responses or
//!   in the chat shape. An undeclared name is `invalid_value`.
//! - `allowed_tools`, with 1 to 128 tools, is sent to OpenAI as such. To others, only the listed
//!   tools are declared, with the `mode` as `tool_choice`. The restriction is enforced: a call of
//!   another tool fails the answer. Hosted tools in the list are skipped by the policy of §9.7.
//! - Other types are `unsupported_tool_choice`.
//! - Where the dialect ignores `tool_choice` (Ollama), nothing is sent: `none` removes the tools,
//!   and a required or named tool is `unsupported_tool_choice`.
//!
//! # §4 The response object
//!
//! ## §4.1 Members
//!
//! All members are always present, because strict clients require them: `id`, `object`,
//! `created_at`, `completed_at` (only with status `completed`, else `null`), `status`, `error`,
//! `incomplete_details`, `model`, `output`, `usage`, `service_tier`, and the echo.
//!
//! The echo has the request's value, or else: `null` for `instructions`, `max_output_tokens`,
//! `max_tool_calls`, `previous_response_id`, `safety_identifier` and `prompt_cache_key`; `true` for
//! `parallel_tool_calls`; 1 for `temperature` and `top_p`; 0 for the penalties and `top_logprobs`;
//! `auto` for `tool_choice`; `disabled` for `truncation`; `{}` for `metadata`; `[]` for `tools`.
//! `store` is the effective value, `background` is `false`. `reasoning` has `effort` and `summary`,
//! `text` has a `format`. Function tools and schema formats are completed with all their keys.
//! Tools of `additional_tools` are not part of the echo. `user`, `prompt_cache_retention` and
//! `prompt_cache_options` are present only if sent.
//!
//! ## §4.2 Output items
//!
//! Items are in the order in which the upstream produced them. A chunk, and a non-streaming
//! message, is read in the order reasoning, text, refusal, calls. Streaming and non-streaming
//! answers have the same items.
//!
//! - **R-1** A message item needs text or a refusal. An answer without any item gets a message with
//!   an empty `output_text`.
//! - **R-2** An `output_text` part always has `annotations` and `logprobs`.
//! - **R-3** A refusal is a part of type `refusal`, the second one if text precedes it. It does not
//!   change the status.
//! - **R-4** URL citations are flattened; other annotations are dropped.
//! - **R-5** A `function_call` has string arguments; blank arguments end in `{}`, a value other
//!   than a string becomes JSON text.
//! - **R-6** A `custom_tool_call` has `input` in place of arguments (`T-9`).
//! - **R-8** Reasoning is read from the first of `reasoning_content`, `reasoning`,
//!   `reasoning_details` and `thinking` with text in this chunk, because servers repeat the text.
//!   [`ReasoningOutput`](crate::plan::ReasoningOutput) decides where it appears.
//! - **R-9** `encrypted_content` is present only on request (`Q-11`): the text as sealed by the
//!   caller's [`ReasoningSealer`](crate::plan::ReasoningSealer), so that a stateless client can
//!   send it back.
//! - **R-10** Item ids are a prefix and 32 hexadecimal digits, generated from the seed, and unique
//!   per response. A `call_id` of the upstream is kept if it has 1 to 64 characters and is new in
//!   this response, because SDKs refuse two calls with one id; otherwise one is generated.
//! - **R-12** Only the choice with index 0 is read; an absent index is 0. A non-streaming answer
//!   without it is a violation.
//! - **R-13** A `function_call` member is read as the only tool call.
//! - **R-14** Log probabilities are copied only if requested, with all keys; otherwise `[]`.
//!
//! ## §4.3 Status
//!
//! The first `finish_reason` counts, regardless of case. It is read by `domain::wire::finish`.
//!
//! - `stop`, `tool_calls`, and every value that is not listed here: `completed`.
//! - `length`, `max_tokens`, `model_length`, `max_output_tokens`, `max_length`,
//!   `model_context_window_exceeded`: `incomplete`, with the reason `max_output_tokens`.
//! - `content_filter`, `safety`, `refusal`, `sensitive`, `recitation`, `prohibited_content`,
//!   `blocklist`, `spii`: `incomplete`, with the reason `content_filter`.
//! - `error`, `abort`, `aborted`, `cancelled`, `canceled`, `timeout`, `network_error`,
//!   `insufficient_system_resource`, or an `error` in the choice: a violation.
//! - An empty reason: `completed`. A stream ends with it only if `[DONE]` follows, because some
//!   servers send it in every chunk; otherwise the stream was cut.
//! - `null` and `none` are no reason. Without a reason, a stream is a violation, with or without
//!   `[DONE]`. A non-streaming answer is `incomplete`, with `incomplete_details: null`: it has
//!   arrived in full, but its server may have broken it off (Ollama sends `null` when its model
//!   process ends early). Without any choice, it is a violation *(caller)*.
//!
//! The last item of an incomplete answer is `incomplete`, and so is every call in it with
//! incomplete arguments; other items are `completed`.
//!
//! ## §4.4 Usage
//!
//! - **R-7** `usage` always has both detail objects. The caller passes it: the upstream's counts,
//!   read from the first present of the known names (`prompt_tokens` or `input_tokens`, and so on)
//!   by `domain::wire::usage`, and its own count for what is missing. A terminal event without
//!   usage makes clients repeat the request; only `response.failed` may have `usage: null`. The
//!   last usage of a stream counts.
//!
//! # §5 The stream
//!
//! ## §5.1 Format
//!
//! - **S-1** *(caller)* `Content-Type: text/event-stream`, no caching, no compression, a flush per
//!   event.
//! - **S-2** A frame is `event: <type>`, `data: <JSON on one line>`, and a blank line; `event`
//!   equals `type`, and there is no `id`.
//! - **S-3** `sequence_number` starts at 0 and is present in every event.
//! - **S-4** `data: [DONE]` follows the terminal event if
//!   [`Envelope::done_marker`](crate::answer::Envelope::done_marker) is set.
//! - **S-5** Only the `error` event has a top-level member `error`; SDKs raise an error on it.
//!
//! ## §5.2 Events
//!
//! `response.created` and `response.in_progress` come first, with the response without output and
//! usage. Then, for items: `response.output_item.added` and `.done`, `response.content_part.added`
//! and `.done`, `response.output_text.delta`, `.done` and `.annotation.added`,
//! `response.refusal.delta` and `.done`, `response.function_call_arguments.delta` and `.done` (with
//! `name`), `response.custom_tool_call_input.delta` and `.done`, and the reasoning events of `S-9`.
//! At last one of `response.completed`, `response.incomplete` and `response.failed`, the latter
//! after an `error` event.
//!
//! ## §5.3 Event order within an item
//!
//! - Text: item added, part added, deltas, text done, part done, item done. SDKs fail if a part or
//!   an item was not added. A refusal after text is the next part of the same item.
//! - Function call: item added, at least one delta, arguments done, item done. For blank arguments,
//!   the delta `{}` is sent, so that the deltas add up to the arguments.
//! - Custom call: item added, at most one delta, input done, item done. The input is known only
//!   when the wrapper is complete.
//! - Tool search call: item added, item done.
//! - Reasoning: as text, with the names of `S-9`; hidden reasoning has no part.
//!
//! ## §5.4 State machine
//!
//! 1. Blank data, and data after `[DONE]` or the terminal event, is ignored. Data that is not a
//!    chunk is a violation, as is an error, in `error`, with `object: "error"`, or as bare members.
//!    A chunk without `choices` and `usage` is a keep-alive.
//! 2. The first chunk writes `response.created` and `response.in_progress`.
//! 3. The choice with index 0 is read in the order reasoning, text, refusal, calls, finish reason.
//!    Text may be a string or an array of text parts. Empty text opens no item.
//! 4. Text closes an open item of another kind, and so does a call. While a call with incomplete
//!    arguments is open, what follows is queued (`S-8b`).
//! 5. Chunks after the finish reason are read as well.
//! 6. At the end, queued items are opened and closed in order. A call without a name is assigned to
//!    the only declared tool; if there are several, it is a violation. An answer without items gets
//!    an empty message (`R-1`).
//!
//! ## §5.5 Call fragments
//!
//! - **S-6** A fragment belongs to the last call with its `index`. If both have an id, it belongs
//!   to the call with its index and id, or to a new one: some servers send the same index for every
//!   call. A name after complete arguments begins a new call, unless it only repeats the name.
//!   Without an index, a fragment belongs to the call with its id; with a name only it begins a new
//!   call; otherwise it belongs to the last one. There are at most 1,024 calls. In a non-streaming
//!   answer, every entry is a call.
//! - **S-7** The first non-empty id counts. A name fragment is appended if the result is a prefix
//!   of a declared wire name, or the name so far is not; a repeat of the name is ignored.
//! - **S-8** A call is announced if its name is known and arguments have arrived, something is
//!   queued behind it, or the stream has ended; or earlier, if its id is known and its name is that
//!   of a declared tool and no prefix of another. Arguments received before are one delta.
//! - **S-8b** One item is open at a time, because clients assign interleaved argument deltas to the
//!   wrong call. Arguments are complete if they parse as a JSON object; the call is then closed as
//!   soon as another item follows, since clients start to execute it then.
//! - **S-8c** Arguments of a type other than string are serialized. Invalid arguments are passed on
//!   unchanged; in an incomplete answer, the call is `incomplete`.
//!
//! ## §5.6 Text, call, text
//!
//! Text after a call is a new message with the next `output_index`. No item is reopened.
//!
//! ## §5.7 Failures
//!
//! Before the first event, a failure is the caller's HTTP error (§6). After it, open text and
//! reasoning items are closed as `incomplete`; an open or queued call is dropped without a done
//! event, because clients execute a call once it is done. Then come an `error` event, with the
//! members at the top level and again under `error`, since clients look for either, and
//! `response.failed` with the closed items and the usage, if known.
//!
//! *(caller)* The code of a failure is `rate_limit_exceeded`, `insufficient_quota`,
//! `context_length_exceeded`, `invalid_prompt`, `server_is_overloaded`, or else `server_error`. The
//! message includes the retry delay, which clients cannot read from headers then.
//!
//! ## §5.8 Client disconnects
//!
//! *(caller)* The caller stops the upstream and drops the translation.
//!
//! ## §5.9 Timers
//!
//! *(caller)* The caller decides when to call [`start`](crate::answer::ResponseStream::start)
//! before the first chunk, and when to send a [`KeepAlive`](crate::answer::KeepAlive). The gateway
//! does so 5 seconds after the request and after 15 seconds of silence. A keep-alive is a comment,
//! a repeated `response.in_progress` for clients whose timers ignore comments (Codex), or a
//! `keepalive` event. It is never sent before `response.created` or after the terminal event.
//!
//! ## §5.10 Reasoning events
//!
//! - **S-9** Reasoning has the events `response.reasoning_summary_part.added` and `.done` and
//!   `response.reasoning_summary_text.delta` and `.done` by default: the only family that every
//!   client displays. Alternatively, it has `response.reasoning_text.delta` and `.done` within
//!   content part events, or no text at all.
//!
//! # §6 HTTP errors
//!
//! *(caller)* Refusals are 400 with the type `invalid_request_error` and the codes above. A
//! [`ProtocolViolation`](crate::answer::ProtocolViolation) before the first event is 502, unless
//! the upstream reported an error that concerns the request, such as an exceeded context length
//! (400) or rate limit (429). A 4xx status of the upstream is passed on, except 401 and 403, which
//! concern the credential of the gateway and become 502, and 408, which becomes 504.
//!
//! # §9 Policies
//!
//! - **§9.5** The caller may store responses. `store` defaults to true then, and
//!   `previous_response_id` and item references work;
//!   [`input_items`](crate::request::Request::input_items) are the input items to store. With the
//!   store off, `Q-27` and `I-13` are refused.
//! - **§9.7** Hosted tools are refused by default. With
//!   [`HostedTools::Omit`](crate::request::HostedTools::Omit) and without strict options, they are
//!   left out, and each is a loss (`hosted_tool_omitted`). Unknown types are always refused.

#[cfg(test)]
mod tests;
