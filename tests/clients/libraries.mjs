// Client libraries against the daemon with a scripted model (libraries.py has its rules): node libraries.mjs BASE_URL [shapes]. Exits 0 when all checks
// passed. Chat, streams, tools, structured output, responses, messages, embeddings: what a library makes of our replies.
import assert from "node:assert/strict";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { HumanMessage, ToolMessage } from "@langchain/core/messages";
import { ChatOpenAI, OpenAIEmbeddings } from "@langchain/openai";
import { embedMany, generateText, Output, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";

const [base, part] = process.argv.slice(2);
const model = "test-model";
const openai = new OpenAI({ baseURL: `${base}/v1`, apiKey: "k", maxRetries: 0, timeout: 60_000 });
const anthropic = new Anthropic({ baseURL: base, apiKey: "k", maxRetries: 0, timeout: 60_000 });
const local = createOpenAICompatible({ name: "local", baseURL: `${base}/v1`, apiKey: "k", includeUsage: true, supportsStructuredOutputs: true });
const langchain = (more = {}) => new ChatOpenAI({ model, apiKey: "k", configuration: { baseURL: `${base}/v1` }, maxRetries: 0, ...more });
const parameters = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const sunny = "It is sunny in Rome.";
const schema = { type: "object", properties: { name: { type: "string" }, age: { type: "integer" } }, required: ["name", "age"], additionalProperties: false };
const give = "Give me a person.", ann = { name: "Ann", age: 7 };
const ask = "What is the weather in Rome?";

const checks = {
  async "openai: chat with a tool, plain and streamed, to the end"() {
    const tools = [{ type: "function", function: { name: "get_weather", parameters } }];
    const messages = [{ role: "user", content: ask }];
    const reply = await openai.chat.completions.create({ model, messages, tools });
    const [choice] = reply.choices;
    assert.equal(choice.finish_reason, "tool_calls");
    assert.equal(choice.message.tool_calls[0].function.name, "get_weather");
    assert.deepEqual(JSON.parse(choice.message.tool_calls[0].function.arguments), { city: "Rome" });
    const streamed = await openai.chat.completions.stream({ model, messages, tools }).finalChatCompletion();
    assert.deepEqual(JSON.parse(streamed.choices[0].message.tool_calls[0].function.arguments), { city: "Rome" });
    assert.notEqual(streamed.choices[0].message.tool_calls[0].id, choice.message.tool_calls[0].id);
    const last = await openai.chat.completions.create({
      model, tools, messages: [...messages, choice.message, { role: "tool", tool_call_id: choice.message.tool_calls[0].id, content: "sunny" }] });
    assert.equal(last.choices[0].message.content, sunny);
  },

  async "openai: responses, plain, with output_text and usage"() {
    const reply = await openai.responses.create({ model, input: "Say hello.", instructions: "Be brief." });
    assert.equal(reply.output_text, "Hello.");
    assert.equal(reply.status, "completed");
    assert.equal(reply.usage.total_tokens, reply.usage.input_tokens + reply.usage.output_tokens);
  },

  async "openai: responses, streamed with thinking and a tool, to the end"() {
    const tools = [{ type: "function", name: "get_weather", parameters, strict: true }];
    const input = [{ role: "user", content: ask }];
    const stream = openai.responses.stream({ model, input, tools, include: ["reasoning.encrypted_content"] });
    const kinds = new Set();
    for await (const event of stream) kinds.add(event.type);
    const reply = await stream.finalResponse();
    for (const kind of ["response.reasoning_text.delta", "response.function_call_arguments.delta", "response.completed"]) assert(kinds.has(kind), kind);
    const call = reply.output.find((item) => item.type === "function_call");
    assert.deepEqual(JSON.parse(call.arguments), { city: "Rome" });
    const last = await openai.responses.create({ model, tools, input: [...input, ...reply.output, { type: "function_call_output", call_id: call.call_id, output: "sunny" }] });
    assert.equal(last.output_text, sunny);
    await assert.rejects(openai.responses.create({ model, input: "x", previous_response_id: "resp_1" }), (error) => error.status === 400 && error.param === "previous_response_id");
  },

  async "openai: embeddings, whose library asks for base64"() {
    const reply = await openai.embeddings.create({ model, input: ["one", "two and more"] });
    assert.equal(reply.data.length, 2);
    for (const { embedding } of reply.data) assert(Math.abs(embedding.reduce((sum, x) => sum + x * x, 0) - 1) < 1e-5);
    const floats = await openai.embeddings.create({ model, input: "one", encoding_format: "float" });
    floats.data[0].embedding.forEach((x, i) => assert(Math.abs(x - reply.data[0].embedding[i]) < 1e-6));
  },

  async "anthropic: a message, its count, a stop sequence"() {
    const body = { model, max_tokens: 100, messages: [{ role: "user", content: "Say hello." }] };
    const reply = await anthropic.messages.create(body);
    assert.deepEqual(reply.content, [{ type: "text", text: "Hello." }]);
    assert.equal(reply.stop_reason, "end_turn");
    const { max_tokens: _, ...counted } = body;
    const count = await anthropic.messages.countTokens(counted);
    assert.equal(count.input_tokens, reply.usage.input_tokens + reply.usage.cache_read_input_tokens);
    const stopped = await anthropic.messages.create({ ...body, stop_sequences: ["lo"] });
    assert.deepEqual([stopped.stop_reason, stopped.stop_sequence, stopped.content[0].text], ["stop_sequence", "lo", "Hel"]);
    await assert.rejects(anthropic.messages.create({ ...body, model: "no-such" }), (error) => error instanceof Anthropic.NotFoundError && error.error.error.type === "not_found_error");
  },

  async "anthropic: a stream with thinking and a tool, to the end"() {
    const tools = [{ name: "get_weather", input_schema: parameters }];
    const body = { model, max_tokens: 500, tools, thinking: { type: "enabled", budget_tokens: 100 }, messages: [{ role: "user", content: ask }] };
    const reply = await anthropic.messages.stream(body).finalMessage();
    assert.deepEqual(reply.content.map((block) => block.type), ["thinking", "tool_use"]);
    assert(reply.content[0].signature && reply.content[0].thinking);
    assert.deepEqual(reply.content[1].input, { city: "Rome" });
    assert.equal(reply.stop_reason, "tool_use");
    const result = { role: "user", content: [{ type: "tool_result", tool_use_id: reply.content[1].id, content: [{ type: "text", text: "sunny" }] }] };
    const last = await anthropic.messages.create({ ...body, messages: [...body.messages, { role: "assistant", content: reply.content }, result] });
    assert.equal(last.content.at(-1).text, sunny);
  },

  async "ai: text, stream, tools in a loop, embeddings"() {
    const chat = local(model);
    assert.equal((await generateText({ model: chat, prompt: "Say hello." })).text, "Hello.");
    let text = "";
    const stream = streamText({ model: chat, prompt: "Say hello." });
    for await (const part of stream.textStream) text += part;
    assert.equal(text, "Hello.");
    assert((await stream.usage).inputTokens > 0);
    const tools = { get_weather: tool({ description: "weather", inputSchema: z.object({ city: z.string() }), execute: async ({ city }) => (city === "Rome" ? "sunny" : "no") }) };
    const loop = await generateText({ model: chat, prompt: ask, tools, stopWhen: stepCountIs(3) });
    assert.equal(loop.text, sunny);
    assert.equal(loop.steps.length, 2);
    const vectors = await embedMany({ model: local.textEmbeddingModel(model), values: ["one", "two"] });
    assert.equal(vectors.embeddings.length, 2);
  },

  async "langchain: chat, stream, tools, responses, embeddings"() {
    assert.equal((await langchain().invoke("Say hello.")).content, "Hello.");
    let text = "";
    for await (const chunk of await langchain().stream("Say hello.")) text += chunk.content;
    assert.equal(text, "Hello.");
    const bound = langchain().bindTools([{ type: "function", function: { name: "get_weather", parameters } }]);
    const call = await bound.invoke([new HumanMessage(ask)]);
    assert.deepEqual(call.tool_calls[0].args, { city: "Rome" });
    const last = await bound.invoke([new HumanMessage(ask), call, new ToolMessage({ tool_call_id: call.tool_calls[0].id, content: "sunny" })]);
    assert.equal(last.content, sunny);
    assert.equal((await langchain({ useResponsesApi: true }).invoke("Say hello.")).text, "Hello.");
    const vectors = await new OpenAIEmbeddings({ model, apiKey: "k", configuration: { baseURL: `${base}/v1` } }).embedDocuments(["one", "two"]);
    assert.equal(vectors.length, 2);
  },
};

const shapes = {
  async "openai: structured output of chat"() {
    const reply = await openai.chat.completions.parse({
      model, messages: [{ role: "user", content: give }], response_format: { type: "json_schema", json_schema: { name: "person", schema, strict: true } } });
    assert.deepEqual(JSON.parse(reply.choices[0].message.content), ann);
  },

  async "openai: structured output of responses"() {
    const reply = await openai.responses.parse({ model, input: give, text: { format: { type: "json_schema", name: "person", schema, strict: true } } });
    assert.deepEqual(JSON.parse(reply.output_text), ann);
  },

  async "anthropic: structured output of messages"() {
    const reply = await anthropic.messages.create({ model, max_tokens: 100, messages: [{ role: "user", content: give }], output_config: { format: { type: "json_schema", schema } } });
    assert.deepEqual(JSON.parse(reply.content[0].text), ann);
  },

  async "ai: an object"() {
    const reply = await generateText({ model: local(model), prompt: give, output: Output.object({ schema: z.object({ name: z.string(), age: z.number() }) }) });
    assert.deepEqual(reply.output, ann);
  },

  async "langchain: an object"() {
    const reply = await langchain().withStructuredOutput(z.object({ name: z.string(), age: z.number() }), { name: "person", method: "jsonSchema" }).invoke(give);
    assert.deepEqual(reply, ann);
  },
};

let failed = 0;
for (const [name, check] of Object.entries(part === "shapes" ? shapes : checks)) {
  try {
    await check();
    console.log(`passed  ${name}`);
  } catch (error) {
    failed++;
    console.log(`FAILED  ${name}\n${error.stack}`);
  }
}
process.exit(failed ? 1 : 0);
