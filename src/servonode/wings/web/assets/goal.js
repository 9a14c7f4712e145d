// A click on a view whose goal has positions from outside sends that place as the goal. What the run answered is shown.
"use strict";

class GoalClick {
  constructor(view, answer) {
    this.view = view;
    this.answer = answer;
    view.canvas.classList.add("clicked");
    const hint = document.createElement("p");
    hint.textContent = "Tap or click the map: the goal goes there.";
    view.canvas.before(hint);
    view.canvas.addEventListener("click", (event) => this.send(event));
  }

  async send(event) {
    const place = this.view.placeOf(event);
    if (!place) return;
    const [text, look] = await this.ask(Object.fromEntries(this.view.layout.click.map((name, i) => [name, place[i]])));
    this.answer.hidden = false;
    this.answer.textContent = text;
    this.answer.className = `note ${look}`;
  }

  async ask(goal) {
    try {
      const response = await fetch("goal", { method: "POST", body: JSON.stringify(goal), signal: AbortSignal.timeout(STOP_MS) });
      if (!response.ok) return [`No goal was sent: ${(await response.text()).trim()}`, "bad"];
      const { done, text } = await response.json();
      return [text, done ? "good" : "bad"];
    } catch (error) {
      return ["No goal was sent: the server of this page does not answer.", "bad"];
    }
  }
}
