// A machine seen in a plane, drawn on a canvas: grid, guides, paths, goal, outline, arrows with their scale.
//
//   const view = new MachineView(parent, layout);           // `layout` as web/view_data.py `view_layout` gives it
//   view.draw({lines, guides, inertias, arrows, caption, largest}, columns);     // `shapes_data`, and columns by name
//
// Without limits the view follows what it draws. With limits {x: [low, high], y: [low, high]} it keeps them.
// A layout with a projection has points [x, y, z]; dragging turns what is seen. Such a view may have bodies, see
// bodies.js; `draw` is then given their poses too.
"use strict";

const SCENE = {
  room: 0.12, // of the extent, left free on each side
  reach: 1, // m around the machine that a map to click shows, where no range of the goal is stated
  most: 10, // m of a range that is stated
  apart: 1.5, // pixels between two points of a path
  turning: 0.008, // rad per pixel
  pale: [0.45, 0.18], // opacity of what is forbidden, in a plane and in space
  edge: { left: 46, right: 14, top: 8, bottom: 26 }, // pixels around what is drawn
};

class MachineView {
  constructor(parent, layout, limits = null) {
    this.layout = layout;
    this.fixed = limits;
    this.bodies = null; // of a robot, instead of the lines behind them
    this.names = []; // of the arrows, in the order in which they were first seen
    this.title = ""; // that of the layout, unless what is drawn has one of its own
    this.wanted = []; // {name, points} of each path that is asked for, the points as the layout has them; areas: forbidden
    this.figure = parent.appendChild(document.createElement("figure"));
    this.figure.className = "machine";
    this.head = this.figure.appendChild(document.createElement("figcaption"));
    this.canvas = this.figure.appendChild(document.createElement("canvas"));
    this.note = this.figure.appendChild(document.createElement("p"));
    this.note.hidden = true;
    this.forget();
    new ResizeObserver(() => this.resize()).observe(this.canvas);
    if (layout.projection) this.turnByDragging();
    theme.onChange(() => this.again());
  }

  // Drops what was drawn: another run begins.
  forget() {
    this.limits = this.fixed;
    this.last = null;
    this.want([]);
    this.retitle(this.layout.title);
  }

  // Paths are drawn from the rows [first, end) of the columns.
  draw(shapes, columns, end = columns.t ? columns.t.length : 0, first = 0) {
    this.last = [shapes, columns, end, first];
    this.retitle(shapes.title ?? this.title);
    this.meet(shapes.arrows);
    if (shapes.caption) this.say(shapes.caption);
    if (!this.width) return;
    shapes = this.project(shapes);
    this.bodies?.turn(shapes.poses, this.seen);
    const path = (names) => this.pathOf(names.map((name) => columns[name] || []), first, end);
    const paths = this.layout.trails.map((trail) => path(trail.columns));
    const goal = this.layout.goal ? path(this.layout.goal) : null;
    if (!this.fixed) this.follow(shapes, goal ? [...paths, goal] : paths);
    this.place();
    this.paint(shapes, paths, goal);
  }

  // The bodies of web/frames.py, from now on.
  embody(bodies) {
    this.bodies = this.seen && bodies.length ? new Bodies(bodies) : null;
  }

  // turning

  turnByDragging() {
    const [across, up] = (this.seen = this.layout.projection);
    const front = across[0] * up[1] - across[1] * up[0]; // towards the eye, its height
    const from = { turn: Math.atan2(-across[0], across[1]), lift: Math.asin(Math.max(-1, Math.min(1, front))) };
    this.eye = { ...from };
    this.canvas.style.touchAction = "none";
    this.canvas.style.cursor = "grab";
    this.canvas.addEventListener("pointerdown", (event) => this.canvas.setPointerCapture(event.pointerId));
    this.canvas.addEventListener("pointermove", ({ buttons, movementX, movementY }) => {
      if (buttons === 1) this.turn(-SCENE.turning * movementX, SCENE.turning * movementY);
    });
    this.canvas.addEventListener("dblclick", () => this.turn(from.turn - this.eye.turn, from.lift - this.eye.lift));
  }

