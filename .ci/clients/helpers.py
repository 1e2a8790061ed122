"""Checks that hold for every model, whichever upstream serves it."""

from types import SimpleNamespace


def user(text):
    return [{"role": "user", "content": text}]


def check_usage(usage):
    assert usage.prompt_tokens > 0
    assert usage.completion_tokens > 0
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens


def check_error(error):
    """Checks that `error` has OpenAI's four keys with OpenAI's types."""
    assert set(error) == {"message", "type", "param", "code"}
    assert isinstance(error["message"], str) and error["message"]
    assert isinstance(error["type"], str) and error["type"]
    assert error["param"] is None or isinstance(error["param"], str)
    assert error["code"] is None or isinstance(error["code"], str)


def check_stream(chunks, model, *, usage):
    """Checks the format of a complete one-choice stream and folds it.

    Returns the text, the tool calls and the finish reason.
    """
    assert {chunk.object for chunk in chunks} == {"chat.completion.chunk"}
    assert {chunk.model for chunk in chunks} == {model}
    assert len({chunk.id for chunk in chunks}) == 1

    if usage:
        *chunks, last = chunks
        assert last.choices == []
        check_usage(last.usage)
    assert all(chunk.usage is None for chunk in chunks)
    # Applications written as `chunk.choices[0]` break on an empty list.
    assert all(len(chunk.choices) == 1 for chunk in chunks)

    choices = [chunk.choices[0] for chunk in chunks]
    assert choices[0].delta.role == "assistant"
    assert [c.finish_reason is not None for c in choices] == [False] * (len(choices) - 1) + [True]
    return SimpleNamespace(
        text="".join(choice.delta.content or "" for choice in choices),
        calls=_tool_calls(choices),
        finish_reason=choices[-1].finish_reason,
    )


def _tool_calls(choices):
    calls = []
    for delta in (call for c in choices for call in c.delta.tool_calls or []):
        if delta.index == len(calls):
            # Only the first delta of a call contains its id, type and name.
            assert delta.id and delta.type == "function" and delta.function.name
            calls.append(SimpleNamespace(id=delta.id, name=delta.function.name, arguments=""))
        # Calls arrive in order, one after another.
        assert delta.index == len(calls) - 1
        calls[-1].arguments += delta.function.arguments or ""
    assert len({call.id for call in calls}) == len(calls)
    return calls
