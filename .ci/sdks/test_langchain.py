"""Tests of LangChain with `use_responses_api`, against the gateway and its simulator."""

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel


class Report(BaseModel):
    """A report on a city."""

    title: str
    score: int


@tool
def get_weather(city: str) -> str:
    """Tells the weather in a city."""
    return f"sunny in {city}"


@pytest.fixture
def model(base_url, api_key):
    def make(**settings):
        return ChatOpenAI(
            **{"model": "sim-chat", "use_responses_api": True, "max_retries": 0} | settings,
            base_url=base_url,
            api_key=api_key,
        )

    return make


def folded(chunks):
    first, *rest = chunks
    for chunk in rest:
        first += chunk
    return first


def test_plain_and_streamed_answers_are_equal(model):
    plain = model().invoke("Hello!")
    streamed = folded(model().stream("Hello!"))
    assert plain.text == streamed.text != ""
    assert plain.usage_metadata == streamed.usage_metadata
    assert plain.response_metadata["id"].startswith("resp_")


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize("kept", [False, True], ids=["sent-again", "previous-response"])
def test_tool_loop(model, stream, kept):
    settings = {"use_previous_response_id": True} if kept else {}
    with_tools = model(**settings).bind_tools([get_weather])

    def ask(messages):
        return folded(with_tools.stream(messages)) if stream else with_tools.invoke(messages)

    messages = [HumanMessage("Use get_weather for Paris.")]
    answer = ask(messages)
    [call] = answer.tool_calls
    assert call["name"] == "get_weather"
    final = ask([*messages, answer, get_weather.invoke(call)])
    assert not final.tool_calls
    assert '"sunny in ' in final.text


def test_structured_output(model):
    structured = model().with_structured_output(Report, method="json_schema")
    assert isinstance(structured.invoke("Report on Paris."), Report)


def test_reasoning_is_sent_back(model):
    reasoner = model(model="sim-reasoner", reasoning={"effort": "low", "summary": "auto"})
    messages = [HumanMessage("Hello!")]
    answer = reasoner.invoke(messages)
    assert any(block["type"] == "reasoning" for block in answer.content)
    assert reasoner.invoke([*messages, answer, HumanMessage("And?")]).text