  turn(about, lift) {
    this.eye.turn += about;
    this.eye.lift = Math.max(-Math.PI / 2, Math.min(Math.PI / 2, this.eye.lift + lift));
    const [c, s, ce, se] = [Math.cos(this.eye.turn), Math.sin(this.eye.turn), Math.cos(this.eye.lift), Math.sin(this.eye.lift)];
    this.seen = [[-s, c, 0], [-c * se, -s * se, ce]];
    this.fixed = null; // limits of a whole run are those of its own direction
    this.again();
  }

  flat(point) {
    if (point.length === 2 || point.includes(null)) return point;
    return this.seen.map((way) => way[0] * point[0] + way[1] * point[1] + way[2] * point[2]);
  }

  project(shapes) {
    if (!this.seen) return shapes;
    const flat = (line) => line.map((point) => this.flat(point));
    const arrows = shapes.arrows.map((each) => ({ ...each, foot: this.flat(each.foot), vector: this.flat(each.vector) }));
    const [lines, guides, inertias] = [shapes.lines, shapes.guides, shapes.inertias].map((lines) => lines.map(flat));
    return { ...shapes, lines, guides, inertias: this.bodies ? [] : inertias, arrows };
  }

  pathOf([across, up, out], first, end) {
    if (!out) return { x: across, y: up, first, end };
    const [x, y] = this.seen.map((way) => Array.from(across, (_, i) => (across[i] === null ? NaN : way[0] * across[i] + way[1] * up[i] + way[2] * out[i])));
    return { x, y, first, end };
  }

  again() {
    if (this.last) this.draw(...this.last);
  }

  resize() {
    const scale = window.devicePixelRatio || 1;
    this.width = this.canvas.clientWidth;
    this.height = this.canvas.clientHeight;
    this.canvas.width = Math.round(this.width * scale);
    this.canvas.height = Math.round(this.height * scale);
    this.pen = this.canvas.getContext("2d");
    this.pen.setTransform(scale, 0, 0, scale, 0, 0);
    this.again();
  }

  // words

  entitle() {
    const { trails, goal } = this.layout;
    this.head.textContent = "";
    const word = (text, style) => {
      const each = this.head.appendChild(document.createElement("span"));
      each.textContent = text;
      each.className = style;
      return each;
    };
    if (this.title) word(this.title, "title");
    trails.forEach((trail, i) => word(trail.name, "key").style.setProperty("--key", `var(--curve-${i % theme.curves.length})`));
    for (const { name, areas } of [...this.wanted, ...(goal ? [{ name: "target" }] : [])]) {
      word(name, areas ? "key area" : "key dashed").style.setProperty("--key", areas ? "var(--guide)" : "var(--goal)");
    }
    this.names.forEach((name, i) => word(name, "key").style.setProperty("--key", `var(--arrow-${i % 3})`));
  }

  retitle(title) {
    if (title === this.title) return;
    this.title = title;
    this.entitle();
  }

  // The paths that the program asks for, from now on.
  want(lines) {
    this.wanted = lines;
    this.entitle();
    this.again();
  }

  meet(arrows) {
    const fresh = arrows.map((arrow) => arrow.name).filter((name) => !this.names.includes(name));
    if (!fresh.length) return;
    this.names.push(...fresh);
    this.entitle();
  }

  say(caption) {
    this.note.hidden = !caption;
    if (this.note.textContent !== caption) this.note.textContent = caption;
  }

  // limits

  follow(shapes, paths) {
    const box = new Bounds();
    for (const line of [...shapes.lines, ...shapes.inertias]) for (const point of line) box.add(point[0], point[1]);
    if (this.layout.strip) for (const line of shapes.guides) for (const point of line) box.add(point[0], point[1]);
    for (const path of paths) for (let i = path.first; i < path.end; i += 1) box.add(path.x[i], path.y[i]);
    this.bodies?.reach(box);
    if (!box.any) return;
    if (this.layout.click?.length) this.reach(box);
    const extent = Math.max(box.right - box.left, box.top - box.bottom) || 1;
    const now = this.limits;
    const inside =
      now && now.x[0] <= box.left && box.right <= now.x[1] && now.y[0] <= box.bottom && box.top <= now.y[1];
    const used = now ? Math.max((box.right - box.left) / (now.x[1] - now.x[0]), (box.top - box.bottom) / (now.y[1] - now.y[0])) : 0;
    if (inside && used >= this.layout.used) return;
    const ahead = now && !this.layout.strip ? 2.5 : 1; // more room where it is heading for
    const room = (beyond) => SCENE.room * extent * (beyond ? ahead : 1);
    this.limits = {
      x: [box.left - room(now && box.left < now.x[0]), box.right + room(now && box.right > now.x[1])],
      y: [box.bottom - room(now && box.bottom < now.y[0]), box.top + room(now && box.top > now.y[1])],
    };
  }

