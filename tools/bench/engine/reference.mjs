// The other side of tools/bench/engine/run: node-llama-cpp on the same file. Reads lines `prefill N SEED` and `decode N SEED`, answers each
// with seconds. Usage: reference.mjs MODEL THREADS NODE_MODULES
import { createInterface } from "node:readline";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [model_path, threads_text, modules] = process.argv.slice(2);
const threads = Number(threads_text);
const entry = createRequire(modules + "/").resolve("node-llama-cpp");
const { getLlama } = await import(pathToFileURL(entry).href);

const llama = await getLlama({ gpu: false, build: "never", maxThreads: threads, logLevel: "error" });
const model = await llama.loadModel({ modelPath: model_path });
const context = await model.createContext({ contextSize: 2048, batchSize: 512, threads: { ideal: threads, min: threads } });
const sequence = context.getSequence();

// The same ids as the other side's.
function ids(count, seed) {
  const made = [];
  for (let i = 0; i < count; ++i) made.push(300 + ((seed * 7919 + i * 104729) % 1000));
  return made;
}

async function prefill(count, seed) {
  await sequence.clearHistory();
  const begin = process.hrtime.bigint();
  await sequence.evaluateWithoutGeneratingNewTokens(ids(count, seed));
  return Number(process.hrtime.bigint() - begin) / 1e9;
}

async function decode(count, seed) {
  await sequence.clearHistory();
  let begin, seen = 0;
  for await (const token of sequence.evaluate(ids(4, seed), { temperature: 0, yieldEogToken: true })) {
    if (seen++ === 0) begin = process.hrtime.bigint();
    if (seen > count) break;
  }
  return Number(process.hrtime.bigint() - begin) / 1e9;
}

console.log("ready");
for await (const line of createInterface({ input: process.stdin })) {
  const [what, count, seed] = line.split(" ");
  console.log(what === "prefill" ? await prefill(Number(count), Number(seed)) : await decode(Number(count), Number(seed)));
}
process.exit(0);
