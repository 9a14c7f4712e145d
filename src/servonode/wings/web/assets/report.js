// The report of a run that is over: panels of curves with one time axis, the machine at the time that a slider chooses.
// Another run may be shown in its place, with the first one pale behind it: `Report.take`.
"use strict";

const REPORT = {
  longest: 20, // s that playing the whole run takes at most, at the speed chosen at first
  dots: 50, // rows that are shown, below which each is a dot
  high: 176, // pixels of a logarithmic panel
  least: 170, // pixels of a view
  head: 90, // pixels of a view beside what is drawn
  pieces: 300, // of the time that is shown, at least: as many as the panel has pixels
  pale: 0.3, // opacity of the first run behind another one
  looked: 40, // instants at which another run's machine is looked at, for limits that hold it
  widest: 20, // times the first run's extent that a view shows at most
  rest: 700, // ms at the end of a run before it is played again
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
    new IntersectionObserver(([{ isIntersecting }]) => {
      this.away = !isIntersecting; // from the window
      if (!this.away && this.late) this.show(null, ...this.range);
    }).observe(this.box);
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
    options.hooks.drawAxes = [() => this.paintPale()];
    options.hooks.draw = [() => this.mark()];
    return options;
  }

  // Other rows and faults, the rows of the first run behind them or null. Limits grow at once, and shrink unless they are held.
  take(data, marks, pale, held) {
    [this.spec.data, this.spec.marks, this.pale] = [data, marks, pale];
    if (this.faults) this.markFaults();
    const own = this.spec.limits ?? widened(null, pale ?? data, this.spec);
    const wanted = pale ? widened(own, data, this.spec) : own;
    this.wide = held && this.wide ? joined(this.wide, wanted) : wanted;
  }

  // The first run behind what is shown.
  paintPale() {
    if (!this.behind) return;
    const { plot, spec } = this;
    const { ctx: pen, bbox } = plot;
    const [t, ...curves] = this.behind;
    pen.save();
    pen.beginPath();
    pen.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    pen.clip();
    [pen.globalAlpha, pen.lineWidth] = [REPORT.pale, 1.5 * uPlot.pxRatio];
    curves.forEach((curve, i) => {
      pen.strokeStyle = theme.curve(spec.curves[i].color ?? i);
      pen.setLineDash((spec.curves[i].dash ?? []).map((each) => each * uPlot.pxRatio));
      pen.beginPath();
      let known = false;
      for (let row = 0; row < t.length; row += 1) {
        const value = curve[row];
        if (value === undefined) continue;
        if (value !== null) pen[known ? "lineTo" : "moveTo"](plot.valToPos(t[row], "x", true), plot.valToPos(value, "y", true));
        known = value !== null;
      }
      pen.stroke();
    });
    pen.restore();
  }

  build() {
    super.build();
    const { over } = this.plot;
    this.faults = [];
    this.markFaults();
    this.now = this.line("now");
    let pressed = 0;
    over.addEventListener("mousedown", (event) => { pressed = event.clientX; });
    over.addEventListener("click", (event) => {
      if (Math.abs(event.clientX - pressed) < 4) this.onTime?.(this.plot.posToVal(event.offsetX, "x"));
    });
  }

  line(style, title = "") {
    const mark = this.plot.over.appendChild(document.createElement("div"));
    [mark.className, mark.title] = [`mark ${style}`, title];
    return mark;
  }

  markFaults() {
    for (const { element } of this.faults) element.remove();
    this.faults = (this.spec.marks || []).map(({ t, text }) => ({ t, element: this.line("bad", text) }));
  }

  // Rows in and beside what is shown, those of the first run too.
  gather(_, from, to) {
    const pieces = Math.max(this.size.width, REPORT.pieces);
    this.data = gathered(this.spec.data, from, to, pieces, this.spec.logarithmic);
    this.behind = this.pale && gathered(this.pale, from, to, pieces, this.spec.logarithmic);
  }

  // All of the time has the limits of the report picture, a part of it those of what it shows.
  follow() {
    this.limits = this.whole ? this.wide ?? this.spec.limits ?? null : null;
    if (!this.limits) super.follow();
  }

  // held: a panel that nobody sees is drawn later.
  show(columns, from, to, held = false) {
    this.range = [from, to];
    this.late = held && this.away;
    if (this.late) return;
    const t = this.spec.data[0];
    this.whole = !t.length || (from <= t[0] && t[t.length - 1] <= to);
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
    const [t, ...curves] = this.spec.data;
    const time = index === null || index === undefined ? null : this.data[0][index];
    const row = Math.max(rowAt(t, (time ?? this.time ?? Infinity) + 1e-9) - 1, 0);
    this.values.forEach((output, i) => {
      let at = row;
      while (at > 0 && drawable(curves[i][at], this.spec.logarithmic) === undefined) at -= 1;
      const value = drawable(curves[i][at], this.spec.logarithmic);
      output.textContent = Number.isFinite(value) ? short(value) + this.acting(i, time ?? this.time ?? Infinity) : "–";
    });
    this.onTell?.(time);
  }
}

