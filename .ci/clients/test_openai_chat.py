"""Tests of the official OpenAI client against a running gateway and its simulator.

Only `base_url` and `api_key` differ from an application that uses OpenAI.
"""

import asyncio
import json
from typing import Literal

import openai
import pytest
from helpers import check_error, check_stream, check_usage, user
from pydantic import BaseModel, ConfigDict

CHAT = "sim-chat"
REASONER = "sim-reasoner"


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class GetWeather(Strict):
    city: str
    unit: Literal["celsius", "fahrenheit"]
    days: int


class GetTime(Strict):
    zone: str


ARGUMENTS = {"get_weather": GetWeather, "get_time": GetTime}
TOOLS = [openai.pydantic_function_tool(model, name=name) for name, model in ARGUMENTS.items()]
# The simulator calls the tools named in the text, in the order of TOOLS.
ONE_TOOL = user("Use get_weather for Paris, please.")
TWO_TOOLS = user("Use get_time and get_weather for Paris, please.")
NO_TOOL = user("Tell me about Paris, please.")


def check_arguments(name, arguments):
    """Checks that the arguments are JSON that satisfies the tool's schema."""
    ARGUMENTS[name].model_validate_json(arguments, strict=True)


class TestModels:
    def test_list(self, client):
        models = {model.id: model for model in client.models.list()}
        assert {CHAT, REASONER} <= set(models)
        for model in models.values():
            assert model.object == "model"
            assert model.created > 0
            assert model.owned_by

    def test_retrieve(self, client):
        listed = {model.id: model for model in client.models.list()}
        assert client.models.retrieve(CHAT) == listed[CHAT]

    def test_retrieve_unknown(self, client):
        with pytest.raises(openai.NotFoundError) as caught:
            client.models.retrieve("no-such-model")
        assert caught.value.code == "model_not_found"
        check_error(caught.value.body)


class TestPlain:
    @pytest.mark.parametrize("model", [CHAT, REASONER])
    def test_answer(self, client, model):
        answer = client.chat.completions.create(
            model=model,
            messages=[{"role": "system", "content": "Be brief."}, *user("Hello!")],
        )
        assert answer.id
        assert answer.object == "chat.completion"
        assert answer.created > 0
        assert answer.model == model
        [choice] = answer.choices
        assert choice.index == 0
        assert choice.finish_reason == "stop"
        assert choice.message.role == "assistant"
        assert choice.message.content
        assert not choice.message.tool_calls
        check_usage(answer.usage)

    def test_ids_differ(self, client):
        answers = [
            # the simulator gives the same request the same answer, including the id
            client.chat.completions.create(model=CHAT, messages=user(text))
            for text in ("Hello!", "Hello again!")
        ]
        assert answers[0].id != answers[1].id

    def test_reasoning(self, client):
        # Not part of OpenAI's API: the client returns it as an extra field.
        answer = client.chat.completions.create(model=REASONER, messages=user("Hello!"))
        assert answer.choices[0].message.reasoning_content


class TestStream:
    @pytest.mark.parametrize("model", [CHAT, REASONER])
    @pytest.mark.parametrize(
        ("options", "usage"),
        [
            ({}, False),
            ({"stream_options": {"include_usage": False}}, False),
            ({"stream_options": {"include_usage": True}}, True),
        ],
    )
    def test_answer(self, client, model, options, usage):
        chunks = client.chat.completions.create(
            model=model, messages=user("Hello!"), stream=True, **options
        )
        answer = check_stream(list(chunks), model, usage=usage)
        assert answer.text
        assert not answer.calls
        assert answer.finish_reason == "stop"

    def test_reasoning_comes_first(self, client):
        chunks = client.chat.completions.create(
            model=REASONER, messages=user("Hello!"), stream=True
        )
        deltas = [chunk.choices[0].delta for chunk in chunks]
        reasoning = [i for i, d in enumerate(deltas) if getattr(d, "reasoning_content", None)]
        content = [i for i, d in enumerate(deltas) if d.content]
        assert reasoning and content
        assert max(reasoning) < min(content)

    def test_wire_format(self, http):
        """The client hides the content type and the `[DONE]` marker."""
        body = {"model": CHAT, "messages": user("Hello!"), "stream": True}
        with http.stream("POST", "chat/completions", json=body) as response:
            response.read()
        assert response.status_code == 200
        assert response.headers["content-type"].split(";")[0] == "text/event-stream"
        events = [line for line in response.text.splitlines() if line.startswith("data:")]
        assert events.pop() == "data: [DONE]"
        for event in events:
            json.loads(event.removeprefix("data:"))


