// The other side of tools/bench/grammar/run: node-llama-cpp on the same file. Reads lines `plain N SEED` and `masked N SEED`, answers each with
// "tokens seconds". Usage: reference.mjs MODEL GRAMMAR_FILE NODE_MODULES
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [model_path, grammar_path, modules] = process.argv.slice(2);
const entry = createRequire(modules + "/").resolve("node-llama-cpp");
const { getLlama, LlamaGrammarEvaluationState } = await import(pathToFileURL(entry).href);

const llama = await getLlama({ gpu: false, build: "never", maxThreads: 1, logLevel: "error" });
const model = await llama.loadModel({ modelPath: model_path });
const context = await model.createContext({ contextSize: 1024, batchSize: 64, threads: { ideal: 1, min: 1 } });
const sequence = context.getSequence();
const grammar = await llama.createGrammar({ grammar: readFileSync(grammar_path, "utf8") });

async function generate(count, seed, masked) {
  await sequence.clearHistory();
  const options = { temperature: 1, seed, yieldEogToken: true };
  if (masked) options.grammarEvaluationState = new LlamaGrammarEvaluationState({ model, grammar });
  let seen = 0, begin;
  for await (const token of sequence.evaluate([300 + seed, 301, 302, 303], options)) {
    if (seen++ === 0) begin = process.hrtime.bigint();
    if (seen > count || model.isEogToken(token)) break;
  }
  return [seen - 1, Number(process.hrtime.bigint() - begin) / 1e9];
}

console.log("ready");
for await (const line of createInterface({ input: process.stdin })) {
  const [what, count, seed] = line.split(" ");
  console.log((await generate(Number(count), Number(seed), what === "masked")).join(" "));
}
process.exit(0);
