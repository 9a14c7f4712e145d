// The page: what the server tells becomes views, panels, tables and words, once for each frame of the screen.
"use strict";

const STALE_S = 1.5; // without news, after which what is shown is old
const TABLES_MS = 200; // between two tables

const by = (id) => document.getElementById(id);

// The newest rows of a run by column: arrays that grow at their end and are shortened at their beginning.
class Columns {
  constructor(most) {
    this.most = most; // rows kept
    this.of = { t: [] };
  }

  // Adds rows: {name: [values]}, null where nothing is known.
  add(rows) {
    for (const name of Object.keys(rows)) (this.of[name] ||= []).push(...rows[name]);
    const spare = this.of.t.length - 1.25 * this.most; // not for every row, for it moves all the others
    if (spare > 0) for (const name of Object.keys(this.of)) this.of[name].splice(0, this.of[name].length - this.most);
  }

  get count() {
    return this.of.t.length;
  }

  get last() {
    return this.count ? this.of.t[this.count - 1] : 0;
  }
}

class Page {
  constructor() {
    this.tables = new Tables();
    this.button = new StopButton(by("stop"), by("answer"));
    this.numbers = new Numbers(by("parameters"), by("sliders"), by("changed"));
    this.columns = new Columns(1);
    [this.views, this.panels, this.told] = [[], [], []];
    [this.range, this.scene, this.status, this.ended] = [null, null, null, ""];
    [this.frames, this.tabled] = [0, 0];
    this.connection = new Connection((message) => this.take(message), () => this.watch());
    setInterval(() => this.watch(), 250);
    const notes = new ResizeObserver(() => document.body.style.setProperty("--notes", `${by("notes").offsetHeight}px`));
    notes.observe(by("notes"));
    setInterval(() => this.count(), 1000);
  }

  // What is told waits for the next frame of the screen; the server waits until it is drawn.
  take(message) {
    if (message.anew) this.forget();
    if (message.waiting) by("what").textContent = message.waiting;
    if (message.layout) this.build(message.layout);
    for (const rows of message.rows || []) this.columns.add(rows);
    if (message.wanted) message.wanted.views.forEach((lines, i) => this.views[i]?.want(lines));
    if (message.scene) this.scene = message.scene;
    if (message.status) this.status = message.status;
    if (message.end !== undefined) this.ended = message.end;
    this.quiet = message.quiet;
    this.told.push(message);
    if (this.told.length === 1) requestAnimationFrame(() => this.draw());
  }

  draw() {
    const told = this.told;
    const moved = told.some((message) => message.layout || message.rows || message.scene);
    this.told = [];
    try {
      if (told.some((message) => message.status)) this.showStatus();
      if (moved) this.drawRun();
      this.frames += moved ? 1 : 0;
      this.watch();
    } finally {
      this.connection.drawn(); // else one value that cannot be drawn would be the last thing that is shown
    }
  }

  drawRun() {
    const { columns, layout } = this;
    if (!layout || !columns.count) return;
    const end = Math.max(columns.last, layout.span + columns.of.t[0]);
    const [from, to] = this.range || [end - layout.span, end];
    for (const panel of this.panels) panel.show(columns.of, from, to);
    const first = rowAt(columns.of.t, columns.last - layout.span);
    const { views, poses } = this.scene || { views: [] };
    views.forEach((shapes, i) => this.views[i]?.draw({ ...shapes, poses }, columns.of, columns.count, first));
    if (performance.now() - this.tabled < TABLES_MS) return;
    this.tabled = performance.now();
    this.tables.showResiduals(layout.residuals, columns.of, from);
  }

  forget() {
    this.columns = new Columns(this.columns.most);
    this.scene = null;
    this.range = null;
    for (const each of [...this.views, ...this.panels]) each.forget();
  }

