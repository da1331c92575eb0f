// The same texts through llama.cpp's tokenizer (npm package node-llama-cpp): node reference.mjs MODEL.gguf TEXT..., in a folder where the package is
// installed. Prints what bench_tokenizer prints: name, bytes, tokens, best CPU milliseconds of the rounds.
import { readFileSync, statSync } from "node:fs";
import { basename } from "node:path";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const rounds = 7;
const entry = createRequire(process.cwd() + "/").resolve("node-llama-cpp");
const { getLlama, LlamaLogLevel } = await import(pathToFileURL(entry).href);
const llama = await getLlama({ gpu: false, build: "never", logLevel: LlamaLogLevel.error });
const [path, ...texts] = process.argv.slice(2);

// Of the whole process, which does nothing else meanwhile.
const cpuMs = () => { const used = process.cpuUsage(); return (used.user + used.system) / 1000; };
const print = (name, bytes, tokens, ms) => console.log(`${name}\t${bytes}\t${tokens}\t${ms.toFixed(2)}`);

let model, load = Infinity;
for (let round = 0; round < rounds; ++round) {
  await model?.dispose();
  const begin = cpuMs();
  model = await llama.loadModel({ modelPath: path, vocabOnly: true });
  load = Math.min(load, cpuMs() - begin);
}
print("(load)", statSync(path).size, 0, load);
for (const file of texts) {
  const text = readFileSync(file, "utf8");
  let best = Infinity, ids = [];
  for (let round = 0; round < rounds; ++round) {
    const begin = cpuMs();
    ids = model.tokenize(text, false);
    best = Math.min(best, cpuMs() - begin);
  }
  print(basename(file), Buffer.byteLength(text), ids.length, best);
}
await model.dispose();
process.exit(0);
