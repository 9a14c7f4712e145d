// The bodies of a robot, drawn on a canvas as flat triangles, the nearest last, each as bright as it faces the light.
//
//   const bodies = new Bodies([{points: [x, y, z, ...], triangles: [i, j, k, ...]}, ...]);      // web/frames.py
//   bodies.turn(poses, [across, up]);     // of each body x, y, z and its rotation by rows; two directions of the picture
//   bodies.paint(pen, (across) => pixel, (up) => pixel);
"use strict";

const LIGHT = [-0.35, 0.6, 0.72]; // across, up and towards the eye

class Bodies {
  constructor(bodies) {
    this.bodies = bodies;
    const ends = [0];
    for (const { points } of bodies) ends.push(ends.at(-1) + points.length / 3);
    this.corners = Uint32Array.from(bodies.flatMap(({ triangles }, i) => triangles.map((corner) => ends[i] + corner)));
    this.seen = new Float64Array(3 * ends.at(-1)); // across, up, towards the eye; of each point
    this.depth = new Float64Array(this.corners.length / 3);
    this.shade = new Uint8Array(this.depth.length);
    this.order = Uint32Array.from(this.depth.keys());
  }

  turn(poses, [across, up]) {
    const near = [across[1] * up[2] - across[2] * up[1], across[2] * up[0] - across[0] * up[2], across[0] * up[1] - across[1] * up[0]];
    const ways = [across, up, near];
    let end = 0;
    this.bodies.forEach(({ points }, i) => {
      const [x, y, z, ...rotation] = poses[i];
      ways.forEach((way, k) => {
        const turned = [0, 1, 2].map((column) => way[0] * rotation[column] + way[1] * rotation[3 + column] + way[2] * rotation[6 + column]);
        const shift = way[0] * x + way[1] * y + way[2] * z;
        for (let at = 0; at < points.length; at += 3) {
          this.seen[end + at + k] = shift + turned[0] * points[at] + turned[1] * points[at + 1] + turned[2] * points[at + 2];
        }
      });
      end += points.length;
    });
    for (let i = 0; i < this.depth.length; i += 1) this.face(i);
    this.order.sort((one, other) => this.depth[one] - this.depth[other]);
  }

  // Depth and brightness of a triangle; it has no inside, since the order of its corners may be wrong in a file.
  face(i) {
    const { seen, corners } = this;
    const [a, b, c] = [3 * corners[3 * i], 3 * corners[3 * i + 1], 3 * corners[3 * i + 2]];
    const [ux, uy, uz] = [seen[b] - seen[a], seen[b + 1] - seen[a + 1], seen[b + 2] - seen[a + 2]];
    const [vx, vy, vz] = [seen[c] - seen[a], seen[c + 1] - seen[a + 1], seen[c + 2] - seen[a + 2]];
    const [nx, ny, nz] = [uy * vz - uz * vy, uz * vx - ux * vz, ux * vy - uy * vx];
    const size = Math.sign(nz || 1) * Math.hypot(nx, ny, nz) || 1;
    const facing = (nx * LIGHT[0] + ny * LIGHT[1] + nz * LIGHT[2]) / size;
    this.shade[i] = Math.round((SHADES - 1) * Math.max(0, Math.min(1, facing)));
    this.depth[i] = seen[a + 2] + seen[b + 2] + seen[c + 2];
  }

  // Adds what is seen to bounds.
  reach(bounds) {
    for (let at = 0; at < this.seen.length; at += 3) bounds.add(this.seen[at], this.seen[at + 1]);
  }

  paint(pen, x, y) {
    const { seen, corners } = this;
    pen.lineWidth = 0.6; // else the ground shows between two triangles
    for (const i of this.order) {
      const [a, b, c] = [3 * corners[3 * i], 3 * corners[3 * i + 1], 3 * corners[3 * i + 2]];
      pen.fillStyle = pen.strokeStyle = theme.bodies[this.shade[i]];
      pen.beginPath();
      pen.moveTo(x(seen[a]), y(seen[a + 1]));
      pen.lineTo(x(seen[b]), y(seen[b + 1]));
      pen.lineTo(x(seen[c]), y(seen[c + 1]));
      pen.closePath();
      pen.fill();
      pen.stroke();
    }
  }
}