class TestTools:
    @pytest.mark.parametrize(
        ("messages", "options", "names"),
        [
            (ONE_TOOL, {}, ["get_weather"]),
            (ONE_TOOL, {"tool_choice": "auto"}, ["get_weather"]),
            (TWO_TOOLS, {}, ["get_weather", "get_time"]),
            (TWO_TOOLS, {"parallel_tool_calls": True}, ["get_weather", "get_time"]),
            (TWO_TOOLS, {"parallel_tool_calls": False}, ["get_weather"]),
            (
                NO_TOOL,
                {"tool_choice": {"type": "function", "function": {"name": "get_time"}}},
                ["get_time"],
            ),
        ],
        ids=["default", "auto", "parallel", "parallel-asked", "not-parallel", "forced"],
    )
    @pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
    def test_calls(self, client, messages, options, names, stream):
        calls = self.calls(client, stream, messages, **options)
        assert [name for name, _ in calls] == names
        for name, arguments in calls:
            check_arguments(name, arguments)

    @pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
    def test_required(self, client, stream):
        # The model chooses the tool.
        calls = self.calls(client, stream, NO_TOOL, tool_choice="required")
        assert calls
        for name, arguments in calls:
            check_arguments(name, arguments)

    @staticmethod
    def calls(client, stream, messages, **options):
        answer = client.chat.completions.create(
            model=CHAT, messages=messages, tools=TOOLS, stream=stream, **options
        )
        if stream:
            answer = check_stream(list(answer), CHAT, usage=False)
            assert answer.finish_reason == "tool_calls"
            return [(call.name, call.arguments) for call in answer.calls]
        check_usage(answer.usage)
        [choice] = answer.choices
        assert choice.finish_reason == "tool_calls"
        calls = choice.message.tool_calls
        assert all(call.type == "function" and call.id for call in calls)
        assert len({call.id for call in calls}) == len(calls)
        return [(call.function.name, call.function.arguments) for call in calls]

    @pytest.mark.parametrize(
        ("messages", "options"),
        [(NO_TOOL, {}), (ONE_TOOL, {"tool_choice": "none"})],
        ids=["not-named", "none"],
    )
    def test_no_call(self, client, messages, options):
        answer = client.chat.completions.create(
            model=CHAT, messages=messages, tools=TOOLS, **options
        )
        [choice] = answer.choices
        assert choice.finish_reason == "stop"
        assert choice.message.content
        assert not choice.message.tool_calls

    def test_stream_helper(self, client):
        """The client's own accumulator also parses the arguments."""
        with client.chat.completions.stream(
            model=CHAT,
            messages=TWO_TOOLS,
            tools=TOOLS,
            stream_options={"include_usage": True},
        ) as stream:
            answer = stream.until_done().get_final_completion()
        check_usage(answer.usage)
        weather, time = answer.choices[0].message.tool_calls
        assert isinstance(weather.function.parsed_arguments, GetWeather)
        assert isinstance(time.function.parsed_arguments, GetTime)

    @pytest.mark.parametrize("messages", [ONE_TOOL, TWO_TOOLS], ids=["one", "parallel"])
    def test_loop(self, client, messages):
        """Question, calls, results, final text: the conversation is sent back unchanged."""
        ask = {"model": CHAT, "tools": TOOLS}
        called = client.chat.completions.create(messages=messages, **ask).choices[0].message
        messages = [*messages, called]
        for call in called.tool_calls:
            messages.append({"role": "tool", "tool_call_id": call.id, "content": '{"ok": true}'})
        final = client.chat.completions.create(messages=messages, **ask)
        [choice] = final.choices
        assert choice.finish_reason == "stop"
        assert choice.message.content
        assert not choice.message.tool_calls
        check_usage(final.usage)

        chunks = client.chat.completions.create(messages=messages, stream=True, **ask)
        streamed = check_stream(list(chunks), CHAT, usage=False)
        assert streamed.text and not streamed.calls
        assert streamed.finish_reason == "stop"