  // Where a click may send the goal: as far as its range, if it is not too wide to see the machine.
  reach(box) {
    const end = (stated, here, way) => {
      const far = stated === null ? SCENE.reach : Math.min(way * (stated - here), SCENE.most);
      return here + way * far;
    };
    const [here, [across, up]] = [[(box.left + box.right) / 2, (box.bottom + box.top) / 2], this.layout.range];
    box.add(end(across[0], here[0], -1), end(up[0], here[1], -1));
    box.add(end(across[1], here[0], 1), end(up[1], here[1], 1));
  }

  // One scale in both directions, the limits in the middle.
  place() {
    const { left, right, top, bottom } = this.edge();
    const limits = this.limits || { x: [-1, 1], y: [-1, 1] };
    const wide = Math.max(this.width - left - right, 10);
    const high = Math.max(this.height - top - bottom, 10);
    const pad = this.fixed ? 1 + 2 * SCENE.room : 1;
    const metre = Math.min(wide / (pad * (limits.x[1] - limits.x[0] || 1)), high / (pad * (limits.y[1] - limits.y[0] || 1)));
    const middle = [(limits.x[0] + limits.x[1]) / 2, (limits.y[0] + limits.y[1]) / 2];
    this.inner = { left, top, wide, high };
    this.metre = metre;
    this.x = (x) => left + wide / 2 + (x - middle[0]) * metre;
    this.y = (y) => top + high / 2 - (y - middle[1]) * metre;
    this.shown = { x: [middle[0] - wide / 2 / metre, middle[0] + wide / 2 / metre], y: [middle[1] - high / 2 / metre, middle[1] + high / 2 / metre] };
  }

  // Where a click on the canvas is, in the unit of the axes; null outside of what is drawn.
  placeOf({ offsetX, offsetY }) {
    if (!this.shown || !this.last) return null;
    const [right, down] = [offsetX - this.inner.left, offsetY - this.inner.top];
    if (right < 0 || down < 0 || right > this.inner.wide || down > this.inner.high) return null;
    return [this.shown.x[0] + right / this.metre, this.shown.y[1] - down / this.metre];
  }

  edge() {
    return this.layout.strip ? { ...SCENE.edge, bottom: 10 } : SCENE.edge;
  }

  // pictures

  paint(shapes, paths, goal) {
    const { pen } = this;
    pen.clearRect(0, 0, this.width, this.height);
    this.paintGrid();
    pen.save();
    pen.beginPath();
    pen.rect(this.inner.left, this.inner.top, this.inner.wide, this.inner.high);
    pen.clip();
    pen.lineJoin = pen.lineCap = "round";
    this.paintAreas(shapes.areas ?? this.wanted.flatMap(({ areas }) => areas ?? []));
    for (const line of [...shapes.guides, ...shapes.inertias]) this.stroke(line, theme.guide, 1);
    const outline = () => shapes.lines.forEach((line) => this.stroke(line, theme.ink, 1.8));
    if (this.bodies) outline();
    this.bodies?.paint(pen, this.x, this.y);
    this.paintWanted();
    if (goal) this.paintGoal(goal, paths);
    paths.forEach((path, i) => this.trace(path, theme.curve(i), 1.8));
    if (!this.bodies) outline();
    if (shapes.largest > 0) this.paintArrows(shapes);
    pen.restore();
    if (shapes.largest > 0 && shapes.arrows.length) this.paintScale(shapes.largest);
  }

