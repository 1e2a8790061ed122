"""The official OpenAI client, with only its base URL and key changed.

    pip install openai
    TOLLGATE_API_KEY=$(ctl key create example --quiet) python chat.py
"""

import os

from openai import OpenAI

client = OpenAI(
    base_url=os.environ.get("TOLLGATE_BASE_URL", "http://127.0.0.1:8080/v1"),
    api_key=os.environ["TOLLGATE_API_KEY"],
)

print("models:", ", ".join(model.id for model in client.models.list()))

messages = [{"role": "user", "content": "Say hello."}]
answer = client.chat.completions.create(model="sim-chat", messages=messages)
print("answer:", answer.choices[0].message.content)
print("tokens:", answer.usage.total_tokens)

print("stream: ", end="")
for chunk in client.chat.completions.create(model="sim-chat", messages=messages, stream=True):
    print(chunk.choices[0].delta.content or "", end="", flush=True)
print()
