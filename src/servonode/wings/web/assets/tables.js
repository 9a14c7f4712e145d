// The tables of the page. A cell is written only when its text has changed.
"use strict";

class Table {
  constructor(element, heads) {
    this.element = element;
    const row = element.createTHead().insertRow();
    for (const head of heads) {
      const cell = row.appendChild(document.createElement("th"));
      cell.textContent = head;
      cell.scope = "col";
    }
    this.body = element.createTBody();
  }

  show(rows) {
    while (this.body.rows.length > rows.length) this.body.deleteRow(-1);
    rows.forEach((texts, i) => {
      const row = this.body.rows[i] || this.body.insertRow();
      texts.forEach((text, j) => {
        const cell = row.cells[j] || row.insertCell();
        if (cell.textContent !== text) cell.textContent = text;
      });
    });
    this.element.closest("section").hidden = !rows.length;
  }
}

class Tables {
  constructor() {
    const of = (name, heads) => new Table(document.getElementById(name), heads);
    this.timing = of("timing", ["", "", "p50", "p99", "p99.9", "max"]);
    this.residuals = of("residuals", ["", "now", "rms", "max"]);
    this.nodes = of("nodes", ["", "", "fault", "last status"]);
    this.counts = of("counts", ["", "", ""]);
  }

  showStatus(status) {
    const once = (rows) => rows.map((row, i) => (i && rows[i - 1].node === row.node ? "" : row.node));
    const [times, counts] = [once(status.timing), once(status.counts)];
    this.timing.show(status.timing.map((row, i) => [times[i], row.name, ...["p50", "p99", "p999", "max"].map((key) => short(Number(row[key].toPrecision(3))))]));
    this.nodes.show(status.nodes.map((row) => [row.node, row.lifecycle, row.fault, status.alive ? (row.age < 2 ? "now" : `${row.age.toFixed(0)} s ago`) : ""]));
    this.counts.show(status.counts.map((row, i) => [counts[i], row.name, row.count.toLocaleString("en")]));
  }

  // Newest value, root of the mean square and largest size of each residual from a time on.
  showResiduals(residuals, columns, from) {
    this.residuals.show(
      residuals.map(({ name, unit }) => {
        const column = columns[`residual_${name}`] || [];
        let [now, squares, most, n] = [null, 0, 0, 0];
        for (let row = rowAt(columns.t, from); row < column.length; row += 1) {
          const value = column[row];
          if (value === null) continue;
          [now, squares, most, n] = [value, squares + value * value, Math.max(most, Math.abs(value)), n + 1];
        }
        const numbers = n ? [now, Math.sqrt(squares / n), most].map((each) => short(Number(each.toPrecision(2)))) : ["–", "–", "–"];
        return [`${name} [${unit}]`, ...numbers];
      }),
    );
  }
}
