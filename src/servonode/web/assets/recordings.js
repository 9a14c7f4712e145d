// The recordings of the folder: a table, asked for anew while it is looked at. A click opens a report in a new tab.
"use strict";

const RECORDINGS_MS = 5000; // between two questions

class Recordings {
  constructor(section) {
    this.section = section;
    this.table = section.querySelector("table");
    const row = this.table.createTHead().insertRow();
    for (const [text, look] of Recordings.heads) row.append(cell("th", text, look));
    this.body = this.table.createTBody();
    this.shown = "";
    document.addEventListener("visibilitychange", () => this.ask());
    this.ask();
  }

  // What the server does not answer now it may answer later: the page says elsewhere that it does not.
  async ask() {
    clearTimeout(this.timer);
    if (document.visibilityState === "hidden" || this.asking) return;
    this.asking = true;
    try {
      const response = await fetch("recordings");
      if (response.ok) this.show(await response.text());
    } catch (error) {
    } finally {
      this.asking = false;
      this.timer = setTimeout(() => this.ask(), RECORDINGS_MS);
    }
  }

  show(text) {
    if (text === this.shown) return; // a row that is being clicked stays
    this.shown = text;
    const { folder, recordings, more, problem } = JSON.parse(text);
    this.section.hidden = !recordings.length && !problem;
    this.section.querySelector("#folder").textContent = problem || folder;
    this.body.replaceChildren(...recordings.map((each) => this.row(each)));
    const past = document.getElementById("past"); // the way down to the list
    past.hidden = this.section.hidden;
    past.textContent = recordings.length === 1 ? "1 recording" : `${recordings.length + more} recordings`;
    const older = this.section.querySelector("#older");
    older.hidden = !more;
    older.textContent = `and ${more} older`;
  }

  row(each) {
    const row = document.createElement("tr");
    const name = cell("td", "");
    const link = name.appendChild(document.createElement(each.problem || each.waits ? "span" : "a"));
    link.textContent = each.file;
    if (link.tagName === "A") Object.assign(link, { href: `recordings/${each.number}`, target: "_blank", rel: "noopener" });
    const begin = new Date((each.begin_ns ?? each.changed_ns) / 1e6);
    const [what, look] = ending(each);
    row.append(
      name,
      cell("td", each.run ?? ""),
      cell("td", [each.machine, each.program].filter(Boolean).join(" · ")),
      cell("td", begin.toLocaleString("sv")),
      cell("td", each.duration === undefined ? "" : `${each.duration.toFixed(1)} s`, "right"),
      cell("td", size(each.bytes), "right"),
      cell("td", what, look),
    );
    return row;
  }
}

Recordings.heads = [["File"], ["Run"], ["Machine"], ["Begin"], ["Duration", "right"], ["Size", "right"], ["Ended"]];

function cell(kind, text, look = "") {
  const found = document.createElement(kind);
  found.textContent = text;
  found.className = look;
  return found;
}

function size(bytes) {
  const [unit, name] = [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"]].find(([unit]) => bytes >= unit) || [1, "B"];
  return `${(bytes / unit).toFixed(unit > 1 ? 1 : 0)} ${name}`;
}

// How a recording ended, or why it is not shown, and how that looks.
function ending({ problem, waits, faults, ended, damage }) {
  if (problem) return [`not shown: ${problem}`, "soft"];
  if (waits) return ["not read yet", "soft"];
  const how = faults.length ? `fault: ${faults.join(", ")}` : damage && ended !== "completed" ? "" : ended;
  return [[how, damage].filter(Boolean).join("; "), faults.length || damage ? "bad" : ""];
}
