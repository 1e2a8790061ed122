// The Vercel AI SDK, whose OpenAI provider uses the Responses API.
//
//     npm install ai @ai-sdk/openai zod
//     TOLLGATE_API_KEY=$(ctl key create example --quiet) node ai-sdk.mjs
import process from "node:process";
import { createOpenAI } from "@ai-sdk/openai";
import { generateText, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";

const tollgate = createOpenAI({
  baseURL: process.env.TOLLGATE_BASE_URL ?? "http://127.0.0.1:8080/v1",
  apiKey: process.env.TOLLGATE_API_KEY,
});
const model = tollgate(process.env.TOLLGATE_MODEL ?? "sim-chat");

const { text } = await generateText({ model, prompt: "Say hello." });
console.log("answer:", text);

process.stdout.write("stream: ");
for await (const piece of streamText({ model, prompt: "Count to three." }).textStream) {
  process.stdout.write(piece);
}
console.log();

const result = await generateText({
  model,
  prompt: "Use get_weather for Paris.",
  tools: {
    get_weather: tool({
      description: "Tells the weather in a city",
      inputSchema: z.object({ city: z.string() }),
      execute: async ({ city }) => {
        console.log("call: get_weather", { city });
        return "sunny, 24 °C";
      },
    }),
  },
  stopWhen: stepCountIs(5),
});
console.log("after the call:", result.text);
