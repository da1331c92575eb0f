// The same renderings by @huggingface/jinja: node reference.mjs ROWS.jsonl, in a folder where the package is installed. Microseconds, best of many.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
const { Template } = createRequire(process.cwd() + "/")("@huggingface/jinja");

for (const line of readFileSync(process.argv[2], "utf8").split("\n").filter(Boolean)) {
  const row = JSON.parse(line);
  const inputs = row.inputs;  // raise_exception and strftime_now are its own
  let best = 1e9, bytes = 0;
  try {
    const template = new Template(row.source);
    const end = performance.now() + 300;
    for (let run = 0; run < 20 || performance.now() < end; ++run) {
      const begin = performance.now();
      const text = template.render(inputs);
      best = Math.min(best, (performance.now() - begin) * 1000);
      bytes = Buffer.byteLength(text);
    }
    console.log(`${row.name}\t${best.toFixed(2)}\t${bytes}`);
  } catch (error) {
    console.log(`${row.name}\t-\t${String(error.message).slice(0, 60)}`);
  }
}
