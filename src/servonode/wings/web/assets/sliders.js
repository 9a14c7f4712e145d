// The run of a report with other numbers: sliders, what is computed for them, and how it is passed on.
//
//   const varied = await Varied.open(report, data);     // computes as live.js `LiveRun` does, and draws by `report.take`
//
// What stands in the fragment of the address is read as its stranger wrote it: known keys with numbers are taken, the rest
// is said. `#figure` shows the machine, its player and the most telling sliders alone, and begins in motion.
"use strict";

const VARY = {
  patient: 3, // s of computing that are not asked about
  told: 4, // sliders of a figure
  few: 6, // sliders of a group that is open at first
  steps: 200, // of a slider, at least
  longest: 4000, // letters of a fragment
  leading: /^(goal|target|controller\.(settings|parameters))\b/, // keys on which the paths depend that a program asks for
  keeping: /^plant\.parameters\b/, // and what is forbidden too
  unwritten: "goal.speed", // the one key that is none of a launch file
  saved: 250, // ms without a change, after which the address has it
  telling: ["gains", "goals", "start"], // groups
  groups: ["gains", "goals", "start", "parameters", "assumed", "disturbance", "limits", "timing"],
  named: {
    gains: "Gains", goals: "Goals", start: "Start", parameters: "Parameters of the machine", assumed: "Parameters that the law assumes",
    disturbance: "Disturbances", limits: "Limits", timing: "Timing",
  },
};

function made(tag, style = "", text = "", fill = {}) {
  const each = Object.assign(document.createElement(tag), fill);
  if (style) each.className = style;
  if (text) each.textContent = text;
  return each;
}

// The number that a reader wrote, with a comma or a minus as books have them, or as a part of π; NaN for anything else.
function numberOf(text) {
  const plainly = text.trim().replace(/[−–]/g, "-").replace(/^([-+]?\d*),(\d+)$/, "$1.$2");
  const ofPi = /^([-+]?)(\d*\.?\d*)\s*\*?\s*(?:pi|π)\s*(?:\/\s*(\d+\.?\d*))?$/i.exec(plainly);
  if (ofPi) return (ofPi[1] === "-" ? -1 : 1) * Number(ofPi[2] || 1) * Math.PI / Number(ofPi[3] || 1);
  return /^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i.test(plainly) ? Number(plainly) : NaN;
}

// A number with no more digits than it needs, as TOML and JavaScript have it.
function written(value, whole = false) {
  return whole ? value.toFixed(0) : String(Number(value.toPrecision(15)));
}

