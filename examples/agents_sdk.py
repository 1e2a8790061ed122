"""The OpenAI Agents SDK: an agent with a tool, first as one result, then streamed.

    pip install openai-agents
    TOLLGATE_API_KEY=$(ctl key create example --quiet) python agents_sdk.py
"""

import asyncio
import os

from agents import Agent, OpenAIResponsesModel, Runner, function_tool, set_tracing_disabled
from openai import AsyncOpenAI

# By default, the SDK sends traces to OpenAI.
set_tracing_disabled(True)


@function_tool
def get_weather(city: str) -> str:
    """Tells the weather in a city."""
    print("call: get_weather", city)
    return "sunny, 24 °C"


async def main() -> None:
    client = AsyncOpenAI(
        base_url=os.environ.get("TOLLGATE_BASE_URL", "http://127.0.0.1:8080/v1"),
        api_key=os.environ["TOLLGATE_API_KEY"],
    )
    model = OpenAIResponsesModel(os.environ.get("TOLLGATE_MODEL", "sim-chat"), client)
    agent = Agent(name="Weather", instructions="Be brief.", model=model, tools=[get_weather])

    result = await Runner.run(agent, "Use get_weather for Paris.")
    print("answer:", result.final_output)

    print("stream: ", end="")
    streamed = Runner.run_streamed(agent, "Count to three.")
    async for event in streamed.stream_events():
        if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
            print(event.data.delta, end="", flush=True)
    print()


asyncio.run(main())
