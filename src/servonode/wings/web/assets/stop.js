// The emergency stop: a request of its own, which needs nothing else of this page. What the plant answered is shown.
"use strict";

const STOP_MS = 5000; // until an answer must have come

class StopButton {
  constructor(button, answer) {
    this.button = button;
    this.answer = answer;
    this.presses = 0;
    button.addEventListener("click", () => this.press());
  }

  async press() {
    const press = (this.presses += 1);
    this.button.classList.add("busy");
    this.say("Stopping …", "warn");
    const [text, look] = await this.ask();
    if (press !== this.presses) return; // pressed again: the answer to that counts
    this.button.classList.remove("busy");
    this.say(text, look);
  }

  async ask() {
    try {
      const response = await fetch("stop", { method: "POST", signal: AbortSignal.timeout(STOP_MS) });
      if (!response.ok) return [`NOT STOPPED: ${(await response.text()).trim()} ${StopButton.instead}`, "bad"];
      const { confirmed, text } = await response.json();
      return confirmed ? [`Emergency stop: ${text}`, "good"] : [`STOP NOT CONFIRMED: ${text}. ${StopButton.instead}`, "bad"];
    } catch (error) {
      return [`NOT STOPPED: the server of this page does not answer. ${StopButton.instead}`, "bad"];
    }
  }

  say(text, look) {
    this.answer.hidden = false;
    this.answer.textContent = text;
    this.answer.className = `note ${look}`;
  }

  // Another run has begun: what was said is about the one before.
  forget() {
    this.answer.hidden = true;
  }
}

StopButton.instead = "Use the machine's own stop, or: servonode estop";