class RunView extends MachineView {
  // What is much wider than high needs no height.
  fit(width) {
    const { x, y } = this.fixed;
    const wanted = ((y[1] - y[0]) / (x[1] - x[0])) * (1 + 2 * SCENE.room) * width;
    if (wanted > 0) this.figure.style.maxHeight = `${Math.max(wanted, REPORT.least) + REPORT.head}px`;
  }

  // Limits that hold another run too; a view that was turned follows what it draws.
  take(run, k, own, held) {
    if (!this.fixed) return;
    const box = new Bounds();
    for (const pair of [...this.layout.trails.map(({ columns }) => columns), ...(this.layout.goal ? [this.layout.goal] : [])]) {
      const { x, y } = this.pathOf(pair.map((name) => run.paths[name] ?? []), 0, 0);
      for (let i = 0; i < x.length; i += 1) box.add(x[i], y[i]);
    }
    const step = Math.max(1, Math.floor(run.instants.length / REPORT.looked));
    for (let i = 0; i < run.instants.length; i += step) {
      const shapes = run.shapes(i, k);
      for (const line of shapes ? this.project(shapes).lines : []) for (const [x, y] of line) box.add(x, y);
    }
    const room = REPORT.widest * Math.max(own.x[1] - own.x[0], own.y[1] - own.y[0]);
    const within = (low, high, [from, to]) => [Math.max(Math.min(low, from), from - room), Math.min(Math.max(high, to), to + room)];
    const wanted = { x: within(box.left, box.right, own.x), y: within(box.bottom, box.top, own.y) };
    this.fixed = held ? { x: joined(this.fixed.x, wanted.x), y: joined(this.fixed.y, wanted.y) } : wanted;
    this.limits = this.fixed;
  }

  // The first run stands behind the other one: its paths, and its machine at the same time.
  paintWanted() {
    super.paintWanted();
    if (!this.pale) return;
    const { shapes, columns, end } = this.pale;
    this.pen.globalAlpha = REPORT.pale;
    const path = (names) => this.pathOf(names.map((name) => columns[name] || []), 0, end);
    this.layout.trails.forEach((trail, i) => this.trace(path(trail.columns), theme.curve(i), 1.8));
    for (const line of this.project(shapes).lines) this.stroke(line, theme.ink, 1.6);
    this.pen.globalAlpha = 1;
  }

  // A machine of which nothing but its paths is known: a dot at the end of each.
  dots(columns, end) {
    const last = (names) => names.map((name) => columns[name]?.[end - 1] ?? NaN);
    return { lines: this.layout.trails.map((trail) => [last(trail.columns)]), guides: [], inertias: [], arrows: [], caption: "" };
  }
}

