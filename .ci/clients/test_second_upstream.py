"""Tests of the official OpenAI client, through the gateway, against a third-party server.

TOLLGATE_SECOND_MODEL is the gateway's name for the model of ../second-upstream. Its weights are
random, so the text has no meaning, but llama.cpp, not the simulator, counts the tokens and enforces
limits and grammars.
"""

from typing import Literal

import openai
import pytest
from helpers import check_error, check_stream, check_usage, user
from pydantic import BaseModel, ConfigDict

# Greedy sampling, so that the same question has the same answer.
GREEDY = {"temperature": 0, "max_tokens": 16}


# No strings and no numbers: random weights would rarely end them.
class Forecast(BaseModel):
    model_config = ConfigDict(extra="forbid")
    unit: Literal["celsius", "fahrenheit"]
    windy: bool


TOOLS = [openai.pydantic_function_tool(Forecast, name="get_forecast")]
# Random weights never choose a tool. `required` makes llama.cpp insist on a
# call but lets text come first; the bias asks for token 3, which opens a call
# (see make_gguf.py), and even more for token 2, the end, once that is allowed.
CALL = {
    "tools": TOOLS,
    "tool_choice": "required",
    "parallel_tool_calls": False,
    "logit_bias": {"2": 100, "3": 90},
    "temperature": 0,
    "max_tokens": 200,
}


def test_listed(client, second_model):
    assert second_model in {model.id for model in client.models.list()}
    assert client.models.retrieve(second_model).id == second_model


def test_plain(client, second_model):
    answer = client.chat.completions.create(
        model=second_model, messages=user("Hello, wörld!"), **GREEDY
    )
    assert answer.id
    assert answer.object == "chat.completion"
    assert answer.model == second_model
    [choice] = answer.choices
    assert choice.message.role == "assistant"
    # A token of this model is one character.
    assert len(choice.message.content) == 16
    assert choice.finish_reason == "length"
    check_usage(answer.usage)
    assert answer.usage.completion_tokens == 16


@pytest.mark.parametrize("usage", [False, True], ids=["without-usage", "with-usage"])
def test_stream(client, second_model, usage):
    ask = dict(model=second_model, messages=user("Hello, wörld!"), **GREEDY)
    options = {"stream_options": {"include_usage": True}} if usage else {}
    chunks = list(client.chat.completions.create(stream=True, **ask, **options))
    streamed = check_stream(chunks, second_model, usage=usage)
    assert streamed.finish_reason == "length"
    # Nothing is lost or duplicated.
    plain = client.chat.completions.create(**ask)
    assert streamed.text == plain.choices[0].message.content
    if usage:
        assert chunks[-1].usage.completion_tokens == 16
        assert chunks[-1].usage.prompt_tokens == plain.usage.prompt_tokens


def test_stop(client, second_model):
    """The upstream, not the gateway, implements this parameter."""
    ask = dict(model=second_model, messages=user("Hello!"), **GREEDY)
    text = client.chat.completions.create(**ask).choices[0].message.content
    [choice] = client.chat.completions.create(**ask, stop=text[8:10]).choices
    assert choice.finish_reason == "stop"
    assert choice.message.content == text[: text.index(text[8:10])]


def test_structured_output(client, second_model):
    answer = client.chat.completions.parse(
        model=second_model,
        messages=user("Hello!"),
        response_format=Forecast,
        temperature=0,
        max_tokens=200,
    )
    assert isinstance(answer.choices[0].message.parsed, Forecast)


def test_tool_loop(client, second_model):
    messages = user("Hello!")
    answer = client.chat.completions.create(model=second_model, messages=messages, **CALL)
    assert answer.choices[0].finish_reason == "tool_calls"
    called = answer.choices[0].message
    [call] = called.tool_calls
    assert call.function.name == "get_forecast"
    Forecast.model_validate_json(call.function.arguments, strict=True)

    messages += [called, {"role": "tool", "tool_call_id": call.id, "content": "18"}]
    final = client.chat.completions.create(
        model=second_model, messages=messages, tools=TOOLS, **GREEDY
    )
    assert final.choices[0].message.content
    assert not final.choices[0].message.tool_calls


def test_tool_call_stream(client, second_model):
    chunks = client.chat.completions.create(
        model=second_model, messages=user("Hello!"), stream=True, **CALL
    )
    answer = check_stream(list(chunks), second_model, usage=False)
    assert answer.finish_reason == "tool_calls"
    [call] = answer.calls
    assert call.name == "get_forecast"
    Forecast.model_validate_json(call.arguments, strict=True)


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
def test_upstream_refuses(client, second_model, stream):
    """llama.cpp's errors lack `param` and have a numeric `code`; the gateway's have OpenAI's format."""
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(
            model=second_model, messages=user("far too long " * 1000), stream=stream
        )
    check_error(caught.value.body)
