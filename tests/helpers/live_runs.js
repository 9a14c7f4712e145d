// Computes runs of reports as their script does: reads [{live, values}] and writes the bytes of each column, in base64.
"use strict";
const fs = require("fs");
const vm = require("vm");

const [script] = process.argv.slice(2);
const LiveRun = vm.runInThisContext(`${fs.readFileSync(script, "utf8")}\nLiveRun`);
const text = (numbers) => Buffer.from(numbers.buffer, numbers.byteOffset, numbers.byteLength).toString("base64");

(async () => {
  const found = [];
  for (const { live, several } of JSON.parse(fs.readFileSync(0, "utf8"))) {
    const run = await LiveRun.open(live);
    const { largest, ok, column } = await run.first();
    const runs = [];
    for (const values of several) {
      const { t, columns, ...more } = await run.compute(values);
      const numbers = Object.fromEntries(Object.entries(columns).map(([name, each]) => [name, text(each)]));
      const last = more.instants.length - 1;
      const shapes = live.views.map((_, k) => (last < 0 ? [] : [0, last >> 1, last].map((i) => more.shapes(i, k))));
      runs.push({ ...more, t: text(t), columns: numbers, instants: Array.from(more.instants), drawn: null, shapes });
    }
    found.push({ first: { largest: Number.isFinite(largest) ? largest : null, ok, column }, runs });
  }
  process.stdout.write(JSON.stringify(found));
})();