// The rows of some time as they are drawn; of many rows the lowest and the highest value of each piece.
function gathered([t, ...columns], from, to, pieces, logarithmic) {
  const [first, last] = [Math.max(rowAt(t, from) - 1, 0), Math.min(rowAt(t, to) + 1, t.length)];
  const count = last - first;
  if (count <= 2 * pieces) {
    return [Array.from(t.slice(first, last)), ...columns.map((column) => Array.from(column.slice(first, last), (value) => drawable(value, logarithmic)))];
  }
  const start = (piece) => first + Math.floor((piece * count) / pieces);
  const times = new Array(2 * pieces);
  for (let i = 0; i < pieces; i += 1) [times[2 * i], times[2 * i + 1]] = [t[start(i)], t[start(i + 1) - 1]];
  return [times, ...columns.map((column) => {
    const found = new Array(2 * pieces).fill(null);
    for (let i = 0; i < pieces; i += 1) {
      let [low, high] = [-1, -1];
      for (let row = start(i); row < start(i + 1); row += 1) {
        const value = drawable(column[row], logarithmic);
        if (value === null || value === undefined) continue;
        if (low < 0 || value < drawable(column[low], logarithmic)) low = row;
        if (high < 0 || value > drawable(column[high], logarithmic)) high = row;
      }
      if (low < 0) continue;
      found[2 * i] = drawable(column[Math.min(low, high)], logarithmic);
      found[2 * i + 1] = drawable(column[Math.max(low, high)], logarithmic);
    }
    return found;
  })];
}

// The least range that holds both.
function joined([low, high], [from, to]) {
  return [Math.min(low, from), Math.max(high, to)];
}

// Limits that hold what they held, and these rows with some room.
function widened(own, [, ...curves], spec) {
  let [low, high] = [Infinity, -Infinity];
  for (const curve of curves) {
    for (const value of curve) {
      const size = drawable(value, spec.logarithmic);
      if (size === null || size === undefined) continue;
      if (size < low) low = size;
      if (size > high) high = size;
    }
  }
  if (low > high || (own && own[0] <= low && high <= own[1])) return own;
  if (own && !spec.logarithmic) [low, high] = joined(own, [low, high]);
  const wanted = spec.logarithmic ? decades(low, high, spec) : withRoom(low, high, spec);
  if (!own) return wanted;
  return [low < own[0] ? Math.min(wanted[0], own[0]) : own[0], high > own[1] ? Math.max(wanted[1], own[1]) : own[1]];
}

class Report {
  constructor(data) {
    this.data = data;
    const numbers = (texts) => Object.fromEntries(Object.entries(texts).map(([name, text]) => [name, decoded(text)]));
    this.first = {
      t: decoded(data.t, Float64Array),
      columns: numbers(data.columns),
      instants: decoded(data.instants, Float64Array),
      ends: data.ends,
      paths: numbers(data.paths),
      marks: data.marks,
      shapes: (i, k) => data.views[k].shapes[i],
      largest: data.views.map(({ largest }) => largest),
    };
    this.run = this.first;
    this.span = this.spanOf(this.first);
    this.time = this.span[1];
    this.panels = [];
    document.body.classList.toggle("bare", !data.views.length);
    this.buildViews();
    for (const spec of data.panels) this.add(spec);
    this.sayZero();
    if (this.first.instants.length) this.buildPlayer();
    this.buildChoice();
    this.zoom(null);
    this.go(this.time);
  }

  spanOf({ t }) {
    const [first, last] = t.length ? [t[0], t[t.length - 1]] : [0, 0];
    return [first, last > first ? last : first + 1];
  }

  // Shows another run, of {t, columns, instants, ends, paths, marks, shapes, largest}, with the first one behind it; null:
  // the first alone. held: more of the kind follow at once, so that nothing gets smaller yet.
  take(run, held = false) {
    this.run = run ?? this.first;
    const [whole, last] = [this.range === this.span, this.time >= this.span[1]];
    this.span = joined(this.spanOf(this.first), this.spanOf(this.run));
    for (const panel of this.panels) this.fill(panel, held);
    this.views.forEach(({ view, own }, k) => {
      view.take(this.run, k, own, held);
      const wanted = this.run.wanted?.[k] ?? this.data.views[k].wanted;
      if (wanted !== view.wanted) view.want(wanted);
    });
    if (this.slider) this.slider.max = Math.max(this.run.instants.length - 1, 0);
    this.shown = undefined;
    this.zoom(...(whole ? [null, null] : this.range), held);
    this.go(last ? this.span[1] : this.time);
  }

  // panels

  rowsOf(spec, { t, columns }) {
    return [t, ...spec.curves.map(({ column }) => columns[column] ?? new Float32Array(t.length).fill(NaN))];
  }

