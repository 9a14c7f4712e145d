// The numbers of the run that may change: a slider for each. What a change was answered is shown, and what acts then.
"use strict";

const ANSWER_MS = 25000; // until an answer must have come

class Numbers {
  constructor(card, list, answer) {
    [this.details, this.list, this.answer, this.rows] = [card.querySelector("details"), list, answer, new Map()];
    this.details.addEventListener("toggle", () => this.details.open && this.ask({}));
  }

  // Changes these values; {} only reads. What stands in the sliders afterwards is what acts.
  async ask(values) {
    this.details.classList.add("busy");
    let told = { done: false, text: "The server of this page does not answer." };
    try {
      const body = JSON.stringify(values);
      const response = await fetch("numbers", { method: "POST", body, signal: AbortSignal.timeout(ANSWER_MS) });
      told = response.ok ? await response.json() : { done: false, text: (await response.text()).trim() };
    } catch (error) {
      // the text above says it
    }
    this.details.classList.remove("busy");
    this.say(told, values);
    if (told.numbers) this.show(told.numbers);
    else this.rows.forEach((row) => row.back());
  }

  say({ done, text }, values) {
    this.answer.hidden = !text;
    this.answer.textContent = [...Object.keys(values), text].join(" ");
    this.answer.className = `note ${done ? "good" : "bad"}`;
  }

  show(numbers) {
    const same = numbers.length === this.rows.size && numbers.every(({ key }) => this.rows.has(key));
    if (!same) {
      this.rows = new Map(numbers.map((each) => [each.key, new Slider(each, (value) => this.ask({ [each.key]: value }))]));
      this.list.replaceChildren(...[...this.rows.values()].map((row) => row.element));
    }
    for (const each of numbers) this.rows.get(each.key).show(each);
  }

  // Another run has begun.
  forget() {
    this.rows = new Map();
    this.list.replaceChildren();
    this.answer.hidden = true;
    if (this.details.open) this.ask({});
  }
}

class Slider {
  constructor({ key, unit, text, range }, change) {
    this.element = document.createElement("label");
    this.element.className = "slider";
    this.element.title = `${text} [${unit}]: ${range}`;
    const name = this.element.appendChild(document.createElement("span"));
    name.textContent = key.split(".").slice(1).join(".");
    this.slide = this.element.appendChild(document.createElement("input"));
    this.slide.type = "range";
    this.slide.step = "any";
    this.field = this.element.appendChild(document.createElement("input"));
    this.field.type = "number";
    this.field.step = "any";
    this.element.appendChild(document.createElement("small")).textContent = unit;
    this.slide.addEventListener("input", () => (this.field.value = Number(Number(this.slide.value).toPrecision(4))));
    this.slide.addEventListener("change", () => change(Number(this.field.value)));
    this.field.addEventListener("change", () => (this.field.value === "" ? this.back() : change(Number(this.field.value))));
  }

  show({ value, low, high }) {
    this.acting = { value, low, high };
    [this.slide.min, this.slide.max] = [low, high];
    this.slide.value = value ?? high;
    this.field.value = value ?? "";
  }

  back() {
    this.show(this.acting);
  }
}
