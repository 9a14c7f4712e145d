// A panel of curves over time, drawn by uPlot.
//
//   const panel = new Panel(parent, {title, curves: [{name, column, color, dash, band}], logarithmic, limits, flat, floor}, {onRange});
//   panel.show(columns, from, to);            // columns by name, "t" [s] among them; what of t is shown
//
// Of margins `acts` are the columns that tell when each acts, see `paintActs`.
// A curve with a `band` [column, column] is dashed, and what lies between the two is filled.
// `limits` [low, high] are kept, without them the axis follows what is shown: what varies less than `flat` times its
// size is drawn as a constant, and what is below `floor` is zero. On a logarithmic axis the sizes of the values are shown. `onRange(low, high)` is called when the user has chosen a
// part of the time by dragging, `onRange(null)` when a double click gives that up.
"use strict";

const PLOT = {
  room: 0.12, // of the extent, left free above and below
  used: 0.4, // of the limits; below it they are set anew
  flat: 1e-6, // of a curve to its size, below which it is a constant
  least: 1e-9, // of what is smallest on a logarithmic axis to what is largest
  height: 132, // pixels
  veil: "30", // opacity of a band, in hexadecimal
  low: 112, // pixels, below which only the last of several panels has the times below it
};

const ACTS = {
  lane: 7, // pixels of a lane
  low: 0.45, // of it, while a row acts
  high: 0.85, // the same while it gives way
  least: 1.5, // pixels of a bar
  clipped: 3, // of the column `keeping`
  words: { acts: "--guide", "gives way": "--goal", clipped: "--ink" },
};

const SERIES = { width: 1.6, spanGaps: true, points: { show: false }, pxAlign: 0 };

class Panel {
  constructor(parent, spec, { onRange = null, height = PLOT.height, sync = "servonode" } = {}) {
    this.spec = spec;
    this.onRange = onRange;
    this.bottom = true; // whether it is the last of several
    this.box = parent.appendChild(document.createElement("section"));
    this.box.className = "panel";
    this.values = [];
    this.head = this.box.appendChild(this.header());
    this.body = this.box.appendChild(document.createElement("div"));
    this.body.style.height = height ? `${height}px` : ""; // 0: what the page's style gives it
    this.body.className = "plot";
    this.size = { width: 300, height: height || PLOT.height };
    this.sync = sync;
    this.columns = [...spec.curves.map(({ column }) => column), ...spec.curves.flatMap(({ band }) => band || [])];
    this.forget();
    this.build();
    new ResizeObserver(() => this.resize()).observe(this.body);
    theme.onChange(() => this.rebuild());
  }

  forget() {
    this.limits = null;
    this.range = [0, 1];
    this.data = [[], ...this.columns.map(() => [])];
  }

  // title, and each curve's name with its newest value
  header() {
    const head = document.createElement("header");
    const title = head.appendChild(document.createElement("span"));
    title.className = "title";
    title.textContent = this.spec.title;
    this.spec.curves.forEach(({ name, color }, i) => {
      const key = head.appendChild(document.createElement("span"));
      key.className = color === "goal" ? "key dashed" : "key";
      key.style.setProperty("--key", color === "goal" ? "var(--goal)" : `var(--curve-${(color ?? i) % theme.curves.length})`);
      key.append(this.spec.curves.length > 1 ? `${name} ` : "");
      const value = key.appendChild(document.createElement("output"));
      this.values.push(value);
    });
    for (const [word, color] of this.spec.acts ? Object.entries(ACTS.words) : []) {
      const key = head.appendChild(document.createElement("span"));
      [key.className, key.textContent] = ["key area", word];
      key.style.setProperty("--key", `var(${color})`);
    }
    return head;
  }

  build() {
    this.plot = new uPlot(this.options(), this.data, this.body);
    this.plot.over.addEventListener("dblclick", () => this.onRange?.(null));
  }

  rebuild() {
    this.plot.destroy();
    this.build();
  }

  resize() {
    const [width, height] = [Math.floor(this.body.clientWidth), Math.floor(this.body.clientHeight)];
    if (!width || (width === this.size.width && height === this.size.height)) return;
    this.size = { width, height: Math.max(height, 60) };
    this.plot.setSize(this.size);
  }

