// The run of a report, computed again: in WebAssembly, in a worker, with other numbers of its launch file.
"use strict";

// Rows spread evenly over time, both ends included.
function evenRows(t, n) {
  if (!t.length) return [];
  const [first, last, found] = [t[0], t[t.length - 1], new Set([0, t.length - 1])];
  const many = Math.min(n, t.length);
  let row = 0;
  for (let i = 0; i < many; i += 1) {
    const wanted = first + ((last - first) * i) / Math.max(many - 1, 1);
    while (row < t.length - 1 && t[row] < wanted) row += 1;
    found.add(row);
  }
  return [...found].sort((a, b) => a - b);
}

// What computes a run. It stands alone, since it is the text of a worker too. module: of live.module, compiled.
function runComputer(live, module) {
  const [HEAP, PAGE, MOST] = [65536 + 1048576, 65536, 1e9]; // the stack ends where the heap begins; bytes
  const NANO = 1e9;
  const memory = new WebAssembly.Memory({ initial: HEAP / PAGE + 1 });
  const env = { __linear_memory: memory, __stack_pointer: new WebAssembly.Global({ value: "i32", mutable: true }, HEAP) };
  for (const name of ["sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh", "exp", "log", "pow"]) env[name] = Math[name];
  env.exp2 = (x) => 2 ** x;
  env.memset = (at, value, n) => (new Uint8Array(memory.buffer).fill(value, at, at + n), at);
  env.memcpy = env.memmove = (to, from, n) => (new Uint8Array(memory.buffer).copyWithin(to, from, from + n), to);
  const { exports } = new WebAssembly.Instance(module, { env });
  const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stated = new Float64Array(bytes(live.numbers).buffer);
  const { offsets, layout, texts } = live;
  const slots = HEAP;

  // numbers as Python writes them: "%.4g"
  function shown(value, digits = 6) {
    if (!Number.isFinite(value)) return Number.isNaN(value) ? "nan" : value > 0 ? "inf" : "-inf";
    if (value === 0) return "0";
    const [, mantissa, power] = value.toExponential(digits - 1).match(/^(.*)e(.*)$/);
    const trimmed = (text) => (text.includes(".") ? text.replace(/\.?0+$/, "") : text);
    if (power < -4 || power >= digits) return `${trimmed(mantissa)}e${power < 0 ? "-" : "+"}${String(Math.abs(power)).padStart(2, "0")}`;
    return trimmed(value.toFixed(Math.max(digits - 1 - power, 0)));
  }

  // Why a value cannot be, as Python says it.
  function complaint({ key, unit, title, whole, above, at_least: least }, value) {
    const parts = key.split(".");
    const section = parts.slice(0, parts.length > 2 ? 2 : 1).join(".");
    const problem =
      !Number.isFinite(value) ? `${value} is not a finite number`
      : whole && !Number.isInteger(value) ? `${value} is not a whole number`
      : above !== null && !(value > above) ? `${shown(value)} ${unit} must be greater than ${shown(above)}`
      : least !== null && !(value >= least) ? `${shown(value)} ${unit} must be at least ${shown(least)}`
      : "";
    return problem && `[${section}] ${key.slice(section.length + 1)}: ${problem} (${title})`;
  }

  function refusal({ text, relation }, greater, lesser) {
    let sides = [shown(greater), shown(lesser)];
    for (const digits of [17, 8, 4]) {
      const found = [shown(greater, digits), shown(lesser, digits)];
      if (found[0] !== found[1]) sides = found;
    }
    return `${relation.replace("{0}", sides[0]).replace("{1}", sides[1])}: ${text}`;
  }

  const met = (margin, strict) => margin > 0 || (margin === 0 && !strict);

  function numbersOf(values) {
    const numbers = stated.slice();
    const known = new Map(live.keys.map((each) => [each.key, each]));
    const chosen = Object.entries(values).map(([key, value]) => {
      if (!known.has(key)) throw new Error(`${key} does not vary here`);
      return [known.get(key), value];
    });
    for (const [key, value] of chosen) {
      const problem = complaint(key, value);
      if (problem) return [null, problem];
    }
    // what is more special than another comes behind it
    for (const [key, value] of chosen.sort(([a], [b]) => b.to.length - a.to.length)) {
      for (const at of key.to) numbers[at] = key.ns ? inSteps(value) : value;
    }
    return [numbers, ""];
  }

  const inSteps = (seconds) => Math.round((seconds * NANO) / live.step_ns) * live.step_ns;

  function countsOf(numbers) {
    const [duration, period, delay] = numbers.subarray(offsets.times, offsets.times + 3);
    const steps = Math.floor(duration / live.step_ns);
    const perPeriod = Math.floor(period / live.step_ns) || 1;
    const periods = Math.floor(steps / perPeriod);
    const rows = Math.ceil(steps / live.every) + 1;
    return { steps, per_period: perPeriod, depth: delay + 1, rows, answers: periods + 2, instants: periods + delay + 1 };
  }

  class Stage {
    constructor(numbers) {
      [this.numbers, this.counts, this.at, this.places] = [numbers, countsOf(numbers), slots + 1024, new Map()];
      this.period = numbers[offsets.times + 1] / NANO;
      this.place("numbers", numbers.length);
      for (const [name, each] of Object.entries(live.arrays)) {
        const n = each.rows ? this.counts[each.rows] * each.n : each.n;
        this.place(name, n, each.whole);
        if (each.v) new Uint8Array(memory.buffer).set(bytes(each.v), this.places.get(name).at);
        if (each.fill) this.of(name).fill(each.whole ? BigInt(each.fill) : each.fill);
      }
      this.of("numbers").set(numbers);
    }

    // A new array of zeros.
    place(name, n, whole = false) {
      const at = this.at;
      this.at += 8 * n;
      const more = Math.ceil((this.at - memory.buffer.byteLength) / PAGE);
      if (!(this.at < MOST)) throw new Error("So many rows take more memory than a browser gives: shorten the run.");
      if (more > 0) memory.grow(more + 16);
      new Uint8Array(memory.buffer).fill(0, at, this.at);
      this.places.set(name, { at, n, whole });
      return this.of(name);
    }

    // The array itself; memory that grows makes it anew.
    of(name) {
      const { at, n, whole } = this.places.get(name);
      return new (whole ? BigInt64Array : Float64Array)(memory.buffer, at, n);
    }

    argument(slot, [kind, ...rest]) {
      const view = new DataView(memory.buffer);
      const at = slots + 8 * slot;
      if (kind === "a") view.setUint32(at, this.places.get(rest[0]).at + 8 * (rest[1] ?? 0), true);
      else if (kind === "f") view.setFloat64(at, Number(rest[0]), true);
      else if (kind === "n") view.setFloat64(at, this.numbers[rest[0]], true);
      else if (kind === "period") view.setFloat64(at, this.period, true);
      else view.setBigInt64(at, BigInt(rest.length ? rest[0] : this.counts[kind]), true);
    }

    call(name, ...given) {
      given.forEach((each, i) => this.argument(i, each));
      return Number(exports[name](slots));
    }

    prepare() {
      for (const [kind, ...rest] of live.steps) {
        if (kind === "copy" || kind === "minus") {
          const [source, first, array, at, n] = rest;
          const taken = this.of(source).subarray(first, first + n);
          this.of(array).set(kind === "minus" ? taken.map((each) => -each) : taken, at);
        } else if (kind === "rows") {
          const [source, array, n] = rest;
          const [row, table] = [this.of(source).subarray(0, n), this.of(array)];
          for (let i = 0; i < table.length; i += n) table.set(row, i);
        } else if (kind === "times") {
          const times = this.of("times");
          for (let i = 0; i < times.length; i += 1) times[i] = (i * this.counts.per_period * live.step_ns) / NANO;
        } else {
          this.call(...rest);
        }
      }
    }

    // What is refused before anything moves; empty: nothing.
    refusal() {
      const controlled = live.function === "loop";
      for (const [part, section] of [["machine", "plant.parameters"], ["believed", "controller.parameters"]]) {
        if (!texts.requirements.length || !(part in offsets)) continue;
        const found = this.place(`found_${part}`, 3 * texts.requirements.length);
        this.call("requirements", ["a", "numbers", offsets[part]], ["a", `found_${part}`]);
        const sides = this.of(`found_${part}`);
        const n = texts.requirements.length;
        for (let i = 0; i < n; i += 1) {
          const each = texts.requirements[i];
          if (!met(sides[i], each.strict)) return `[${section}] ${each.names[0] ?? ""}: ${refusal(each, sides[n + i], sides[2 * n + i])}`;
        }
      }
      if (layout.watched_faults) {
        const found = this.call("faults", ["f", 0], ["a", "x"], ["a", "c"]);
        if (found) {
          const text = "the initial state violates a fault condition";
          return `[plant.initial]: ${text}: ${texts.faults[found - 1].text}; choose another one, or set plant.safety.faults = false`;
        }
      }
      if (!controlled) return "";
      this.place("first", layout.out);
      const status = this.call("law", ["f", 0], ["a", "x"], ["a", "y0"], ["a", "c_law"], ["a", "K"], ["a", "first"]);
      if (status) return `[plant.initial]: at the initial state ${this.explained(status, "first")}`;
      for (const [i, name] of texts.keep_names.entries()) {
        const [value, margin] = [this.of("first")[layout.margins + i], this.numbers[offsets.kept + 4 * i + 2]];
        if (texts.keep_rises[i] && margin > Math.max(value, 0)) {
          const sides = [shown(margin), shown(value, 4)].map((each) => each + texts.keep_units[i]);
          return `[controller.keep] ${name}.margin: ${sides[0]} is more than the value at the initial state, ${sides[1]}; give less, or start farther inside`;
        }
      }
      if (texts.conditions.length) {
        const n = layout.conditions;
        this.place("sides", 3 * n);
        const late = ["f", ((0.5 + this.counts.depth - 1) * this.numbers[offsets.times + 1]) / NANO];
        this.call("conditions", ["f", 0], ["a", "x"], ["a", "y0"], ["a", "p_law"], ["a", "numbers", offsets.rates], late, ["a", "sides"]);
        const sides = this.of("sides");
        for (let i = 0; i < texts.conditions.length; i += 1) {
          const each = texts.conditions[i];
          if (!met(sides[i], each.strict)) return `[controller]: program: ${refusal(each, sides[n + i], sides[2 * n + i])}`;
        }
      }
      return "";
    }

    explained(status, out) {
      const kept = status - texts.guards.length - 1;
      if (kept >= 0) {
        const sides = [shown(this.of(out)[layout.margins + kept], 4), shown(this.numbers[offsets.kept + 4 * kept + 3], 3)];
        return texts.keeps[kept].replace("{0}", sides[0]).replace("{1}", sides[1]);
      }
      if (status > 0) return texts.guards[status - 1];
      if (status === -5) return texts.yielded.replace("{0}", texts.keep_names.filter((_, i) => this.of(out)[layout.active + i] < 0).join(", "));
      if (status !== -1) return texts.not_finite;
      const condition = this.of(out)[layout.condition];
      return texts.singular.replace("{0}", shown(Number.isNaN(condition) ? Infinity : condition, 3));
    }

    // The loop to its end, or to the step at which it stopped: -1, or that step.
    run() {
      this.before = null;
      let stopped = -2;
      while (stopped === -2) {
        const state = this.places.has("state") && this.of("state");
        const readings = state && this.places.has("noise") ? this.of("lost").length : 0;
        if (readings && Number(state[0]) === readings && !live.random) state[0] = 0n;
        stopped = this.call(live.function, ...live.call);
      }
      return stopped;
    }

    // The fault at the step where the loop stopped: when, its name and its text.
    fault(k) {
      const [t, x] = [(k * live.step_ns) / NANO, this.of("x")];
      const more = "servonode simulate says what follows";
      if (!x.every(Number.isFinite)) return { t, text: "not_finite: with these numbers the motion grows beyond all bounds" };
      if (live.function === "coast") return this.coastFault(k);
      const periods = k % this.counts.per_period === 0;
      if (layout.predictor || !periods) return { t, text: `the run ends here; ${more}` };
      if (this.places.has("state") && live.call.length && this.of("state")[5]) return { t, text: `what acts is not what was asked for; ${more}` };
      if (layout.watched_faults) {
        const found = this.call("faults", ["f", t], ["a", "x"], ["a", "c"]);
        if (found) return { t, text: `${texts.faults[found - 1].name}: ${texts.faults[found - 1].text}` };
      }
      const goal = ((k - this.origin()) * live.step_ns) / NANO;
      const seen = this.imperfect() ? "measured" : "x";
      const status = this.call("law", ["f", goal], ["a", seen], ["a", "y"], ["a", "c_law"], ["a", "K"], ["a", "out"]);
      const name = status > texts.guards.length ? `keep_${texts.keep_names[status - texts.guards.length - 1]}` : "law";
      const unsolved = Number(this.of("clipped")[0]) > layout.clipped;
      return { t, text: `${name}: ${status === 0 ? (unsolved ? texts.unsolved : texts.crossed) : this.explained(status, "out")}` };
    }

    imperfect() {
      return this.places.get("measured")?.n > 0 && this.of("lost").length > 0;
    }

    // The step at which the goal's time began.
    origin() {
      if (!this.imperfect()) return 0;
      const first = Number(this.of("state")[1]);
      return first >= 0 ? first : this.counts.steps;
    }

    // Within a step the motion is that of a shorter one.
    coastFault(k) {
      const [at, step] = [((k - 1) * live.step_ns) / NANO, live.step_ns / NANO];
      const n = this.of("x").length;
      this.place("moved", n);
      const found = (h) => {
        this.of("moved").set(this.of("last"));
        this.call("step", ["f", at], ["a", "moved"], ["a", "u"], ["a", "c"], ["f", h]);
        return this.call("faults", ["f", at + h], ["a", "moved"], ["a", "c"]);
      };
      let [low, high, violated] = [0, step, found(step)];
      for (let i = 0; i < 60; i += 1) {
        const middle = (low + high) / 2;
        const there = found(middle);
        if (there) [high, violated] = [middle, there];
        else low = middle;
      }
      const { name, text } = texts.faults[violated - 1];
      return { t: at + high, text: `${name}: ${text}` };
    }

    // Every column of the report, of rows up to where the loop stopped.
    columns(stopped) {
      const width = layout.row;
      const n = stopped < 0 ? this.counts.rows : Math.ceil(stopped / live.every) + 1;
      const table = this.of("rows");
      if (stopped >= 0) {
        const last = (n - 1) * width;
        [table[last], ] = [stopped];
        table.set(this.of("x"), last + layout.x);
        table.set(this.of("u"), last + layout.inputs);
      }
      const [nx, nu] = [layout.n_state + 1, layout.n_tau];
      const t = this.place("row_t", n);
      const goal = this.place("goal_t", n);
      const origin = this.origin();
      const [states, inputs] = [this.place("row_x", n * nx), this.place("row_u", n * nu)].map((_, i) => this.of(i ? "row_u" : "row_x"));
      const [times, goals, rows] = [this.of("row_t"), this.of("goal_t"), this.of("rows")];
      for (let i = 0; i < n; i += 1) {
        const k = rows[i * width];
        times[i] = (k * live.step_ns) / NANO;
        goals[i] = (Math.max(k - origin, 0) * live.step_ns) / NANO;
        for (let j = 0; j < nx; j += 1) states[i * nx + j] = rows[i * width + layout.x + j];
        for (let j = 0; j < nu; j += 1) inputs[i * nu + j] = rows[i * width + layout.inputs + j];
      }
      const count = ["i", n];
      const known = [["a", "row_t"], ["a", "row_x"]];
      this.place("parts", 2);
      this.place("energy", n);
      this.call("energies", count, ...known, ["a", "c"], ["a", "parts"], ["a", "energy"]);
      this.place("residuals", n * layout.residuals);
      this.call("residuals", count, ...known, ["a", "c"], ["a", "residuals"]);
      for (const [name, size] of [["S", layout.n_full ** 2], ["full", layout.n_full], ["monitored", n * layout.monitored]]) this.place(name, size);
      this.call("monitored", count, ...known, ["a", "row_u"], ["a", "c"], ["a", "S"], ["a", "full"], ["a", "monitored"]);
      if (live.function === "loop") this.ofLaw(n, stopped);
      const picked = (array, size, at, from = (i) => i) => Float64Array.from({ length: n }, (_, i) => (from(i) < 0 ? NaN : array[from(i) * size + at]));
      const sources = {
        row: (at) => picked(this.of("rows"), width, at),
        monitored: (at) => picked(this.of("monitored"), layout.monitored, at),
        residuals: (at) => picked(this.of("residuals"), layout.residuals, at),
        drawn: (at) => picked(this.drawn("row", n, 1), layout.drawn, at),
        energy: () => this.of("energy").slice(),
        goal_t: () => this.of("goal_t").slice(),
        answer: (at) => picked(this.of("answers"), layout.answer, at, (i) => this.held[i]),
        target: (at) => picked(this.of("row_targets"), layout.targets, at),
        watched: (at) => picked(this.of("row_watched"), layout.watched, at),
        tracked: (at) => picked(this.of("row_tracked"), 2 * layout.tracked, at),
      };
      const columns = Object.fromEntries(live.columns.map(([name, source, at]) => [name, sources[source](at)]));
      return { t: this.of("row_t").slice(), columns };
    }

    // The numbers of the machine's drawing at rows of this name.
    drawn(name, n, factor) {
      this.place(`${name}_drawn`, n * layout.drawn);
      const known = ["t", "x", "u"].map((each) => ["a", `${name}_${each}`]);
      this.call("drawn", ["i", n], ...known, ["a", "c"], ["f", factor], ["a", "S"], ["a", "full"], ["a", `${name}_drawn`]);
      return this.of(`${name}_drawn`);
    }

    // The same for each view, at the rows at which the machine is drawn.
    pictures(rows) {
      const sizes = { t: 1, x: layout.n_state + 1, u: layout.n_tau };
      for (const [each, size] of Object.entries(sizes)) {
        this.place(`shown_${each}`, rows.length * size);
        const [source, array] = [this.of(`row_${each}`), this.of(`shown_${each}`)];
        rows.forEach((row, i) => array.set(source.subarray(row * size, (row + 1) * size), i * size));
      }
      return live.views.map((view) => view && layout.drawn ? this.drawn("shown", rows.length, view.factor).slice() : null);
    }

    // What the law answered at each row, and what it follows there.
    ofLaw(n, stopped) {
      const answers = this.of("answers");
      const last = Number(this.of("progress")[2]);
      const rows = this.of("rows");
      this.held = new Int32Array(n);
      let at = -1;
      for (let i = 0; i < n; i += 1) {
        const k = rows[i * layout.row];
        while (at + 1 < last && answers[(at + 1) * layout.answer] <= k) at += 1;
        this.held[i] = at >= 0 && k - answers[at * layout.answer] < this.counts.per_period ? at : -1;
      }
      for (const name of ["targets", "signals"]) {
        this.place(`row_${name}`, n * layout[name]);
        const [source, array] = [this.of(name), this.of(`row_${name}`)];
        if (layout.tables[name]) this.call(`${name}_table`, ["i", n], ["a", "goal_t"], ["a", "numbers", offsets[name]], ["a", `row_${name}`]);
        else for (let i = 0; i < array.length; i += 1) array[i] = source[i % layout[name]];
      }
      if (!layout.tracked && !layout.watched) return;
      this.place("row_watched", n * layout.watched);
      this.place("row_tracked", n * 2 * layout.tracked);
      this.place("row_y", layout.y);
      const [y, targets, signals] = [this.of("row_y"), this.of("row_targets"), this.of("row_signals")];
      const [known, goals] = [this.of("answers"), this.of("goal_t")];
      for (let i = 0; i < n; i += 1) {
        y.set(targets.subarray(i * layout.targets, (i + 1) * layout.targets), 0);
        y.set(signals.subarray(i * layout.signals, (i + 1) * layout.signals), layout.signals_at);
        for (let j = 0; j < layout.own; j += 1) y[layout.states_at + j] = this.held[i] < 0 ? NaN : known[this.held[i] * layout.answer + layout.own_at + j];
        const given = [["f", goals[i]], ["a", "row_x", i * (layout.n_state + 1)], ["a", "row_y"], ["a", "c_law"]];
        if (layout.tracked) this.call("tracked", ...given, ["a", "row_tracked", i * 2 * layout.tracked]);
        if (layout.watched) this.call("watched", ...given, ["a", "row_watched", i * layout.watched]);
      }
    }

    // Of each input that has been at its limit, for how much of the time.
    reached(columns) {
      return layout.input_names.flatMap((name, i) => {
        const limit = "limit" in offsets ? this.numbers[offsets.limit + i] : Infinity;
        const inputs = columns[name];
        if (!Number.isFinite(limit) || !inputs?.length) return [];
        const share = inputs.reduce((sum, u) => sum + (Math.abs(u) >= limit * (1 - 1e-9)), 0) / inputs.length;
        return share ? [`${name} is at its limit of ${shown(limit, 4)} ${layout.input_units[i]} for ${Math.max(1, Math.round(100 * share))} % of the time`] : [];
      });
    }
  }

  return (values) => {
    const begin = performance.now();
    const [numbers, problem] = numbersOf(values);
    const nothing = (refused) => ({ t: new Float64Array(), columns: {}, instants: [], drawn: [], marks: [], reached: [], refused, seconds: 0 });
    if (problem) return nothing(problem);
    const stage = new Stage(numbers);
    stage.prepare();
    const refused = stage.refusal();
    if (refused) return nothing(refused);
    const moving = performance.now();
    const stopped = stage.run();
    const loop = (performance.now() - moving) / 1000;
    const marks = stopped < 0 ? [] : [stage.fault(stopped)];
    const found = stage.columns(stopped);
    found.instants = evenRows(found.t, live.instants);
    found.drawn = stage.pictures(found.instants);
    return { ...found, marks, reached: stage.reached(found.columns), refused: null, seconds: (performance.now() - begin) / 1000, loop };
  };
}

