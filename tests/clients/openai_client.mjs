// The openai library against a running daemon: node openai_client.mjs BASE_URL END_TOKEN_ID. Exits 0 when all checks passed. The daemon serves a
// small model with its real engine; what the model says does not matter here, that it arrives whole does.
import assert from "node:assert/strict";
import OpenAI from "openai";

const [base, endToken] = process.argv.slice(2);
const client = new OpenAI({ baseURL: `${base}/v1`, apiKey: "any", maxRetries: 0, timeout: 120_000 });
const messages = [{ role: "system", content: "Be brief." }, { role: "user", content: "Tell me about the sea." }];
// Long enough to be left in the middle: the model may not choose its end token.
const long = { model: "", messages, temperature: 1, max_tokens: 1500, logit_bias: { [endToken]: -100 } };
const status = async () => (await fetch(`${base}/status`)).json();

async function until(condition, what) {
  const end = Date.now() + 10_000;
  for (;;) {
    if (await condition()) return;
    assert(Date.now() < end, `still not: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

const checks = {
  async "models: list and retrieve"() {
    const ids = [];
    for await (const model of client.models.list()) {
      assert.equal(model.object, "model");
      assert(Number.isInteger(model.created) && model.owned_by);
      ids.push(model.id);
    }
    assert(ids.length >= 1 && ids.every((id) => typeof id === "string" && id));
    assert.equal((await client.models.retrieve(ids[0])).id, ids[0]);
  },

  async "chat: plain, with usage and request id"() {
    const reply = await client.chat.completions.create({ model: "", messages, temperature: 0, max_tokens: 12 });
    assert.equal(reply.object, "chat.completion");
    assert.equal(reply.choices.length, 1);
    assert.equal(reply.choices[0].message.role, "assistant");
    assert.equal(typeof reply.choices[0].message.content, "string");
    assert(["stop", "length"].includes(reply.choices[0].finish_reason));
    assert(reply.usage.prompt_tokens > 5 && reply.usage.completion_tokens >= 1 && reply.usage.completion_tokens <= 12);
    assert.equal(reply.usage.total_tokens, reply.usage.prompt_tokens + reply.usage.completion_tokens);
    assert(reply._request_id, "X-Request-Id");
  },

  async "chat: streamed says what plain says"() {
    const [{ id: model }] = (await client.models.list()).data;
    const body = { model, messages, temperature: 0, max_completion_tokens: 24 };
    const plain = await client.chat.completions.create(body);
    const stream = await client.chat.completions.create({ ...body, stream: true, stream_options: { include_usage: true } });
    let text = "", usage = null;
    const finishes = [], ids = new Set(), roles = [];
    for await (const chunk of stream) {
      assert.equal(chunk.object, "chat.completion.chunk");
      assert.equal(chunk.model, model);
      ids.add(chunk.id);
      if (chunk.usage) usage = chunk.usage;
      for (const choice of chunk.choices) {
        assert.equal(choice.index, 0);
        if (choice.delta.role) roles.push(choice.delta.role);
        text += choice.delta.content ?? "";
        if (choice.finish_reason) finishes.push(choice.finish_reason);
      }
    }
    assert.equal(ids.size, 1);
    assert.deepEqual(roles, ["assistant"]);
    assert.deepEqual(finishes, [plain.choices[0].finish_reason]);
    assert.equal(text, plain.choices[0].message.content);
    for (const key of ["prompt_tokens", "completion_tokens", "total_tokens"]) assert.equal(usage[key], plain.usage[key], key);
  },

  async "chat: the library's own stream helper"() {
    const stream = client.chat.completions.stream({ model: "", messages, temperature: 0, max_tokens: 8 });
    const reply = await stream.finalChatCompletion();
    assert.equal(reply.choices[0].message.content, await stream.finalContent());
    const plain = await client.chat.completions.create({ model: "", messages, temperature: 0, max_tokens: 8 });
    assert.equal(reply.choices[0].message.content, plain.choices[0].message.content);
  },

  async "completions: plain and streamed"() {
    const body = { model: "", prompt: "Once upon a time", temperature: 0, max_tokens: 12 };
    const plain = await client.completions.create(body);
    assert.equal(plain.object, "text_completion");
    assert(plain.usage.completion_tokens <= 12);
    let text = "";
    for await (const chunk of await client.completions.create({ ...body, stream: true })) text += chunk.choices[0]?.text ?? "";
    assert.equal(text, plain.choices[0].text);
  },

  async "abort in mid-stream, the next request is answered at once"() {
    for (let i = 0; i < 5; i++) {
      const before = (await status()).totals;
      const stream = await client.chat.completions.create({ ...long, seed: i, stream: true });
      let finished = false;
      for await (const chunk of stream) {
        finished ||= chunk.choices.some((choice) => choice.finish_reason);
        if (chunk.choices[0]?.delta?.content) break; // leaving the loop aborts the request
      }
      assert(!finished, "it was still in mid-stream");
      const started = Date.now();
      const next = await client.chat.completions.create({ model: "", messages, temperature: 0, max_tokens: 2 });
      assert.equal(next.choices.length, 1);
      assert(Date.now() - started < 5000, `answered after ${Date.now() - started} ms`);
      await until(async () => (await status()).totals.cancelled === before.cancelled + 1, "counted as cancelled");
    }
    await until(async () => (await status()).requests.running === 0, "nothing runs");
    assert.equal((await status()).engine.generation, 1, "one engine all the time");
  },

  async "abort of a plain request by its signal"() {
    const before = (await status()).totals.cancelled;
    const controller = new AbortController();
    const reply = client.chat.completions.create({ ...long, seed: 3 }, { signal: controller.signal });
    await until(async () => (await status()).requests.running === 1, "it runs");
    controller.abort();
    await assert.rejects(reply, OpenAI.APIUserAbortError);
    await until(async () => (await status()).totals.cancelled === before + 1, "counted as cancelled");
  },

  async "errors arrive as the library's classes"() {
    await assert.rejects(client.chat.completions.create({ model: "no-such-model", messages }), (error) => {
      assert(error instanceof OpenAI.NotFoundError);
      assert.equal(error.code, "model_not_found");
      assert.match(error.message, /no-such-model/);
      return true;
    });
    await assert.rejects(client.models.retrieve("no-such-model"), OpenAI.NotFoundError);
    for (const [body, param] of [
      [{ model: "" }, "messages"],
      [{ model: "", messages: "hello" }, "messages"],
      [{ model: "", messages, temperature: "hot" }, "temperature"],
      [{ model: "", messages, max_tokens: -4 }, "max_tokens"],
      [{ model: "", messages, top_p: -1 }, "top_p"],
    ]) {
      for (const stream of [false, true]) {
        await assert.rejects(client.chat.completions.create({ ...body, stream }), (error) => {
          assert(error instanceof OpenAI.BadRequestError, `${error}`);
          assert.equal(error.status, 400);
          assert.equal(error.code, "invalid_request");
          assert(error.param.startsWith(param), `${error.param} is not ${param}`);
          assert(error.requestID, "X-Request-Id");
          return true;
        });
      }
    }
    const tooLong = [{ role: "user", content: "word ".repeat(20_000) }];
    await assert.rejects(client.chat.completions.create({ model: "", messages: tooLong }), (error) => error.code === "context_length_exceeded" && error.status === 400);
  },

  async "twenty at once are all answered"() {
    const replies = await Promise.all(Array.from({ length: 20 }, (_, i) =>
      client.chat.completions.create({ model: "", messages: [{ role: "user", content: `number ${i}` }], temperature: 0, max_tokens: 3 })));
    for (const reply of replies) assert.equal(reply.choices.length, 1);
  },
};

let failed = 0;
for (const [name, check] of Object.entries(checks)) {
  try {
    await check();
    console.log(`passed  ${name}`);
  } catch (error) {
    failed++;
    console.log(`FAILED  ${name}\n${error.stack}`);
  }
}
process.exit(failed ? 1 : 0);
