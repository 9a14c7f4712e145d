// The websocket on which the server tells what is new. It says nothing more until we say that this was drawn.
"use strict";

class Connection {
  // onMessage(object) and onLost() are called as it happens.
  constructor(onMessage, onLost) {
    this.onMessage = onMessage;
    this.onLost = onLost;
    this.received = performance.now();
    this.open = false;
    this.wait = 250; // ms until the next attempt
    this.connect();
  }

  connect() {
    const address = new URL("feed", location.href);
    address.protocol = location.protocol === "https:" ? "wss:" : "ws:";
    this.socket = new WebSocket(address);
    this.socket.onopen = () => {
      this.open = true;
      this.wait = 250;
    };
    this.socket.onmessage = (event) => {
      this.received = performance.now();
      this.onMessage(JSON.parse(event.data));
    };
    this.socket.onclose = () => {
      this.open = false;
      this.onLost();
      setTimeout(() => this.connect(), this.wait);
      this.wait = Math.min(2 * this.wait, 2000);
    };
  }

  // What was told last has been drawn.
  drawn() {
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send("drawn");
  }

  // Seconds without a message.
  get silence() {
    return (performance.now() - this.received) / 1000;
  }
}