// What a worker does: it compiles the module, and computes a run for each message.
function serveRuns() {
  let compute = null;
  self.onmessage = async ({ data: { id, live, values } }) => {
    try {
      if (live) {
        const code = Uint8Array.from(atob(live.module), (letter) => letter.charCodeAt(0));
        compute = runComputer(live, await WebAssembly.compile(code));
      }
      self.postMessage({ id, found: values ? compute(values) : null });
    } catch (error) {
      self.postMessage({ id, problem: String(error.message ?? error) });
    }
  };
}

class LiveRun {
  static BETWEEN = 4; // points of a path from one to the next
  static ALIKE = 1e-6; // of a column's range, by which the first run may differ from the file's numbers

  // Raises an Error with a sentence where the run cannot be computed here.
  static async open(live) {
    if (live.reason) throw new Error(live.reason);
    if (typeof WebAssembly !== "object") throw new Error("This browser has no WebAssembly, which computes the run.");
    const run = new LiveRun(live);
    await run.ask({ live });
    return run;
  }

  constructor(live) {
    [this.live, this.keys, this.fixed] = [live, live.keys, live.fixed];
    [this.waiting, this.count, this.cost] = [new Map(), 0, 0];
    if (typeof Worker === "function" && typeof Blob === "function" && typeof document === "object") {
      const text = `"use strict";\n${evenRows}\n${runComputer}\n${serveRuns}\nserveRuns();`;
      const address = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
      this.worker = new Worker(address);
      this.worker.onmessage = ({ data }) => this.answered(data);
      this.worker.onerror = (event) => {
        const problem = event.message || "This browser does not let the report compute.";
        for (const id of [...this.waiting.keys()]) this.answered({ id, problem });
      };
    }
  }

