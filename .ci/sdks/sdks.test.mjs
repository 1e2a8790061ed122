// Tests of the official OpenAI client for Node and the Vercel AI SDK on the Responses API, against a
// running gateway and its simulator. A missing variable is a failure, never a skip.
import assert from "node:assert/strict";
import process from "node:process";
import { describe, test } from "node:test";
import { createOpenAI } from "@ai-sdk/openai";
import { APICallError, generateText, Output, stepCountIs, streamText, tool } from "ai";
import OpenAI from "openai";
import { zodResponsesFunction, zodTextFormat } from "openai/helpers/zod";
import { z } from "zod";

const baseURL = required("TOLLGATE_BASE_URL");
const apiKey = required("TOLLGATE_API_KEY");
const model = "sim-chat";
const Report = z.object({ title: z.string(), mood: z.enum(["good", "bad"]), score: z.number() });
const Weather = z.object({ city: z.string() });

function required(name) {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set`);
  return value;
}

// the result of the stream helper has no `output_text`
const textOf = ({ output }) => output.flatMap((item) => item.content ?? []).map((part) => part.text).join("");

describe("openai", () => {
  const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 });
  const tools = [{ type: "function", name: "get_weather", parameters: z.toJSONSchema(Weather), strict: true }];

  test("plain and streamed answers are equal", async () => {
    const plain = await client.responses.create({ model, input: "Hello!" });
    assert.match(plain.id, /^resp_/);
    assert.ok(plain.output_text);
    let text = "";
    let last;
    for await (const event of await client.responses.create({ model, input: "Hello!", stream: true })) {
      if (event.type === "response.output_text.delta") text += event.delta;
      last = event;
    }
    assert.equal(last.type, "response.completed");
    assert.equal(text, plain.output_text);
    assert.deepEqual(last.response.usage, plain.usage);
  });

  test("the stream helper folds a stream", async () => {
    const stream = client.responses.stream({ model, input: "Hello!" });
    let text = "";
    stream.on("response.output_text.delta", (event) => (text += event.delta));
    const final = await stream.finalResponse();
    assert.equal(textOf(final), text);
    assert.ok(text);
  });

  test("structured output is parsed, plain and streamed", async () => {
    const request = { model, input: "Report on Paris.", text: { format: zodTextFormat(Report, "report") } };
    const plain = await client.responses.parse(request);
    Report.parse(plain.output_parsed);
    const streamed = await client.responses.stream(request).finalResponse();
    assert.deepEqual(streamed.output_parsed, plain.output_parsed);
  });

  test("a tool defined by a schema gets valid arguments", async () => {
    const made = zodResponsesFunction({ name: "get_weather", parameters: Weather });
    const answer = await client.responses.parse({ model, input: "Use get_weather.", tools: [made] });
    Weather.strict().parse(JSON.parse(answer.output[0].arguments));
  });

  test("a tool loop continues from the previous response", async () => {
    const called = await client.responses.create({ model, input: "Use get_weather.", tools });
    const [call] = called.output;
    assert.deepEqual([call.type, call.name], ["function_call", "get_weather"]);
    Weather.parse(JSON.parse(call.arguments));
    const input = [{ type: "function_call_output", call_id: call.call_id, output: "sunny" }];
    const request = { model, input, tools, previous_response_id: called.id };
    const final = await client.responses.create(request);
    assert.match(final.output_text, /"sunny"/);
    const streamed = await client.responses.stream(request).finalResponse();
    assert.equal(textOf(streamed), final.output_text);
  });

  test("a stored response is read and deleted", async () => {
    const answer = await client.responses.create({ model, input: "Keep this." });
    assert.equal((await client.responses.retrieve(answer.id)).output_text, answer.output_text);
    await client.responses.delete(answer.id);
    await assert.rejects(client.responses.retrieve(answer.id), OpenAI.NotFoundError);
  });

  for (const stream of [false, true]) {
    test(`errors have the right classes${stream ? " when streaming" : ""}`, async () => {
      const ask = (change, other = client) =>
        other.responses.create({ model, input: "Hello!", stream, ...change });
      await assert.rejects(ask({ model: "no-such-model" }), (error) => {
        assert.ok(error instanceof OpenAI.NotFoundError);
        assert.equal(error.code, "model_not_found");
        assert.ok(error.requestID);
        return true;
      });
      await assert.rejects(ask({ tools: [{ type: "web_search" }] }), (error) => {
        assert.ok(error instanceof OpenAI.BadRequestError);
        assert.deepEqual([error.code, error.param], ["unsupported_tools", "tools[0]"]);
        return true;
      });
      await assert.rejects(ask({ input: 7 }), OpenAI.BadRequestError);
      const stranger = new OpenAI({ baseURL, apiKey: "sk-of-another-service", maxRetries: 0 });
      await assert.rejects(ask({}, stranger), OpenAI.AuthenticationError);
      await assert.rejects(ask({ input: "[sim status=503] Hi" }), OpenAI.InternalServerError);
    });
  }
});

describe("ai sdk", () => {
  const tollgate = createOpenAI({ baseURL, apiKey });
  const get_weather = tool({
    description: "Tells the weather in a city",
    inputSchema: Weather,
    execute: async ({ city }) => `sunny in ${city}`,
  });
  const loop = {
    prompt: "Use get_weather, please.",
    tools: { get_weather },
    stopWhen: stepCountIs(3),
    maxRetries: 0,
  };

  for (const name of ["sim-chat", "sim-reasoner"]) {
    test(`${name}: plain and streamed answers are equal`, async () => {
      const request = { model: tollgate(name), prompt: "Hello!", maxRetries: 0 };
      const plain = await generateText(request);
      assert.ok(plain.text);
      assert.equal(plain.finishReason, "stop");
      const streamed = streamText(request);
      let text = "";
      for await (const piece of streamed.textStream) text += piece;
      assert.equal(text, plain.text);
      assert.deepEqual((await streamed.usage).totalTokens, plain.usage.totalTokens);
    });

    // by default the SDK refers to earlier items by `item_reference`
    for (const store of [true, false]) {
      test(`${name}: tool loop, ${store ? "stored" : "not stored"}`, async () => {
        const request = { model: tollgate(name), ...loop, providerOptions: { openai: { store } } };
        const plain = await generateText(request);
        assert.equal(plain.steps.length, 2);
        assert.match(plain.text, /"sunny in /);
        const streamed = streamText(request);
        assert.match(await streamed.text, /"sunny in /);
        assert.equal((await streamed.steps).length, 2);
      });
    }
  }

  test("structured output is parsed", async () => {
    const output = Output.object({ schema: Report });
    const result = await generateText({ model: tollgate(model), prompt: "Report on Paris.", output });
    Report.parse(result.output);
  });

  test("a broken stream is an error", async () => {
    const errors = [];
    const result = streamText({
      model: tollgate(model),
      prompt: "[sim say='one two three four' cut=3] Hi",
      maxRetries: 0,
      onError: ({ error }) => errors.push(error),
    });
    await result.consumeStream();
    assert.notEqual(await result.finishReason.then((it) => it, () => "error"), "stop");
    assert.ok(errors.length > 0);
  });

  test("errors have their status and code", async () => {
    const wrong = generateText({ model: tollgate("no-such-model"), prompt: "Hi", maxRetries: 0 });
    await assert.rejects(wrong, (error) => {
      assert.ok(APICallError.isInstance(error));
      assert.deepEqual([error.statusCode, error.data.error.code], [404, "model_not_found"]);
      return true;
    });
  });
});