// One word for a shell.
function quoted(word) {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

// The round step of a slider; a key whose numbers are multiples of a step has a multiple of it.
function stepOf({ low, high, unit }) {
  const step = 10 ** Math.floor(Math.log10((high - low) / VARY.steps));
  return unit ? Math.max(unit, Math.round(step / unit) * unit) : step;
}

// A number of the run: its name, a slider, a field, and the value of the first run, which a click gives back.
class Knob {
  constructor(key, onChange) {
    this.key = key;
    this.onChange = onChange;
    this.value = key.value;
    this.range = { low: Math.min(key.low, key.value), high: Math.max(key.high, key.value), unit: key.whole ? 1 : key.step };
    if (!(this.range.high > this.range.low)) this.range.high = this.range.low + 1;
    this.stated = { ...this.range };
    const names = key.key.split(".");
    const symbol = names.slice(/^\d+$/.test(names.at(-1)) ? -2 : -1).join("."); // of an entry: point.0
    const name = key.title || symbol;
    this.box = made("div", "knob");
    const head = this.box.appendChild(made("div", "of"));
    const title = head.appendChild(made("span", "", "", { title: `${name}: ${key.key}` }));
    title.append(made("code", "", symbol), name === symbol ? "" : ` ${name}`);
    this.back = head.appendChild(made("button", "back", written(key.value, key.whole), { type: "button" }));
    this.back.title = "back to the first run's";
    this.back.setAttribute("aria-label", `${name}: back to ${this.back.textContent}`);
    const row = this.box.appendChild(made("div", "row"));
    const track = row.appendChild(made("div", "track"));
    this.slider = track.appendChild(made("input", "", "", { type: "range" }));
    this.tick = track.appendChild(made("i"));
    this.field = row.appendChild(made("input", "", "", { type: "text", inputMode: key.low < 0 ? "text" : "decimal", autocomplete: "off", spellcheck: false }));
    row.appendChild(made("span", "unit", key.unit === "1" ? "" : key.unit));
    const ends = this.box.appendChild(made("div", "ends"));
    [this.least, this.most] = [ends.appendChild(made("span")), (ends.appendChild(made("code", "", key.key)), ends.appendChild(made("span")))];
    this.wrong = this.box.appendChild(made("p", "wrong", "", { hidden: true }));
    this.wrong.setAttribute("role", "alert");
    this.slider.setAttribute("aria-label", `${name}, slider`);
    this.field.setAttribute("aria-label", key.unit && key.unit !== "1" ? `${name}, in ${key.unit}` : name);
    const slid = (held) => this.change(Number(Number(this.slider.value).toPrecision(12)), held);
    this.slider.addEventListener("input", () => slid(true));
    this.slider.addEventListener("change", () => slid(false));
    this.field.addEventListener("change", () => this.read());
    this.field.addEventListener("input", () => this.refuse(""));
    this.back.addEventListener("click", () => this.change(key.value, false));
    this.show(key.value);
  }

  read() {
    const value = numberOf(this.field.value);
    if (!Number.isFinite(value)) return this.refuse(`“${this.field.value.slice(0, 40)}” is no number; write one such as ${written(this.key.value)}`);
    if (this.key.whole && !Number.isInteger(value)) return this.refuse(`${written(value)} is no whole number`);
    return this.change(value, false);
  }

  refuse(text) {
    [this.wrong.hidden, this.wrong.textContent] = [!text, text];
    this.field.setAttribute("aria-invalid", String(Boolean(text)));
  }

  change(value, held) {
    this.show(value);
    this.onChange(this, held);
  }

  show(value) {
    this.value = value;
    const { range, key } = this;
    if (value === key.value) Object.assign(range, this.stated); // what a typing error has widened
    if (value < range.low) range.low = value;
    if (value > range.high) range.high = value;
    const step = stepOf(range);
    Object.assign(this.slider, { min: range.low, max: range.high, step: step > 0 ? step : "any" });
    this.slider.value = value;
    this.slider.setAttribute("aria-valuetext", `${written(value, key.whole)} ${key.unit}`);
    this.field.value = written(value, key.whole);
    [this.least.textContent, this.most.textContent] = [short(range.low), short(range.high)];
    this.tick.style.setProperty("--at", (key.value - range.low) / (range.high - range.low));
    this.back.disabled = value === key.value;
    this.box.classList.toggle("changed", !this.back.disabled);
    this.refuse("");
  }
}

// How what is seen is passed on.
class Passed {
  constructor(command, knobs) {
    this.command = command;
    this.changed = knobs.filter(({ value, key }) => value !== key.value).map(({ value, key }) => [key.key, written(value, key.whole)]);
  }

  get fragment() {
    return this.changed.map(([key, value]) => `${encodeURIComponent(key)}=${value}`).join("&");
  }

  get line() {
    const { name, set } = this.command;
    const all = { ...set, ...Object.fromEntries(this.changed.filter(([key]) => key !== VARY.unwritten)) };
    return ["servonode", "simulate", name, ...Object.entries(all).flatMap(([key, value]) => ["--set", `${key}=${value}`])].map(quoted).join(" ");
  }

  get toml() {
    const tables = new Map();
    for (const [key, value] of this.changed) {
      if (key === VARY.unwritten) {
        tables.set("", [`# no key of a launch file, but of Python: values={"${key}": ${value}}`]);
        continue;
      }
      const names = key.split(".");
      const listed = names.findIndex((name) => /^\d+$/.test(name));
      const word = (name) => (/^[\w-]+$/.test(name) ? name : JSON.stringify(name));
      const table = names.slice(0, listed < 0 ? -1 : listed - 1).map(word).join(".");
      const text = listed < 0 ? `${word(names.at(-1))} = ${value}` : `# ${JSON.stringify(names.slice(listed - 1).join("."))}, an entry of a list: ${value}`;
      tables.set(table, [...(tables.get(table) ?? []), text]);
    }
    return [...tables].map(([table, lines]) => [...(table ? [`[${table}]`] : []), ...lines].join("\n")).join("\n\n");
  }
}

class Varied {
  // What computes the run of this report; null where nothing does, which is said.
  static async open(report, data) {
    const box = document.getElementById("vary");
    if (!data.live) return null;
    const varied = new Varied(report, data, box);
    if (data.live.reason) return varied.off(data.live.reason);
    varied.begin("the first run is computed …");
    try {
      varied.live = await LiveRun.open(data.live);
      const { largest, ok } = await varied.live.first();
      if (!ok) return varied.off(`computed here the first run differs by ${short(largest)} from the file's numbers`);
      varied.agreed = `computed here: agrees to ${largest ? short(largest) : "the last bit"}`;
    } catch (error) {
      return varied.off(error instanceof Error ? error.message : String(error));
    }
    varied.build();
    varied.read();
    return varied;
  }

  constructor(report, data, box) {
    [this.report, this.data, this.box] = [report, data, box];
    this.knobs = new Map();
    this.said = made("p", "", "", { id: "said" });
    this.said.setAttribute("role", "status");
  }

  off(reason) {
    this.box.replaceChildren(made("p", "off", `No number of this run can be varied here: ${reason}`));
    this.box.hidden = false;
    return null;
  }

  // the panel

  begin(text) {
    const details = made(figured() ? "section" : "details", "card", "", { id: "sliders", open: Boolean(document.getElementById("exercise")) || !matchMedia("(max-width: 820px)").matches });
    const summary = details.appendChild(made("summary", "", "Vary this run "));
    this.note = summary.appendChild(made("small", "", text));
    this.box.replaceChildren(details);
    this.box.hidden = false;
    return details;
  }

  build() {
    const details = this.begin(this.agreed);
    details.append(this.said, this.buttons());
    this.seen = details.appendChild(made("div", "", "", { id: "seen", hidden: true }));
    const offered = this.data.offered;
    const known = new Map(this.live.keys.map((key) => [key.key, key]));
    const first = [...new Set(offered)].filter((key) => known.has(key));
    const odd = offered.filter((key) => !known.has(key));
    if (odd.length) this.note.textContent += `; not varied here: ${odd.join(", ")}`;
    const groupOf = ({ key, group }) => (group === "parameters" && key.startsWith("controller.") ? "assumed" : group);
    const order = (key) => [...VARY.groups, groupOf(key)].indexOf(groupOf(key));
    const sorted = [...this.live.keys].sort((a, b) => order(a) - order(b));
    this.telling = new Set((first.length ? first : this.mostTelling(sorted)).slice(0, VARY.told));
    if (first.length) details.append(...first.map((key) => this.knob(known.get(key))));
    const rest = sorted.filter(({ key }) => !first.includes(key));
    const open = first.length ? [] : [...VARY.telling, ...(sorted.some(({ group }) => VARY.telling.includes(group)) ? [] : VARY.groups)];
    if (figured()) {
      const boxes = sorted.map((key) => this.knobs.get(key.key)?.box ?? this.knob(key));
      details.replaceChildren(this.said, ...boxes.filter((box) => box.classList.contains("telling")));
      rest.length = 0;
    }
    for (const group of new Set(rest.map(groupOf))) {
      const keys = rest.filter((key) => groupOf(key) === group);
      const part = details.appendChild(made("details", "group", "", { open: keys.length <= VARY.few && open.includes(group) }));
      part.appendChild(made("summary", "", `${VARY.named[group] ?? group} `)).append(made("small", "", String(keys.length)));
      part.append(...keys.map((key) => this.knob(key)));
    }
    if (this.live.fixed.length && !figured()) details.append(this.unvaried());
    this.tell();
  }

  // The keys that a figure offers: a gain, goals, a start, then more of them.
  mostTelling(sorted) {
    const some = ([group, n]) => sorted.filter((key) => key.group === group).slice(0, n);
    return [...new Set([...[["gains", 1], ["goals", 2], ["start", 1]].flatMap(some), ...sorted].map(({ key }) => key))];
  }

  knob(key) {
    const knob = new Knob(key, (moved, held) => {
      this.moved = moved;
      this.change(held);
    });
    knob.box.classList.toggle("telling", this.telling.has(key.key));
    this.knobs.set(key.key, knob);
    return knob.box;
  }

  buttons() {
    const row = made("div", "acts");
    const act = (text, done) => {
      const button = row.appendChild(made("button", "", text, { type: "button" }));
      button.addEventListener("click", done);
      return button;
    };
    this.restore = act("First run", () => this.set(new Map()));
    this.shows = act("What is seen, as text", () => this.showText(this.seen.hidden));
    act("Save a picture", () => this.picture());
    this.compute = act("", () => ((this.asked = true), this.work(false)));
    this.compute.hidden = true;
    return row;
  }

  unvaried() {
    const part = made("details", "group");
    part.appendChild(made("summary", "", "What stays as it is, and why ")).append(made("small", "", String(this.live.fixed.length)));
    const list = part.appendChild(made("dl"));
    for (const { key, reason } of this.live.fixed) list.append(made("dt", "", key), made("dd", "", reason));
    return part;
  }

  // computing

  get values() {
    return Object.fromEntries([...this.knobs].filter(([, { value, key }]) => value !== key.value).map(([key, { value }]) => [key, value]));
  }

  // Other numbers, by key; the first run's for those that are not among them.
  set(values) {
    this.moved = null;
    for (const [key, knob] of this.knobs) knob.show(values.get(key) ?? knob.key.value);
    this.change(false);
  }

  change(held) {
    this.asked = false;
    clearTimeout(this.saving);
    if (!held) this.saving = setTimeout(() => this.save(), VARY.saved);
    this.work(held);
  }

  // Computes the newest numbers; those that have changed meanwhile come next, and no others.
  async work(held) {
    this.wanted = { held };
    if (this.working) return;
    this.working = true;
    while (this.wanted) {
      const { held: more } = this.wanted;
      this.wanted = null;
      await this.step(more);
      await new Promise((done) => requestAnimationFrame(done));
    }
    this.working = false;
  }

  async step(held) {
    const { values } = this;
    if (!Object.keys(values).length) return this.drawn(null, held);
    const begun = performance.now();
    try {
      const seconds = this.live.estimate(values);
      if (seconds > VARY.patient && !this.asked) return this.ask(seconds);
      if (seconds > 0.3) this.tell(`computing, about ${short(Number(seconds.toPrecision(2)))} s …`);
      const run = await this.live.compute(values);
      if (run.refused || !run.t.length) return this.drawn(null, held, run.refused || "nothing was computed");
      const changes = (keys) => Object.keys(values).some((key) => keys.test(key));
      if (changes(VARY.leading)) run.wanted ??= this.report.views.map(() => []);
      if (changes(VARY.keeping)) run.wanted ??= this.report.data.views.map(({ wanted }) => wanted.filter(({ areas }) => !areas));
      return this.drawn(run, held, "", performance.now() - begun);
    } catch (error) {
      return this.drawn(null, held, error instanceof Error ? error.message : String(error));
    }
  }

  ask(seconds) {
    this.tell(`This takes about ${short(Number(seconds.toPrecision(2)))} s; what is drawn has other numbers.`);
    [this.compute.hidden, this.compute.textContent] = [false, "Compute it"];
  }

  drawn(run, held, refused = "", ms = 0) {
    const { report } = this;
    this.compute.hidden = true;
    if (run) {
      run.ends ??= Array.from(run.instants, (t) => rowAt(run.t, t * (1 + 1e-12) + 1e-12));
      run.paths = { ...report.first.paths, ...run.paths };
      run.largest ??= report.views.map((_, k) => this.largest(run, k));
    }
    const shown = refused ? { ...report.first, t: [], columns: {}, ends: report.first.ends.map(() => 0), paths: {}, marks: [], shapes: () => null } : run;
    report.take(shown, held);
    document.body.classList.toggle("varied", Boolean(shown));
    this.refuse(refused);
    this.moved?.refuse(refused); // beside the field too: on a phone the curves are out of sight
    const faults = (run?.marks ?? []).map(({ t, text }) => `fault at t = ${t.toFixed(3)} s: ${text}`);
    const end = run && [faults.join("; ") || `no fault in ${short(run.t.at(-1))} s`, ...(run.reached ?? [])].join(" · ");
    this.tell(refused ? "This run is refused." : end ? `${end} · ${ms < 10 ? ms.toFixed(1) : ms.toFixed(0)} ms · first run pale` : "");
    this.said.classList.toggle("bad", Boolean(refused || faults.length));
    if (!this.seen.hidden) this.showText(true);
  }

  // The largest arrow that another run draws, by which its arrows are scaled, at least that of the first run.
  largest(run, k) {
    let found = this.report.first.largest[k];
    const step = Math.max(1, Math.floor(run.instants.length / REPORT.looked));
    for (let i = 0; i < run.instants.length; i += step) {
      for (const { vector } of run.shapes(i, k)?.arrows ?? []) found = Math.max(found, Math.hypot(...vector) || 0);
    }
    return found > 1e-9 ? found : 0;
  }

  // A refusal stands where the curves would be.
  refuse(text) {
    this.refusal ??= document.getElementById("curves").parentElement.insertBefore(made("p", "note bad", "", { id: "refused" }), null);
    [this.refusal.hidden, this.refusal.textContent] = [!text, text];
    const parent = document.getElementById(figured() ? "side" : "curves");
    if (text && this.refusal.parentElement !== parent) parent.prepend(this.refusal);
  }

  tell(text = "") {
    const n = Object.keys(this.values).length;
    this.restore.disabled = !n;
    const what = n ? `${n} number${n > 1 ? "s" : ""} changed; the first run is pale` : "This is the first run.";
    this.said.textContent = text || what;
    this.said.classList.remove("bad");
  }

  // passing on

  get passed() {
    return new Passed(this.data.command, [...this.knobs.values()]);
  }

  showText(open) {
    this.seen.hidden = !open;
    this.shows.setAttribute("aria-expanded", String(open));
    const { line, toml } = this.passed;
    const texts = [["Command", line], ["Lines of the launch file", toml || "# as it is"]];
    if (this.data.command.note) texts[0][0] += `; ${this.data.command.note}`;
    this.seen.replaceChildren(...texts.map(([title, text]) => this.copyable(title, text)));
  }

  copyable(title, text) {
    const box = made("div", "copyable");
    const head = box.appendChild(made("header", "", title));
    const button = head.appendChild(made("button", "", "Copy", { type: "button" }));
    button.setAttribute("aria-label", `Copy: ${title}`);
    const shown = box.appendChild(made("pre", "", text, { tabIndex: 0 }));
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(text);
        button.textContent = "Copied";
      } catch {
        getSelection().selectAllChildren(shown);
        button.textContent = "Selected: press Ctrl+C";
      }
    });
    return box;
  }

  // The fragment: known keys with numbers, whoever wrote it.
  read() {
    const values = new Map();
    const strange = [];
    for (const part of location.hash.slice(1, VARY.longest).split("&")) {
      const at = part.indexOf("=");
      if (at < 0) continue;
      let key = part.slice(0, at);
      try { key = decodeURIComponent(key); } catch { /* it stays as it is written, and is unknown */ }
      const [knob, value] = [this.knobs.get(key), numberOf(part.slice(at + 1))];
      if (knob && Number.isFinite(value) && (Number.isInteger(value) || !knob.key.whole)) values.set(key, value);
      else strange.push(key.slice(0, 60));
    }
    if (values.size || Object.keys(this.values).length) this.set(values);
    if (strange.length) this.note.textContent = `not taken from the address: ${strange.slice(0, 5).join(", ")}`;
  }

  save() {
    const { fragment } = this.passed;
    const whole = [...(figured() ? ["figure"] : []), ...(fragment ? [fragment] : [])].join("&");
    try {
      history.replaceState(null, "", `#${whole}`);
    } catch { /* a frame that may not: the address stays */ }
  }

  // The views and curves as they stand on the page, with their words, as a file.
  picture() {
    const scale = Math.max(devicePixelRatio, 2);
    const columns = ["views", "curves"].map((id) => document.getElementById(id)).filter((each) => each.clientWidth);
    const boxes = columns.map((each) => each.getBoundingClientRect());
    const beside = boxes.length > 1 && boxes[1].left >= boxes[0].right;
    const [gap, foot] = [12, 30];
    const width = beside ? boxes[0].width + gap + boxes[1].width : Math.max(...boxes.map((box) => box.width));
    const heights = columns.map((column, i) => Math.max(0, ...[...column.querySelectorAll("figure, .panel")].map((each) => each.getBoundingClientRect().bottom - boxes[i].top)));
    const height = beside ? Math.max(...heights) : heights.reduce((sum, each) => sum + each + gap, 0);
    const canvas = made("canvas", "", "", { width: (width + 2 * gap) * scale, height: (height + 2 * gap + foot) * scale });
    const pen = canvas.getContext("2d");
    pen.scale(scale, scale);
    pen.fillStyle = getComputedStyle(document.documentElement).backgroundColor;
    pen.fillRect(0, 0, canvas.width, canvas.height);
    let [left, top] = [gap, gap];
    columns.forEach((column, i) => {
      this.copy(pen, column, left - boxes[i].left, top - boxes[i].top);
      if (beside) left += boxes[i].width + gap;
      else top += heights[i] + gap;
    });
    [pen.fillStyle, pen.font, pen.textBaseline] = [theme.soft, `12px ${theme.words}`, "bottom"];
    const changed = this.passed.changed.map(([key, value]) => `${key} = ${value}`).join(", ");
    pen.fillText([this.data.command.name, changed, `t = ${this.report.time.toFixed(3)} s`].filter(Boolean).join(" · "), gap, height + 2 * gap + foot - 12, width);
    canvas.toBlob((blob) => {
      if (!blob) return this.tell("The picture is too large for this browser; make the window smaller.");
      const link = made("a", "", "", { href: URL.createObjectURL(blob), download: "run.png" });
      link.click();
      return setTimeout(() => URL.revokeObjectURL(link.href), 60000);
    });
  }

  copy(pen, column, x, y) {
    for (const card of column.querySelectorAll("figure, .panel")) {
      const box = card.getBoundingClientRect();
      [pen.fillStyle, pen.strokeStyle, pen.lineWidth] = [theme.card, theme.line, 1];
      pen.fillRect(box.left + x, box.top + y, box.width, box.height);
      pen.strokeRect(box.left + x, box.top + y, box.width, box.height);
    }
    for (const each of column.querySelectorAll("canvas, .title, .key, figure > p, .mark:not([hidden])")) {
      const box = each.getBoundingClientRect();
      if (!box.height) continue;
      const style = getComputedStyle(each);
      if (each.tagName === "CANVAS") pen.drawImage(each, box.left + x, box.top + y, box.width, box.height);
      else if (each.classList.contains("mark")) {
        pen.fillStyle = style.borderLeftColor;
        pen.fillRect(box.left + x, box.top + y, 1.5, box.height);
      } else {
        const indent = each.classList.contains("key") ? 18 : 0;
        if (indent) {
          pen.fillStyle = style.getPropertyValue("--key").trim();
          pen.fillRect(box.left + x, box.top + y + box.height / 2 - 1.5, 12, 3);
        }
        [pen.fillStyle, pen.font, pen.textBaseline] = [style.color, `${style.fontWeight} ${style.fontSize} ${theme.words}`, "middle"];
        pen.fillText(each.textContent, box.left + x + indent, box.top + y + box.height / 2);
      }
    }
  }
}

function figured() {
  return document.body.classList.contains("figure");
}

// A figure in another page: it moves as soon as it is seen, unless its reader wants no motion.
function beginFigure(report) {
  if (!report.slider || matchMedia("(prefers-reduced-motion: reduce)").matches) return;
  report.go(report.span[0]);
  new IntersectionObserver((seen, observer) => {
    if (!seen.some((each) => each.isIntersecting)) return;
    observer.disconnect();
    report.play();
  }).observe(document.getElementById("views"));
}

if (figured()) beginFigure(report);
const opened = Varied.open(report, report.data).then((varied) => {
  if (varied) addEventListener("hashchange", () => varied.read());
  return varied;
});
