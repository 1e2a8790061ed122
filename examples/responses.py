"""The Responses API with the official OpenAI client: an answer, a stream, a tool loop.

    pip install openai
    TOLLGATE_API_KEY=$(ctl key create example --quiet) python responses.py
"""

import json
import os

from openai import OpenAI

client = OpenAI(
    base_url=os.environ.get("TOLLGATE_BASE_URL", "http://127.0.0.1:8080/v1"),
    api_key=os.environ["TOLLGATE_API_KEY"],
)
model = os.environ.get("TOLLGATE_MODEL", "sim-chat")

answer = client.responses.create(model=model, input="Say hello.")
print("answer:", answer.output_text)

print("stream: ", end="")
for event in client.responses.create(model=model, input="Count to three.", stream=True):
    if event.type == "response.output_text.delta":
        print(event.delta, end="", flush=True)
print()

tools = [
    {
        "type": "function",
        "name": "get_weather",
        "description": "Tells the weather in a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
            "additionalProperties": False,
        },
        "strict": True,
    }
]
answer = client.responses.create(model=model, input="Use get_weather for Paris.", tools=tools)
while calls := [item for item in answer.output if item.type == "function_call"]:
    for call in calls:
        print("call:", call.name, json.loads(call.arguments))
    outputs = [
        {"type": "function_call_output", "call_id": call.call_id, "output": "sunny, 24 °C"}
        for call in calls
    ]
    # The gateway stores the conversation: `previous_response_id` refers to it instead of sending it
    # again.
    answer = client.responses.create(
        model=model, input=outputs, tools=tools, previous_response_id=answer.id
    )
print("after the call:", answer.output_text)
