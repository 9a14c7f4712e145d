// The newest rows of a run by column: arrays that grow at their end and are shortened at their begin.
"use strict";

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