  paintGrid() {
    const { pen, inner } = this;
    pen.lineWidth = 1;
    pen.font = `11px ${theme.words}`;
    const step = roundStep(Math.min(90, Math.max(inner.wide, inner.high) / 3) / this.metre);
    const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
    pen.textAlign = "center";
    pen.textBaseline = "top";
    for (const value of ticks(this.shown.x, step)) {
      const x = Math.round(this.x(value)) + 0.5;
      this.rule(x, inner.top, x, inner.top + inner.high);
      if (!this.layout.strip) this.label(value.toFixed(digits), x, inner.top + inner.high + 5);
    }
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    for (const value of ticks(this.shown.y, step)) {
      const y = Math.round(this.y(value)) + 0.5;
      this.rule(inner.left, y, inner.left + inner.wide, y);
      this.label(value.toFixed(digits), inner.left - 6, y);
    }
    this.paintAxisNames();
  }

  paintAxisNames() {
    const { pen, inner } = this;
    const [across, up] = this.layout.axes;
    pen.textAlign = "right";
    pen.textBaseline = "bottom";
    if (across && !this.layout.strip) this.label(across, inner.left + inner.wide - 4, inner.top + inner.high - 3);
    pen.textAlign = "left";
    pen.textBaseline = "top";
    if (up) this.label(up, inner.left + 5, inner.top + 3);
  }

  rule(x0, y0, x1, y1) {
    this.pen.strokeStyle = theme.grid;
    this.pen.beginPath();
    this.pen.moveTo(x0, y0);
    this.pen.lineTo(x1, y1);
    this.pen.stroke();
  }

  label(text, x, y) {
    this.pen.fillStyle = theme.soft;
    this.pen.fillText(text, x, y);
  }

  // A polyline; one of a single point is a dot.
  stroke(line, color, width) {
    const { pen } = this;
    if (line.length === 1) {
      if (finite(line[0])) this.dot(line[0][0], line[0][1], 3.5, color);
      return;
    }
    pen.strokeStyle = color;
    pen.lineWidth = width;
    pen.beginPath();
    let joined = false;
    for (const point of line) {
      if (!finite(point)) joined = false;
      else if (joined) pen.lineTo(this.x(point[0]), this.y(point[1]));
      else {
        pen.moveTo(this.x(point[0]), this.y(point[1]));
        joined = true;
      }
    }
    pen.stroke();
  }

  // A path without the points that lie nearer together than can be seen.
  trace(path, color, width, dash = []) {
    const { pen } = this;
    pen.strokeStyle = color;
    pen.lineWidth = width;
    pen.setLineDash(dash);
    pen.beginPath();
    let [lastX, lastY, joined] = [NaN, NaN, false];
    const end = path.end - 1;
    for (let i = path.first; i <= end; i += 1) {
      if (!Number.isFinite(path.x[i]) || !Number.isFinite(path.y[i])) {
        joined = false; // not known; arithmetic takes null for 0
        continue;
      }
      const [x, y] = [this.x(path.x[i]), this.y(path.y[i])];
      if (!joined) pen.moveTo(x, y);
      else if (i < end && Math.abs(x - lastX) + Math.abs(y - lastY) < SCENE.apart) continue;
      else pen.lineTo(x, y);
      [lastX, lastY, joined] = [x, y, true];
    }
    pen.stroke();
    pen.setLineDash([]);
  }

  paintWanted() {
    this.pen.globalAlpha = 0.55;
    this.pen.setLineDash([8, 4]);
    for (const { points } of this.wanted) this.stroke(points.map((point) => this.flat(point)), theme.goal, 2.4);
    this.pen.setLineDash([]);
    this.pen.globalAlpha = 1;
  }

  // Where the law keeps the machine out: polygons, each of its outer ring and those of holes.
  paintAreas(areas) {
    const { pen } = this;
    for (const rings of areas) {
      pen.beginPath();
      for (const ring of rings) {
        ring.map((point) => this.flat(point)).forEach(([x, y], i) => pen[i ? "lineTo" : "moveTo"](this.x(x), this.y(y)));
        pen.closePath();
      }
      [pen.fillStyle, pen.strokeStyle, pen.lineWidth, pen.globalAlpha] = [theme.guide, theme.guide, 1, SCENE.pale[this.seen ? 1 : 0]];
      pen.fill("evenodd");
      pen.globalAlpha = 1;
      pen.stroke();
    }
  }

