// The Responses API with the official OpenAI client: an answer, a stream, a tool loop.
//
//     npm install openai
//     TOLLGATE_API_KEY=$(ctl key create example --quiet) node responses.mjs
import process from "node:process";
import OpenAI from "openai";

const client = new OpenAI({
  baseURL: process.env.TOLLGATE_BASE_URL ?? "http://127.0.0.1:8080/v1",
  apiKey: process.env.TOLLGATE_API_KEY,
});
const model = process.env.TOLLGATE_MODEL ?? "sim-chat";

let answer = await client.responses.create({ model, input: "Say hello." });
console.log("answer:", answer.output_text);

process.stdout.write("stream: ");
for await (const event of await client.responses.create({ model, input: "Count to three.", stream: true })) {
  if (event.type === "response.output_text.delta") process.stdout.write(event.delta);
}
console.log();

const tools = [
  {
    type: "function",
    name: "get_weather",
    description: "Tells the weather in a city",
    parameters: {
      type: "object",
      properties: { city: { type: "string" } },
      required: ["city"],
      additionalProperties: false,
    },
    strict: true,
  },
];
answer = await client.responses.create({ model, input: "Use get_weather for Paris.", tools });
for (;;) {
  const calls = answer.output.filter((item) => item.type === "function_call");
  if (calls.length === 0) break;
  for (const call of calls) console.log("call:", call.name, JSON.parse(call.arguments));
  const input = calls.map((call) => ({
    type: "function_call_output",
    call_id: call.call_id,
    output: "sunny, 24 °C",
  }));
  // The gateway stores the conversation: `previous_response_id` refers to it instead of sending it
  // again.
  answer = await client.responses.create({ model, input, tools, previous_response_id: answer.id });
}
console.log("after the call:", answer.output_text);