  // Another run, or the first: its views and panels, made anew only where they differ.
  build(layout) {
    this.forget();
    if (layout.run !== this.layout?.run) [this.button, this.numbers].forEach((each) => each.forget()); // else it is told again after a lost connection
    this.ended = "";
    this.columns = new Columns(layout.rows);
    const same = this.layout && JSON.stringify([this.layout.views, this.layout.panels]) === JSON.stringify([layout.views, layout.panels]);
    this.layout = layout;
    by("name").textContent = layout.name;
    by("what").textContent = [layout.machine, layout.program].filter(Boolean).join(" · ");
    document.title = `${layout.name} · servonode`;
    document.body.classList.remove("waiting");
    if (!same) this.renew(layout);
    for (const view of this.views) view.embody(layout.bodies);
    this.views[0]?.say(layout.unseen && `Not drawn: ${layout.unseen}`);
  }

  renew(layout) {
    by("machine").replaceChildren();
    by("panels").replaceChildren();
    this.views = this.arrange(layout.views);
    const onRange = (low, high) => this.choose(low, high);
    this.panels = layout.panels.map((spec) => new Panel(by("panels"), spec, { onRange, height: 0 }));
    this.panels.forEach((panel, i) => (panel.bottom = i === this.panels.length - 1));
  }

  // The first view is large, strips and further views share a row below it.
  arrange(layouts) {
    const more = document.createElement("div");
    more.className = "more";
    const views = layouts.map((layout, i) => new MachineView(i ? more : by("machine"), layout));
    if (views.length > 1) by("machine").append(more);
    for (const view of views) if (view.layout.click.length) new GoalClick(view, by("answer"));
    by("shown").classList.toggle("bare", !views.length);
    by("shown").classList.toggle("one", views.length === 1);
    return views;
  }

  choose(low, high) {
    this.range = low === null ? null : [low, high];
    this.drawRun();
  }

  showStatus() {
    const { status } = this;
    const stopped = status.stopped && status.alive;
    chip("standing", stopped ? "emergency stop" : status.standing, stopped || status.fault ? "bad" : status.lifecycle === "active" && status.alive ? "good" : "plain");
    const would = Object.entries(status.would_send).map(([name, value]) => `${name} ${short(Number(value.toPrecision(3)))}`).join(", ");
    const unarmed = status.readonly ? `read only${would && `: arming would send ${would}`}` : "disarmed";
    const keys = status.insecure ? " · no keys" : "";
    const armed = `${status.armed ? "armed" : unarmed}${status.paused ? ", paused" : ""}${keys}`;
    chip("arming", !status.alive || stopped ? "" : armed, status.armed && !keys ? "good" : "warn");
    chip("held", status.alive && status.goal_held ? "goal held" : "", "warn");
    const rate = status.alive && status.rate && this.layout.mode === "realtime" ? ` · ${short(Number(status.rate.toPrecision(2)))}×` : "";
    chip("clock", status.t === null ? "" : `t = ${status.t.toFixed(1)} s${rate}`, "plain");
    const safe = status.safe_state && status.safe_state !== "nominal" ? ` (safe state: ${status.safe_state.replaceAll("_", " ")})` : "";
    note("fault", status.fault ? `Fault: ${status.fault}${safe}` : "");
    if (status.extra) by("what").textContent = [this.layout.machine, status.extra].join(" · ");
    this.tables.showStatus(status);
  }

  // Whether what is shown is the present; said at once where it is not.
  watch() {
    const { connection } = this;
    const quiet = Math.max(connection.silence, this.quiet ?? 0);
    let text = "";
    if (!connection.open) text = "Connection lost: the page shows old data. Reconnecting …";
    else if (connection.silence > STALE_S) text = `No data from the server of this page for ${connection.silence.toFixed(0)} s: the page shows old data.`;
    else if (this.ended) text = `The page shows old data: ${this.ended}.`;
    else if (this.layout && quiet > STALE_S) text = `No data from the run for ${quiet.toFixed(0)} s: the page shows old data.`;
    note("connection", text);
    document.body.classList.toggle("stale", Boolean(text));
  }

  count() {
    by("pace").textContent = this.frames ? `${this.frames} frames/s` : "";
    document.body.dataset.frames = this.frames;
    this.frames = 0;
  }
}

function chip(id, text, look) {
  const element = by(id);
  element.hidden = !text;
  if (element.textContent !== text) element.textContent = text;
  element.className = `chip ${look}`;
}

function note(id, text) {
  const element = by(id);
  element.hidden = !text;
  if (element.textContent !== text) element.textContent = text;
}

const page = new Page();
