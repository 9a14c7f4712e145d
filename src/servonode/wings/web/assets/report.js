// The report of a run that is over: panels of curves with one time axis, the machine at the time that a slider chooses.
"use strict";

const REPORT = {
  longest: 20, // s that playing the whole run takes at most, at the speed chosen at first
  dots: 50, // rows that are shown, below which each is a dot
  high: 176, // pixels of a logarithmic panel
  least: 170, // pixels of a view
  head: 90, // pixels of a view beside what is drawn
  speeds: [0.1, 0.25, 0.5, 1, 2, 5, 10, 20, 50, 100],
};

// Numbers of base64.
function decoded(text, Kind = Float32Array) {
  return new Kind(Uint8Array.from(atob(text || ""), (letter) => letter.charCodeAt(0)).buffer);
}

// What uPlot draws: null is a gap, undefined is joined. A logarithmic axis shows sizes, and has no zero.
function drawable(value, logarithmic) {
  if (!Number.isFinite(value)) return null;
  if (!logarithmic) return value;
  return value === 0 ? undefined : Math.abs(value);
}

class RunPanel extends Panel {
  constructor(parent, spec, { onTime, ...options }) {
    super(parent, spec, spec.logarithmic ? { ...options, height: REPORT.high } : options);
    this.onTime = onTime;
    this.tell(null);
  }

  options() {
    const options = super.options();
    options.series = [
      {},
      ...this.spec.curves.map(({ color, dash, width }, i) => ({
        stroke: theme.curve(color ?? i), width: width ?? 1.5, dash, spanGaps: false,
        points: { show: (plot, series, first, last) => last - first < REPORT.dots, size: 5 },
      })),
    ];
    options.hooks.draw = [() => this.mark()];
    return options;
  }

  build() {
    super.build();
    const { over } = this.plot;
    const line = (style) => {
      const mark = over.appendChild(document.createElement("div"));
      mark.className = `mark ${style}`;
      return mark;
    };
    this.faults = (this.spec.marks || []).map(({ t, text }) => ({ t, element: line("bad"), text }));
    for (const { element, text } of this.faults) element.title = text;
    this.now = line("now");
    let pressed = 0;
    over.addEventListener("mousedown", (event) => { pressed = event.clientX; });
    over.addEventListener("click", (event) => {
      if (Math.abs(event.clientX - pressed) < 4) this.onTime?.(this.plot.posToVal(event.offsetX, "x"));
    });
  }

  // Rows in and beside what is shown.
  gather(_, from, to) {
    const t = this.spec.data[0];
    const [first, last] = [Math.max(rowAt(t, from) - 1, 0), Math.min(rowAt(t, to) + 1, t.length)];
    this.data = this.spec.data.map((column) => column.slice(first, last));
  }

  // All of the time has the limits of the report picture, a part of it those of what it shows.
  follow() {
    this.limits = this.whole ? this.spec.limits ?? null : null;
    if (!this.limits) super.follow();
  }

  show(columns, from, to) {
    const t = this.spec.data[0];
    this.whole = from <= t[0] && t[t.length - 1] <= to;
    super.show(columns, from, to);
  }

  at(t) {
    this.time = t;
    this.mark();
    if (this.plot.cursor.left < 0 || this.plot.cursor.idx === null) this.tell(null);
  }

  // The lines at the slider's time and at faults.
  mark() {
    const put = (element, t) => {
      element.hidden = !(t >= this.range[0] && t <= this.range[1]);
      if (!element.hidden) element.style.left = `${this.plot.valToPos(t, "x")}px`;
    };
    if (!this.faults) return;
    if (this.time !== undefined) put(this.now, this.time);
    for (const { t, element } of this.faults) put(element, t);
  }

  // Without a cursor the values at the slider's time; in a gap no value is shown.
  tell(index) {
    const t = this.data[0];
    const row = index ?? (this.time === undefined ? t.length - 1 : Math.max(rowAt(t, this.time + 1e-9) - 1, 0));
    this.values.forEach((output, i) => {
      const curve = this.data[i + 1];
      let at = row;
      while (at > 0 && curve[at] === undefined) at -= 1;
      output.textContent = Number.isFinite(curve[at]) ? short(curve[at]) : "–";
    });
    this.onTell?.(index === null || index === undefined ? null : t[index]);
  }
}

class RunView extends MachineView {
  // What is much wider than high needs no height.
  fit(width) {
    const { x, y } = this.fixed;
    const wanted = ((y[1] - y[0]) / (x[1] - x[0])) * (1 + 2 * SCENE.room) * width;
    if (wanted > 0) this.figure.style.maxHeight = `${Math.max(wanted, REPORT.least) + REPORT.head}px`;
  }
}

class Report {
  constructor(data) {
    this.data = data;
    this.t = decoded(data.t, Float64Array);
    this.columns = Object.fromEntries(Object.entries(data.columns).map(([name, text]) => [name, decoded(text)]));
    this.instants = decoded(data.instants, Float64Array);
    const [first, last] = this.t.length ? [this.t[0], this.t[this.t.length - 1]] : [0, 0];
    this.span = [first, last > first ? last : first + 1];
    this.time = this.span[1];
    this.panels = [];
    document.body.classList.toggle("bare", !data.views.length);
    this.buildViews();
    for (const spec of data.panels) this.add(spec);
    this.sayZero();
    if (this.instants.length) this.buildPlayer();
    this.buildChoice();
    this.zoom(null);
    this.go(this.time);
  }

  // panels