class Place(Strict):
    name: str
    inhabitants: int


class Report(Strict):
    title: str
    mood: Literal["good", "bad"]
    final: bool
    score: float
    note: str | None
    places: list[Place]


class TestStructuredOutput:
    def test_parse(self, client):
        answer = client.chat.completions.parse(
            model=CHAT, messages=user("Report on Paris."), response_format=Report
        )
        message = answer.choices[0].message
        assert isinstance(message.parsed, Report)
        # The client parses leniently; the raw text must satisfy the schema, too.
        Report.model_validate_json(message.content, strict=True)
        check_usage(answer.usage)

    def test_stream(self, client):
        with client.chat.completions.stream(
            model=CHAT, messages=user("Report on Paris."), response_format=Report
        ) as stream:
            answer = stream.until_done().get_final_completion()
        assert isinstance(answer.choices[0].message.parsed, Report)


class TestErrors:
    def test_foreign_key(self, base_url):
        self.check_key(base_url, "sk-of-another-service")

    def test_mistyped_key(self, base_url, api_key):
        self.check_key(base_url, api_key[:-1] + ("a" if api_key[-1] != "a" else "b"))

    @staticmethod
    def check_key(base_url, api_key):
        with openai.OpenAI(base_url=base_url, api_key=api_key) as client:
            with pytest.raises(openai.AuthenticationError) as caught:
                client.chat.completions.create(model=CHAT, messages=user("Hello!"))
        assert caught.value.code == "invalid_api_key"
        assert caught.value.request_id
        check_error(caught.value.body)

    @pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
    def test_unknown_model(self, client, stream):
        with pytest.raises(openai.NotFoundError) as caught:
            client.chat.completions.create(
                model="no-such-model", messages=user("Hello!"), stream=stream
            )
        assert caught.value.code == "model_not_found"
        assert caught.value.request_id
        check_error(caught.value.body)

    @pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
    def test_wrong_type(self, http, stream):
        body = {"model": CHAT, "messages": "x", "stream": stream}
        response = http.post("chat/completions", json=body)
        assert response.status_code == 400
        assert response.headers["x-request-id"]
        assert set(response.json()) == {"error"}
        error = response.json()["error"]
        check_error(error)
        assert error["type"] == "invalid_request_error"

    def test_wrong_type_through_the_client(self, client):
        with pytest.raises(openai.BadRequestError) as caught:
            client.chat.completions.create(model=CHAT, messages="x")
        assert caught.value.request_id
        check_error(caught.value.body)


class TestRequestId:
    def test_on_every_answer(self, client):
        chat = client.chat.completions.with_raw_response
        answers = [
            client.models.with_raw_response.list(),
            client.models.with_raw_response.retrieve(CHAT),
            chat.create(model=CHAT, messages=user("Hello!")),
            chat.create(model=CHAT, messages=user("Hello!"), stream=True),
        ]
        ids = [answer.headers["x-request-id"] for answer in answers]
        assert all(ids)
        assert len(set(ids)) == len(ids)
        # A stream that is not read to its end would keep its connection.
        list(answers[-1].parse())


class TestAsync:
    def test_twenty_at_once(self, base_url, api_key):
        async def plain(client, text):
            answer = await client.chat.completions.create(model=CHAT, messages=user(text))
            assert f'"{text}"' in answer.choices[0].message.content  # the answer to this request, not to another one
            check_usage(answer.usage)
            return answer.id

        async def streamed(client, text):
            stream = await client.chat.completions.create(
                model=CHAT,
                messages=user(text),
                stream=True,
                stream_options={"include_usage": True},
            )
            chunks = [chunk async for chunk in stream]
            assert f'"{text}"' in check_stream(chunks, CHAT, usage=True).text
            return chunks[0].id

        async def all_at_once():
            # A retry would hide a refused request.
            async with openai.AsyncOpenAI(
                base_url=base_url, api_key=api_key, max_retries=0
            ) as client:
                calls = enumerate([plain, streamed] * 10)
                return await asyncio.gather(*(f(client, f"Number {n}") for n, f in calls))

        assert len(set(asyncio.run(all_at_once()))) == 20