  paintGoal(goal, paths) {
    this.trace(goal, theme.goal, 1.4, [5, 4]);
    const here = lastOf(goal);
    const robot = paths.length ? lastOf(paths[0]) : null;
    if (!here) return;
    if (robot) this.stroke([robot, here], theme.goal, 0.8);
    this.dot(here[0], here[1], 4.5, theme.goal);
  }

  dot(x, y, radius, color) {
    this.pen.fillStyle = color;
    this.pen.beginPath();
    this.pen.arc(this.x(x), this.y(y), radius, 0, 2 * Math.PI);
    this.pen.fill();
  }

  // pixels of an arrow of the largest size
  full() {
    return this.layout.longest * Math.min(this.inner.wide, this.inner.high);
  }

  paintArrows({ arrows, largest }) {
    for (const { name, foot, vector } of arrows) {
      const size = finite(vector) && finite(foot) ? Math.hypot(vector[0], vector[1]) : 0;
      if (size <= this.layout.unseen * largest) continue;
      const length = (size / largest) * this.full();
      this.paintArrow(foot, [vector[0] / size, -vector[1] / size], length, theme.arrow(this.names.indexOf(name)));
    }
  }

  paintArrow(foot, along, length, color) {
    const { pen } = this;
    const [x, y] = [this.x(foot[0]), this.y(foot[1])];
    const head = Math.min(12, length);
    const at = (forth, aside) => [x + along[0] * forth - along[1] * aside, y + along[1] * forth + along[0] * aside];
    const corners = [at(0, 1.3), at(length - head, 1.3), at(length - head, 4.5), at(length, 0), at(length - head, -4.5), at(length - head, -1.3), at(0, -1.3)];
    pen.fillStyle = color;
    pen.beginPath();
    corners.forEach((corner, i) => (i ? pen.lineTo(...corner) : pen.moveTo(...corner)));
    pen.fill();
  }

  // A line as long as an arrow of a round size, with that size.
  paintScale(largest) {
    const { pen, inner } = this;
    const known = roundStep(0.7 * largest, false);
    const length = (known / largest) * this.full();
    const low = inner.wide < 260 ? (this.layout.strip ? inner.high - 6 : 36) : 20; // beside the names of the axes
    const [right, y] = [inner.left + inner.wide - 6, inner.top + low];
    pen.strokeStyle = theme.ink;
    pen.lineWidth = 2;
    pen.beginPath();
    pen.moveTo(right - length, y);
    pen.lineTo(right, y);
    pen.stroke();
    pen.textAlign = "right";
    pen.textBaseline = "bottom";
    this.label(`${Number(known.toPrecision(3))} ${this.layout.unit}`, right, y - 3);
  }
}

class Bounds {
  constructor() {
    this.any = false;
    this.left = this.bottom = Infinity;
    this.right = this.top = -Infinity;
  }

  add(x, y) {
    if (x === null || y === null || !Number.isFinite(x) || !Number.isFinite(y)) return;
    this.any = true;
    this.left = Math.min(this.left, x);
    this.right = Math.max(this.right, x);
    this.bottom = Math.min(this.bottom, y);
    this.top = Math.max(this.top, y);
  }
}

function finite(point) {
  return point[0] !== null && point[1] !== null && Number.isFinite(point[0]) && Number.isFinite(point[1]);
}

function lastOf(path) {
  const end = path.end - 1;
  const point = [path.x[end], path.y[end]];
  return end >= path.first && Number.isFinite(point[0]) && Number.isFinite(point[1]) ? point : null;
}

// 1, 2 or 5 times a power of ten: at least the size, or at most.
function roundStep(size, atLeast = true) {
  const power = 10 ** Math.floor(Math.log10(size));
  const found = [1, 2, 5, 10].map((each) => each * power);
  return atLeast ? found.find((each) => each >= size * (1 - 1e-9)) : found.findLast((each) => each <= size * (1 + 1e-9));
}

function* ticks([low, high], step) {
  for (let i = Math.ceil(low / step); i * step <= high; i += 1) yield i * step;
}
