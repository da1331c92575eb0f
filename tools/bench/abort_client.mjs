// The openai library under orders from the abort matrix: "start stream|plain MAX_TOKENS TEXT" and "abort" on stdin, one request at a time. Says when
// it aborted, in nanoseconds of the system's monotonic clock, and that the library told its caller so.
import readline from "node:readline";
import OpenAI from "openai";

const client = new OpenAI({ baseURL: process.argv[2], apiKey: "any", maxRetries: 0, timeout: 120_000 });
let controller, settled;

async function request(stream, max_tokens, text, signal) {
  const reply = await client.chat.completions.create({ model: "", messages: [{ role: "user", content: text }], stream, max_tokens }, { signal });
  if (!stream) throw new Error("a plain request was answered");
  for await (const chunk of reply) if (chunk.choices?.[0]?.finish_reason) throw new Error("a stream came to its end");
  return "quietly"; // leaving a stream by its signal just ends the loop
}

console.log("ready");
for await (const line of readline.createInterface({ input: process.stdin })) {
  const [word, kind, max_tokens, text] = line.split(" ");
  if (word === "start") {
    controller = new AbortController();
    settled = request(kind === "stream", Number(max_tokens), text, controller.signal).catch((error) => error);
  } else {
    const at = process.hrtime.bigint();
    controller.abort();
    console.log(`aborted ${at}`);
    const how = await settled;
    const right = how === "quietly" || how instanceof OpenAI.APIUserAbortError;
    console.log(right ? "settled" : `not an abort: ${how?.stack ?? how}`.replaceAll("\n", " "));
  }
}
