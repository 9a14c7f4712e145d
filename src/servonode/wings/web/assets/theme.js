// The colours of theme.css for what is drawn on a canvas; read again when the system turns light or dark.
"use strict";

const SHADES = 32; // of a robot's bodies

class Theme {
  constructor() {
    this.listeners = [];
    this.read();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      this.read();
      for (const each of this.listeners) each();
    });
  }

  read() {
    const style = getComputedStyle(document.documentElement);
    const of = (name) => style.getPropertyValue(`--${name}`).trim();
    for (const name of ["card", "ink", "soft", "line", "grid", "guide", "goal"]) this[name] = of(name);
    this.curves = [0, 1, 2, 3, 4, 5, 6, 7].map((i) => of(`curve-${i}`));
    this.arrows = [0, 1, 2].map((i) => of(`arrow-${i}`));
    this.words = of("words");
    const [dark, bright] = ["shaded", "lit"].map((name) => of(name).match(/\w\w/g).map((part) => parseInt(part, 16)));
    const mixed = (i) => dark.map((part, k) => Math.round(part + (i / (SHADES - 1)) * (bright[k] - part)));
    this.bodies = Array.from({ length: SHADES }, (_, i) => `rgb(${mixed(i)})`); // from away from the light to facing it
  }

  // The colour of a curve by its number, or "goal".
  curve(i) {
    return i === "goal" ? this.goal : this.curves[i % this.curves.length];
  }

  arrow(i) {
    return this.arrows[i % this.arrows.length];
  }

  // Calls the function when the colours have changed.
  onChange(listener) {
    this.listeners.push(listener);
  }
}

const theme = new Theme();