  fill(panel, held) {
    const other = this.run !== this.first;
    panel.watch({ ...this.run.columns, t: this.run.t });
    panel.take(other ? this.rowsOf(panel.spec, this.run) : panel.rows, this.run.marks, other ? panel.rows : null, held);
  }

  add(spec) {
    const data = this.rowsOf(spec, this.first);
    const options = { onRange: (low, high) => this.zoom(low, high), onTime: (t) => this.go(t) };
    const panel = new RunPanel(document.getElementById("curves"), { ...spec, data, marks: this.first.marks }, options);
    panel.rows = data;
    panel.watch({ ...this.first.columns, t: this.first.t });
    panel.onTell = (t) => this.point(t);
    this.panels.push(panel);
    if (this.run !== this.first) this.fill(panel, false);
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

  zoom(low, high, held = false) {
    this.range = low === null || !(high > low) ? this.span : [Math.max(low, this.span[0]), Math.min(high, this.span[1])];
    for (const panel of this.panels) panel.show(null, ...this.range, held);
  }

  // views and time

  buildViews() {
    const parent = document.getElementById("views");
    const row = this.data.views.length > 1 ? document.createElement("div") : null;
    if (row) row.className = "more";
    this.views = this.data.views.map(({ layout, wanted, limits }, i) => {
      const view = new RunView(i && row ? row : parent, layout, limits);
      view.want(wanted);
      if (!layout.strip) view.fit(parent.clientWidth);
      return { view, own: limits };
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
    this.slider = make("input", "Time", { type: "range", id: "time", min: 0, max: this.first.instants.length - 1, step: 1 });
    this.clock = make("output", "", { id: "clock" });
    const wanted = Math.max((this.span[1] - this.span[0]) / REPORT.longest, 1);
    this.speed = make("select", "Speed", { id: "speed" });
    for (const each of REPORT.speeds) {
      const option = this.speed.appendChild(document.createElement("option"));
      [option.value, option.textContent] = [each, `${each}×`];
    }
    this.speed.value = REPORT.speeds.find((each) => each >= wanted) ?? REPORT.speeds.at(-1);
    this.slider.addEventListener("input", () => (this.stop(), this.go(this.run.instants[this.slider.value])));
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

  // From here to the end, and again from the beginning.
  play() {
    let [before, ended] = [performance.now(), 0];
    if (this.time >= this.span[1]) this.go(this.span[0]);
    const step = (now) => {
      if (!this.playing) return;
      this.playing = requestAnimationFrame(step);
      const t = this.time + ((now - before) / 1000) * this.speed.value;
      before = now;
      if (this.time < this.span[1]) [ended] = [now, this.go(t)];
      else if (now - ended > REPORT.rest) this.go(this.span[0]);
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
    for (const panel of this.panels) panel.at(this.time);
    const i = this.rowIn(this.run);
    if (!this.slider) return;
    const beside = this.run === this.first ? -1 : this.rowIn(this.first);
    if (`${i} ${beside}` !== this.shown) this.views.forEach(({ view }, k) => this.draw(view, k, i, beside));
    this.shown = `${i} ${beside}`;
    this.slider.value = i;
    this.point(null);
  }

  rowIn({ instants }) {
    return Math.max(rowAt(instants, this.time + 1e-9) - 1, 0);
  }

  draw(view, k, i, beside) {
    const { run, first } = this;
    view.pale = beside < 0 ? null : { shapes: first.shapes(beside, k), columns: first.paths, end: first.ends[beside] };
    const shapes = run.shapes(i, k) ?? view.dots(run.paths, run.ends[i]);
    view.draw({ ...shapes, largest: run.largest[k] }, run.paths, run.ends[i]);
  }

  // The time of the cursor, without one that of the slider.
  point(t) {
    if (!this.clock) return;
    this.clock.textContent = `t = ${(t ?? this.time).toFixed(3)} s`;
    this.clock.classList.toggle("cursor", t !== null);
  }
}

// In a page of others the machine is shown with its player and some sliders alone.
document.body.classList.toggle("figure", location.hash.slice(1).split("&").includes("figure"));
const report = new Report(JSON.parse(document.getElementById("data").textContent));