  add(spec) {
    const curves = spec.curves.map(({ column }) => Array.from(this.columns[column], (value) => drawable(value, spec.logarithmic)));
    const data = [Array.from(this.t), ...curves];
    const options = { onRange: (low, high) => this.zoom(low, high), onTime: (t) => this.go(t) };
    const panel = new RunPanel(document.getElementById("curves"), { ...spec, data, marks: this.data.marks }, options);
    panel.onTell = (t) => this.point(t);
    this.panels.push(panel);
    return panel;
  }

  // What is left out because it is zero.
  sayZero() {
    if (!this.data.zero) return;
    const note = document.getElementById("curves").appendChild(document.createElement("p"));
    [note.id, note.textContent] = ["zero", this.data.zero];
  }

  buildChoice() {
    const box = document.getElementById("curves").appendChild(document.createElement("select"));
    box.id = "more";
    box.setAttribute("aria-label", "Show another curve");
    const option = (text, value) => {
      const each = box.appendChild(document.createElement("option"));
      [each.textContent, each.value] = [text, value];
    };
    option("Show another curve …", "");
    for (const [name, title] of Object.entries(this.data.titles)) option(title, name);
    box.addEventListener("change", () => {
      if (!box.value) return;
      const name = box.value;
      const panel = this.add({ title: this.data.titles[name], logarithmic: false, curves: [{ name, column: name }] });
      box.parentElement.append(box);
      box.value = "";
      panel.show(null, ...this.range);
      panel.at(this.time);
      panel.box.scrollIntoView({ block: "nearest" });
    });
  }

  zoom(low, high) {
    this.range = low === null || !(high > low) ? this.span : [Math.max(low, this.span[0]), Math.min(high, this.span[1])];
    for (const panel of this.panels) panel.show(null, ...this.range);
  }

  // views and time

  buildViews() {
    const parent = document.getElementById("views");
    this.paths = Object.fromEntries(Object.entries(this.data.paths).map(([name, text]) => [name, decoded(text)]));
    const row = this.data.views.length > 1 ? document.createElement("div") : null;
    if (row) row.className = "more";
    this.views = this.data.views.map(({ layout, wanted, limits, largest, shapes }, i) => {
      const view = new RunView(i && row ? row : parent, layout, limits);
      view.want(wanted);
      if (!layout.strip) view.fit(parent.clientWidth);
      return { view, shapes: shapes.map((each) => ({ ...each, largest })) };
    });
    if (row) parent.append(row);
  }

  buildPlayer() {
    const bar = document.createElement("div");
    bar.id = "player";
    const make = (tag, label, fill = {}) => {
      const each = bar.appendChild(Object.assign(document.createElement(tag), fill));
      if (label) each.setAttribute("aria-label", label);
      return each;
    };
    this.button = make("button", "Play", { type: "button", id: "play" });
    this.slider = make("input", "Time", { type: "range", id: "time", min: 0, max: this.instants.length - 1, step: 1 });
    this.clock = make("output", "", { id: "clock" });
    const wanted = Math.max((this.span[1] - this.span[0]) / REPORT.longest, 1);
    this.speed = make("select", "Speed", { id: "speed" });
    for (const each of REPORT.speeds) {
      const option = this.speed.appendChild(document.createElement("option"));
      [option.value, option.textContent] = [each, `${each}×`];
    }
    this.speed.value = REPORT.speeds.find((each) => each >= wanted) ?? REPORT.speeds.at(-1);
    this.slider.addEventListener("input", () => (this.stop(), this.go(this.instants[this.slider.value])));
    this.button.addEventListener("click", () => (this.playing ? this.stop() : this.play()));
    document.addEventListener("keydown", (event) => {
      if (event.key !== " " || ["BUTTON", "SELECT", "SUMMARY", "INPUT"].includes(event.target.tagName)) return;
      event.preventDefault();
      this.button.click();
    });
    const parent = document.getElementById(this.views.length ? "views" : "curves");
    parent.prepend(bar);
    if (this.views.length) parent.append(bar);
    this.stop();
  }

  play() {
    const last = this.instants[this.instants.length - 1];
    if (this.time >= last) this.go(this.instants[0]);
    let before = performance.now();
    const step = (now) => {
      if (!this.playing) return;
      const t = this.time + ((now - before) / 1000) * this.speed.value;
      before = now;
      this.go(t);
      if (t >= last) this.stop();
      else this.playing = requestAnimationFrame(step);
    };
    this.playing = requestAnimationFrame(step);
    this.entitle("Pause");
  }

  stop() {
    cancelAnimationFrame(this.playing);
    this.playing = 0;
    this.entitle("Play");
  }

  entitle(word) {
    this.button.setAttribute("aria-label", word);
    this.button.className = word.toLowerCase();
  }

  go(t) {
    this.time = Math.min(Math.max(t, this.span[0]), this.span[1]);
    const i = Math.max(rowAt(this.instants, this.time + 1e-9) - 1, 0);
    for (const panel of this.panels) panel.at(this.time);
    if (!this.instants.length) return;
    if (i !== this.shown) for (const { view, shapes } of this.views) view.draw(shapes[i], this.paths, this.data.ends[i]);
    this.shown = i;
    this.slider.value = i;
    this.point(null);
  }

  // The time of the cursor, without one that of the slider.
  point(t) {
    if (!this.clock) return;
    this.clock.textContent = `t = ${(t ?? this.time).toFixed(3)} s`;
    this.clock.classList.toggle("cursor", t !== null);
  }
}

const report = new Report(JSON.parse(document.getElementById("data").textContent));
