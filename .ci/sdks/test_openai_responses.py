"""Tests of the official OpenAI client on the Responses API, against a gateway and its simulator.

Only `base_url` and `api_key` differ from an application that uses OpenAI.
"""

import asyncio
from typing import Literal

import openai
import pytest
from pydantic import BaseModel, ConfigDict

CHAT = "sim-chat"
REASONER = "sim-reasoner"
both_ways = pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class GetWeather(Strict):
    city: str
    unit: Literal["celsius", "fahrenheit"]


class GetTime(Strict):
    zone: str


ARGUMENTS = {"get_weather": GetWeather, "get_time": GetTime}
TOOLS = [
    {"type": "function", "name": name, "parameters": model.model_json_schema(), "strict": True}
    for name, model in ARGUMENTS.items()
]
# The simulator calls the tools named in the text, in the order of TOOLS.
TWO_TOOLS = "Use get_time and get_weather for Paris, please."


def ask(client, stream, **request):
    """Returns the response, plain or folded from a stream."""
    if not stream:
        return client.responses.create(**request)
    events = list(client.responses.create(stream=True, **request))
    return check_stream(events).response


def check_stream(events):
    """Checks the format of a successful stream, and returns its last event."""
    assert [event.sequence_number for event in events] == list(range(len(events)))
    kinds = [event.type for event in events]
    assert kinds[:2] == ["response.created", "response.in_progress"]
    ends = {"response.completed", "response.incomplete", "response.failed", "error"}
    assert [kind for kind in kinds if kind in ends] == kinds[-1:]
    last = events[-1]
    added = [event.item.id for event in events if event.type == "response.output_item.added"]
    done = [event.item for event in events if event.type == "response.output_item.done"]
    assert added == [item.id for item in done] == [item.id for item in last.response.output]
    assert done == last.response.output
    deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert "".join(deltas) == last.response.output_text
    return last


def check_usage(usage):
    assert usage.input_tokens > 0
    assert usage.output_tokens > 0
    assert usage.total_tokens == usage.input_tokens + usage.output_tokens
    assert usage.input_tokens_details.cached_tokens >= 0
    assert usage.output_tokens_details.reasoning_tokens >= 0


def check_error(error, status, code):
    assert error.status_code == status
    assert error.request_id
    assert set(error.body) == {"message", "type", "param", "code"}
    assert error.code == code


def calls_of(response):
    return [item for item in response.output if item.type == "function_call"]


class TestAnswer:
    @both_ways
    @pytest.mark.parametrize("model", [CHAT, REASONER])
    def test_text(self, client, model, stream):
        answer = ask(client, stream, model=model, instructions="Be brief.", input="Hello!")
        assert answer.id.startswith("resp_")
        assert answer.object == "response"
        assert (answer.status, answer.error, answer.model) == ("completed", None, model)
        assert answer.instructions == "Be brief."
        assert answer.output_text
        check_usage(answer.usage)

    def test_plain_and_streamed_answers_are_equal(self, client):
        request = {"model": REASONER, "input": TWO_TOOLS, "tools": TOOLS}
        plain, streamed = (ask(client, stream, **request) for stream in (False, True))
        without_id = [
            [item.model_dump(exclude={"id"}) for item in answer.output]
            for answer in (plain, streamed)
        ]
        assert without_id[0] == without_id[1]
        assert plain.usage == streamed.usage

    @both_ways
    def test_reasoning_is_summarized_and_sent_back(self, client, stream):
        include = ["reasoning.encrypted_content"]
        request = {"model": REASONER, "include": include, "store": False}
        answer = ask(client, stream, input="Hello!", **request)
        reasoning, message = answer.output
        assert (reasoning.type, message.type) == ("reasoning", "message")
        assert reasoning.summary[0].text
        assert reasoning.encrypted_content
        assert answer.usage.output_tokens_details.reasoning_tokens > 0
        history = [{"role": "user", "content": "Hello!"}, *answer.output]
        again = ask(client, stream, input=[*history, {"role": "user", "content": "And?"}], **request)
        assert again.status == "completed"

    @both_ways
    def test_an_answer_that_is_too_long_is_incomplete(self, client, stream):
        text = "[sim words=50] Hello!"
        answer = ask(client, stream, model=CHAT, input=text, max_output_tokens=16)
        assert answer.status == "incomplete"
        assert answer.incomplete_details.reason == "max_output_tokens"
        assert answer.usage.output_tokens == 16

    def test_a_broken_upstream_answer_is_an_error(self, client):
        text = "[sim say='one two three four' cut=3] Hello!"
        kinds = []
        with pytest.raises(openai.APIError) as caught:
            for event in client.responses.create(model=CHAT, input=text, stream=True):
                kinds.append(event.type)
        assert "response.output_text.delta" in kinds
        assert "response.completed" not in kinds
        assert "upstream" in caught.value.message

    def test_stream_helper(self, client):
        with client.responses.stream(model=CHAT, input="Hello!") as stream:
            deltas = [event.delta for event in stream if event.type == "response.output_text.delta"]
            final = stream.get_final_response()
        assert "".join(deltas) == final.output_text != ""

    def test_twenty_at_once(self, base_url, api_key):
        async def one(client, number):
            text = f"Number {number}"
            if number % 2:
                answer = await client.responses.create(model=CHAT, input=text)
            else:
                async with client.responses.stream(model=CHAT, input=text) as stream:
                    answer = await stream.get_final_response()
            assert f'"{text}"' in answer.output_text  # the answer to this request, not to another one
            return answer.id

        async def all_at_once():
            async with openai.AsyncOpenAI(
                base_url=base_url, api_key=api_key, max_retries=0
            ) as client:
                return await asyncio.gather(*(one(client, number) for number in range(20)))

        assert len(set(asyncio.run(all_at_once()))) == 20