  options() {
    const font = `11px ${theme.words}`;
    const line = { stroke: theme.soft, font, grid: { stroke: theme.grid, width: 1 }, ticks: { show: false } };
    return {
      ...this.size,
      legend: { show: false },
      padding: [6 + ACTS.lane * (this.spec.acts?.length ?? 0), 14, 4, 0],
      pxAlign: false,
      cursor: { y: false, sync: { key: this.sync }, drag: { x: true, y: false, setScale: false } },
      hooks: { drawClear: [() => this.paintActs()], setSelect: [(plot) => this.choose(plot)], setCursor: [(plot) => this.tell(plot.cursor.idx)] },
      scales: {
        x: { time: false, range: () => this.range },
        y: { distr: this.spec.logarithmic ? 3 : 1, range: () => this.limits || (this.spec.logarithmic ? [1e-3, 1] : [-1, 1]) },
      },
      axes: [
        { ...line, size: () => (this.timed() ? 20 : 3), gap: 3, space: 70, values: (_, splits) => this.times(splits) },
        { ...line, size: 52, gap: 6, space: 16, ...this.heights() },
      ],
      series: [
        {},
        ...this.spec.curves.map(({ color, dash, band }, i) => ({ ...SERIES, stroke: theme.curve(color ?? i), dash: dash || (band && [5, 3]) })),
        ...this.columns.slice(this.spec.curves.length).map(() => ({ ...SERIES, stroke: "transparent" })),
      ],
      bands: this.bands(),
    };
  }

  // What is filled, each between the last two series that it has added.
  bands() {
    const banded = this.spec.curves.filter(({ band }) => band);
    const first = this.spec.curves.length + 1;
    return banded.map(({ color }, i) => ({ series: [first + 2 * i + 1, first + 2 * i], fill: `${theme.curve(color)}${PLOT.veil}` }));
  }

  // The times below it, the last one with its unit.
  times(splits) {
    const last = splits.length - 1;
    return splits.map((t, i) => (this.timed() ? `${plain(t)}${i === last ? " s" : ""}` : ""));
  }

  // Whether the times stand below it.
  timed() {
    return this.bottom || this.size.height >= PLOT.low;
  }

  // How the values at its left side are chosen and written.
  heights() {
    if (!this.spec.logarithmic) return { values: (_, splits) => splits.map(plain) };
    const most = () => Math.max(2, Math.floor(this.size.height / 24));
    return {
      splits: (_, i, low, high) => powers(low, high, most()),
      filter: (_, splits) => splits,
      values: (_, splits) => splits.map((value) => `1e${Math.round(Math.log10(value))}`.replace("-", "−")),
    };
  }

  choose(plot) {
    const { left, width } = plot.select;
    if (width < 4) return;
    const [low, high] = [plot.posToVal(left, "x"), plot.posToVal(left + width, "x")];
    plot.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
    this.onRange?.(low, high);
  }

  show(columns, from, to) {
    this.range = [from, to];
    if (columns) this.watch(columns);
    this.gather(columns, from, to);
    this.follow();
    this.plot.setData(this.data);
    if (this.plot.cursor.idx === null || this.plot.cursor.left < 0) this.tell(null);
  }

  // What tells when margins act, from now on.
  watch(columns) {
    const { acts } = this.spec;
    if (acts) this.acts = { t: columns.t, lanes: acts.map((name) => columns[name] ?? []), keeping: columns.keeping ?? [] };
  }

  // The forbidden side of zero, and above the curves a bar for each margin: low while a row of it acts, higher and red
  // while it gives way; dark across all of them while the inputs are only clipped.
  paintActs() {
    if (!this.acts) return;
    const { ctx: pen, bbox } = this.plot;
    const { t, lanes, keeping } = this.acts;
    const zero = this.plot.valToPos(0, "y", true);
    pen.save();
    [pen.fillStyle, pen.globalAlpha] = [theme.guide, 0.4];
    pen.fillRect(bbox.left, zero, bbox.width, Math.max(bbox.top + bbox.height - zero, 0));
    [pen.fillStyle, pen.globalAlpha] = [theme.soft, 1];
    pen.fillRect(bbox.left, zero - uPlot.pxRatio / 2, bbox.width, uPlot.pxRatio);
    const lane = ACTS.lane * uPlot.pxRatio;
    lanes.forEach((values, i) => {
      const bottom = bbox.top - (lanes.length - 1 - i) * lane - 2 * uPlot.pxRatio;
      pen.fillStyle = theme.grid;
      pen.fillRect(bbox.left, bottom - ACTS.low * lane, bbox.width, ACTS.low * lane);
      this.bars(t, values, 1, bottom, ACTS.low * lane, theme.curve(this.spec.curves[i].color ?? i));
      this.bars(t, values, -1, bottom, ACTS.high * lane, theme.goal);
    });
    this.bars(t, keeping, ACTS.clipped, bbox.top - 2 * uPlot.pxRatio, lanes.length * lane, theme.ink);
    pen.restore();
  }