  // A message to the worker; without one the run is computed at once.
  ask(message) {
    if (!this.worker) return this.alone(message);
    return new Promise((done, failed) => {
      this.count += 1;
      this.waiting.set(this.count, [done, failed]);
      this.worker.postMessage({ ...message, id: this.count });
    });
  }

  async alone({ live, values }) {
    if (live) {
      const code = Uint8Array.from(atob(live.module), (letter) => letter.charCodeAt(0));
      this.computed = runComputer(live, await WebAssembly.compile(code));
    }
    return values ? this.computed(values) : null;
  }

  answered({ id, found, problem }) {
    const [done, failed] = this.waiting.get(id) ?? [];
    this.waiting.delete(id);
    if (problem) failed?.(new Error(problem));
    else done?.(found);
  }

  // The run as it is stated, compared with the file's numbers; largest: of the differences, by each column's range.
  async first() {
    const found = await this.compute({});
    if (found.refused) return { largest: Infinity, ok: false, seconds: 0, column: "" };
    const { rows, columns, spans } = this.live.check;
    let [largest, worst] = [0, ""];
    for (const [name, text] of Object.entries(columns)) {
      if (!spans[name]) continue; // nothing but rounding
      const known = new Float64Array(Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer);
      rows.forEach((row, i) => {
        const [a, b] = [found.columns[name][row], known[i]];
        if (Number.isNaN(a) && Number.isNaN(b)) return;
        const apart = a === b ? 0 : Math.abs(a - b) / spans[name];
        if (!(apart <= largest)) [largest, worst] = [Number.isNaN(apart) ? Infinity : apart, name];
      });
    }
    this.cost = found.seconds;
    return { largest, ok: largest <= LiveRun.ALIKE, seconds: found.seconds, loop: found.loop, column: worst, run: found };
  }