class TestTools:
    @both_ways
    @pytest.mark.parametrize("kept", [False, True], ids=["sent-again", "previous-response"])
    def test_loop(self, client, stream, kept):
        """Question, parallel calls, results, final text."""
        request = {"model": CHAT, "tools": TOOLS, "store": kept}
        answer = ask(client, stream, input=TWO_TOOLS, **request)
        calls = calls_of(answer)
        assert [call.name for call in calls] == ["get_weather", "get_time"]
        for call in calls:
            ARGUMENTS[call.name].model_validate_json(call.arguments, strict=True)
        outputs = [
            {"type": "function_call_output", "call_id": call.call_id, "output": f"of {call.name}"}
            for call in calls
        ]
        if kept:
            request["previous_response_id"] = answer.id
            final = ask(client, stream, input=outputs, **request)
            assert final.previous_response_id == answer.id
        else:
            history = [{"role": "user", "content": TWO_TOOLS}, *answer.output]
            final = ask(client, stream, input=[*history, *outputs], **request)
        assert not calls_of(final)
        assert '"of get_weather", "of get_time"' in final.output_text

    @both_ways
    def test_not_parallel(self, client, stream):
        request = {"model": CHAT, "input": TWO_TOOLS, "tools": TOOLS}
        answer = ask(client, stream, parallel_tool_calls=False, **request)
        assert len(calls_of(answer)) == 1

    @both_ways
    def test_forced(self, client, stream):
        choice = {"type": "function", "name": "get_time"}
        request = {"model": CHAT, "input": "Hello!", "tools": TOOLS}
        [call] = calls_of(ask(client, stream, tool_choice=choice, **request))
        assert call.name == "get_time"

    @both_ways
    def test_custom_tool(self, client, stream):
        text = """[sim tool=note args='{"input": "remember the milk"}'] Go on."""
        tools = [{"type": "custom", "name": "note", "description": "Keeps a note"}]
        answer = ask(client, stream, model=CHAT, input=text, tools=tools)
        [call] = answer.output
        assert (call.type, call.name) == ("custom_tool_call", "note")
        assert call.input == "remember the milk"
        output = {"type": "custom_tool_call_output", "call_id": call.call_id, "output": "kept it"}
        final = ask(
            client, stream, model=CHAT, input=[output], tools=tools, previous_response_id=answer.id
        )
        assert '"kept it"' in final.output_text

    def test_pydantic_tools_are_parsed(self, client):
        tools = [openai.pydantic_function_tool(it, name=name) for name, it in ARGUMENTS.items()]
        answer = client.responses.parse(model=CHAT, input=TWO_TOOLS, tools=tools)
        weather, time = calls_of(answer)
        assert isinstance(weather.parsed_arguments, GetWeather)
        assert isinstance(time.parsed_arguments, GetTime)

    @both_ways
    @pytest.mark.parametrize(
        "tool",
        [
            {"type": "web_search"},
            {"type": "file_search", "vector_store_ids": ["vs_1"]},
            {"type": "code_interpreter", "container": {"type": "auto"}},
            {"type": "image_generation"},
        ],
        ids=lambda tool: tool["type"],
    )
    def test_hosted_tools_are_refused_by_name(self, client, stream, tool):
        with pytest.raises(openai.BadRequestError) as caught:
            client.responses.create(
                model=CHAT, input="Hello!", tools=[*TOOLS, tool], stream=stream
            )
        check_error(caught.value, 400, "unsupported_tools")
        assert caught.value.param == "tools[2]"
        assert tool["type"] in caught.value.message