  // While values are those wanted; each holds until the next that is known.
  bars(t, values, wanted, bottom, height, color) {
    const { ctx: pen } = this.plot;
    const x = (time) => this.plot.valToPos(Math.min(Math.max(time, this.range[0]), this.range[1]), "x", true);
    const bar = (begin, end) => {
      if (end >= this.range[0] && begin <= this.range[1]) pen.fillRect(x(begin), bottom - height, Math.max(x(end) - x(begin), ACTS.least), height);
    };
    pen.fillStyle = color;
    let [since, last] = [null, 0];
    for (let row = 0; row < t.length; row += 1) {
      if (!Number.isFinite(values[row])) continue;
      last = t[row];
      if ((values[row] === wanted) === (since !== null)) continue;
      if (since !== null) bar(since, last);
      since = since === null ? last : null;
    }
    if (since !== null) bar(since, last);
  }

  // What is said beside a margin at a time: " acts", " gives way", " clipped".
  acting(i, time) {
    if (!this.acts) return "";
    const { t, lanes, keeping } = this.acts;
    const at = (values) => {
      let row = rowAt(t, time + 1e-9) - 1;
      while (row >= 0 && !Number.isFinite(values[row])) row -= 1;
      return values[row];
    };
    if (at(keeping) === ACTS.clipped) return " clipped";
    return { 1: " acts", "-1": " gives way" }[at(lanes[i])] ?? "";
  }

  // The rows that are shown and hold something; times and curves in the arrays that uPlot keeps.
  gather(columns, from, to) {
    const curves = this.columns.map((column) => columns[column] || []);
    const { t } = columns;
    const size = this.spec.logarithmic;
    const [first, last] = [Math.max(rowAt(t, from) - 1, 0), Math.min(rowAt(t, to) + 1, t.length)];
    let n = 0;
    for (let row = first; row < last; row += 1) {
      let known = false;
      for (let i = 0; i < curves.length; i += 1) {
        const raw = curves[i][row];
        const value = size ? Math.abs(raw) : raw;
        const good = raw !== null && Number.isFinite(value) && !(size && value === 0);
        this.data[i + 1][n] = good ? value : null;
        known = known || good;
      }
      if (!known) continue;
      this.data[0][n] = t[row];
      n += 1;
    }
    for (const each of this.data) each.length = n;
  }

  // Limits are set anew where the curves leave them or use little of them, so that nothing jumps in between.
  follow() {
    let [low, high] = this.spec.acts ? [0, 0] : [Infinity, -Infinity];
    for (const curve of this.data.slice(1)) {
      for (const value of curve) {
        if (value === null) continue;
        if (value < low) low = value;
        if (value > high) high = value;
      }
    }
    if (low > high) return;
    const wanted = this.spec.logarithmic ? decades(low, high, this.spec) : withRoom(low, high, this.spec);
    const [bottom, top] = this.limits || [NaN, NaN];
    const scale = this.spec.logarithmic ? Math.log10 : (value) => value;
    const used = (scale(wanted[1]) - scale(wanted[0])) / (scale(top) - scale(bottom));
    const inside = bottom <= Math.max(low, this.spec.logarithmic ? wanted[0] : -Infinity) && high <= top;
    if (!(inside && used >= PLOT.used)) this.limits = wanted;
  }

  // The values at the cursor; without one the newest.
  tell(index) {
    this.values.forEach((output, i) => {
      const curve = this.data[i + 1];
      let at = index ?? curve.length - 1;
      while (at >= 0 && (curve[at] === null || curve[at] === undefined)) at -= 1;
      const text = at >= 0 ? short(curve[at]) + this.acting(i, this.data[0][at]) : "–";
      if (output.textContent !== text) output.textContent = text;
    });
  }
}

// The first row whose time is at least t.
function rowAt(times, t) {
  let [low, high] = [0, times.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle] < t) low = middle + 1;
    else high = middle;
  }
  return low;
}

function decades(low, high, { floor = 0 }) {
  const top = Math.ceil(Math.log10(Math.max(high, floor)) + 1e-9);
  const bottom = Math.floor(Math.log10(Math.max(low, PLOT.least * high, floor)));
  return [10 ** bottom, 10 ** Math.max(top, bottom + 1)];
}

function withRoom(low, high, { flat = PLOT.flat, floor = 0 }) {
  const size = Math.max(Math.abs(low), Math.abs(high));
  if (size <= floor) return [-1, 1];
  if (!(high - low > Math.max(flat * size, floor))) return [low - (0.1 * size || 1), high + (0.1 * size || 1)];
  const room = PLOT.room * (high - low);
  return [low - room, high + room];
}

function short(value) {
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e5)) return value.toExponential(1).replaceAll("-", "−");
  return Number(value.toPrecision(4)).toString().replace("-", "−");
}

function plain(value) {
  return value === null ? "" : short(value);
}

// Whole powers of ten between two sizes, so many at most.
function powers(low, high, most) {
  const [first, last] = [Math.ceil(Math.log10(low) - 1e-6), Math.floor(Math.log10(high) + 1e-6)];
  const step = Math.max(1, Math.ceil((last - first + 1) / most));
  const found = [];
  for (let power = first; power <= last; power += step) found.push(10 ** power);
  return found;
}
