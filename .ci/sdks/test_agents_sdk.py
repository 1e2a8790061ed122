"""Tests of the OpenAI Agents SDK on the Responses API, against the gateway and its simulator."""

import asyncio

import pytest
from agents import (
    Agent,
    ModelSettings,
    OpenAIResponsesModel,
    Runner,
    SQLiteSession,
    function_tool,
    set_tracing_disabled,
)
from openai import AsyncOpenAI
from pydantic import BaseModel

set_tracing_disabled(True)


class Report(BaseModel):
    title: str
    score: int


@function_tool
def get_weather(city: str) -> str:
    """Tells the weather in a city."""
    return f"sunny in {city}"


@function_tool
def get_time(zone: str) -> str:
    """Tells the time in a zone."""
    return f"noon in {zone}"


@pytest.fixture
def agent(base_url, api_key):
    def make(**settings):
        client = AsyncOpenAI(base_url=base_url, api_key=api_key, max_retries=0)
        model = OpenAIResponsesModel("sim-chat", client)
        return Agent(name="Tester", instructions="Be brief.", model=model, **settings)

    return make


@pytest.mark.parametrize("store", [False, True], ids=["not-kept", "kept"])
def test_tools_are_run(agent, store):
    tools = [get_weather, get_time]
    weather = agent(tools=tools, model_settings=ModelSettings(store=store))
    result = asyncio.run(Runner.run(weather, "Use get_weather and get_time, please."))
    assert '"sunny in ' in result.final_output and '"noon in ' in result.final_output
    assert result.context_wrapper.usage.requests == 2
    assert result.context_wrapper.usage.total_tokens > 0


def test_tools_are_run_while_streaming(agent):
    async def run():
        result = Runner.run_streamed(agent(tools=[get_weather]), "Use get_weather, please.")
        kinds = [event.name async for event in result.stream_events() if hasattr(event, "name")]
        return kinds, result.final_output

    kinds, output = asyncio.run(run())
    assert kinds == ["tool_called", "tool_output", "message_output_created"]
    assert '"sunny in ' in output


def test_structured_output_is_parsed(agent):
    result = asyncio.run(Runner.run(agent(output_type=Report), "Report on Paris."))
    assert isinstance(result.final_output, Report)


def test_handoff(agent):
    other = agent(handoff_description="Knows better")
    other.name = "Other"
    first = agent(handoffs=[other])
    result = asyncio.run(Runner.run(first, "transfer_to_other"))
    assert result.last_agent is other
    assert result.final_output


def test_session_and_previous_response(agent):
    async def run():
        session = SQLiteSession("tester")
        talker = agent()
        await Runner.run(talker, "Hello!", session=session)
        second = await Runner.run(talker, "And?", session=session)
        third = await Runner.run(
            talker, "So?", previous_response_id=second.last_response_id
        )
        return [second.final_output, third.final_output]

    second, third = asyncio.run(run())
    assert '"And?"' in second and '"So?"' in third