  // The seconds that a run with these values will take, by the first.
  estimate(values) {
    const duration = this.keys.find(({ key }) => key === "run.duration");
    const share = duration && "run.duration" in values ? values["run.duration"] / duration.value : 1;
    return this.cost * Math.max(share, 0);
  }

  // The run with other values of keys. refused: why it cannot be; else its rows, marks of faults, and what is drawn.
  async compute(values) {
    const found = await this.ask({ values });
    const { t, columns, instants, drawn } = found;
    const between = evenRows(t, this.live.instants * LiveRun.BETWEEN);
    const rows = [...new Set([...instants, ...between])].sort((a, b) => a - b);
    let at = 0;
    const ends = instants.map((row) => {
      while (at < rows.length && rows[at] <= row) at += 1;
      return at;
    });
    const known = this.live.paths.filter((name) => columns[name]);
    const paths = Object.fromEntries(known.map((name) => [name, Float32Array.from(rows, (row) => columns[name][row])]));
    const shapes = (i, k) => (drawn[k] ? LiveRun.shapes(this.live.views[k], drawn[k].subarray(i * this.live.layout.drawn)) : null);
    return { ...found, instants: Float64Array.from(instants, (row) => t[row]), ends, paths, shapes };
  }

  // What a view draws of the numbers of a drawing: as report.data.views has it.
  static shapes({ shapes, space, ground, caption, caption_at: at }, numbers) {
    const found = { lines: [], guides: [...ground], inertias: [], arrows: [], caption: "" };
    for (const each of shapes) {
      const rows = Array.from({ length: each.rows }, (_, i) => Array.from(numbers.subarray(each.at + i * each.size, each.at + (i + 1) * each.size)));
      if (each.kind === "arrow") {
        found.arrows.push({ name: each.name, foot: rows[0], vector: rows[1] });
        continue;
      }
      const line = each.kind === "line" ? rows : LiveRun.circle(rows, each.corners);
      found[each.thin ? "guides" : "lines"].push(...(each.size === 3 && !space ? LiveRun.above(line) : [line]));
    }
    found.caption = caption.replace(/\{:(\+?)\.(\d)f\}/g, (_, plus, digits) => {
      const value = numbers[at];
      at += 1;
      const text = Math.abs(value).toFixed(digits);
      return (value < 0 && Number(text) ? "\u2212" : plus) + text;
    });
    return found;
  }

  static circle([centre, across, up], corners) {
    return Array.from({ length: corners + 1 }, (_, i) => {
      const angle = (2 * Math.PI * i) / corners;
      return centre.map((each, j) => each + Math.cos(angle) * across[j] + Math.sin(angle) * up[j]);
    });
  }

  // The pieces of a line whose third number is not below zero; a dot is seen above it.
  static above(line) {
    if (line.length === 1) return line[0][2] > 0 ? [line.map(([x, y]) => [x, y])] : [];
    const pieces = [[]];
    for (const [x, y, height] of line) {
      if (height >= 0) pieces.at(-1).push([x, y]);
      else if (pieces.at(-1).length) pieces.push([]);
    }
    return pieces.filter((each) => each.length > 1);
  }
}