class Place(Strict):
    name: str
    inhabitants: int


class Report(Strict):
    title: str
    mood: Literal["good", "bad"]
    note: str | None
    places: list[Place]


class TestStructuredOutput:
    def test_parse(self, client):
        answer = client.responses.parse(model=CHAT, input="Report on Paris.", text_format=Report)
        assert isinstance(answer.output_parsed, Report)
        # The client parses leniently; the raw text must satisfy the schema, too.
        Report.model_validate_json(answer.output_text, strict=True)

    def test_stream(self, client):
        with client.responses.stream(
            model=CHAT, input="Report on Paris.", text_format=Report
        ) as stream:
            answer = stream.get_final_response()
        assert isinstance(answer.output_parsed, Report)


class TestState:
    def test_stored_responses_are_read_and_deleted(self, client):
        answer = client.responses.create(model=CHAT, input="Keep this.")
        again = client.responses.retrieve(answer.id)
        assert again.output == answer.output
        items = client.responses.input_items.list(answer.id)
        assert items.data[0].content[0].text == "Keep this."
        client.responses.delete(answer.id)
        with pytest.raises(openai.NotFoundError):
            client.responses.retrieve(answer.id)

    def test_store_false_is_not_stored(self, client):
        answer = client.responses.create(model=CHAT, input="Keep nothing.", store=False)
        with pytest.raises(openai.NotFoundError):
            client.responses.retrieve(answer.id)

    @both_ways
    def test_unknown_previous_response(self, client, stream):
        with pytest.raises(openai.APIStatusError) as caught:
            client.responses.create(
                model=CHAT, input="Hello!", previous_response_id="resp_unknown", stream=stream
            )
        check_error(caught.value, caught.value.status_code, "previous_response_not_found")
        assert 400 <= caught.value.status_code < 500


class TestErrors:
    @both_ways
    def test_unknown_model(self, client, stream):
        with pytest.raises(openai.NotFoundError) as caught:
            client.responses.create(model="no-such-model", input="Hello!", stream=stream)
        check_error(caught.value, 404, "model_not_found")

    def test_foreign_key(self, base_url):
        with openai.OpenAI(base_url=base_url, api_key="sk-of-another-service") as client:
            with pytest.raises(openai.AuthenticationError) as caught:
                client.responses.create(model=CHAT, input="Hello!")
        check_error(caught.value, 401, "invalid_api_key")

    @both_ways
    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("input", 7),
            ("input", [{"role": "robot", "content": "Hello!"}]),
            ("temperature", "hot"),
            ("max_output_tokens", -1),
            ("tools", [{"type": "function"}]),
        ],
    )
    def test_wrong_values(self, client, stream, field, value):
        request = {"model": CHAT, "input": "Hello!", field: value}
        with pytest.raises(openai.BadRequestError) as caught:
            client.responses.create(stream=stream, **request)
        assert caught.value.param.startswith(field)
        assert caught.value.type == "invalid_request_error"

    @both_ways
    def test_busy_upstream(self, client, stream):
        with pytest.raises(openai.InternalServerError):
            client.responses.create(
                model=CHAT, input="[sim status=503] Hello!", stream=stream
            )


class TestModels:
    def test_codex_model_list_requests_are_accepted(self, client):
        asked = client.models.list(extra_query={"client_version": "0.169.0"})
        assert [model.id for model in asked] == [model.id for model in client.models.list()]
