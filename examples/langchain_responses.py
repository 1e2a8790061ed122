"""LangChain over the Responses API: an answer, a stream, a tool loop.

    pip install langchain-openai
    TOLLGATE_API_KEY=$(ctl key create example --quiet) python langchain_responses.py
"""

import os

from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI


@tool
def get_weather(city: str) -> str:
    """Tells the weather in a city."""
    print("call: get_weather", city)
    return "sunny, 24 °C"


model = ChatOpenAI(
    model=os.environ.get("TOLLGATE_MODEL", "sim-chat"),
    base_url=os.environ.get("TOLLGATE_BASE_URL", "http://127.0.0.1:8080/v1"),
    api_key=os.environ["TOLLGATE_API_KEY"],
    use_responses_api=True,
)

print("answer:", model.invoke("Say hello.").text)

print("stream: ", end="")
for chunk in model.stream("Count to three."):
    print(chunk.text, end="", flush=True)
print()

with_tools = model.bind_tools([get_weather])
messages = [HumanMessage("Use get_weather for Paris.")]
answer = with_tools.invoke(messages)
while answer.tool_calls:
    messages += [answer, *(get_weather.invoke(call) for call in answer.tool_calls)]
    answer = with_tools.invoke(messages)
print("after the call:", answer.text)
