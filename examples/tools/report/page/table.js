// SPDX-License-Identifier: BSL-1.0
// A table that can be sorted by each column, searched, and read to its end.

/** A text that may be broken behind the dots and underscores of a name. */
function breakable(text) {
  return text.split(/(?<=[._/])/).flatMap((part, i) => (i === 0 ? [part] : [document.createElement("wbr"), part]));
}

/** A cell: text, or an element that is made anew for each row. */
function fillCell(cell, content, className = "") {
  cell.className = className;
  if (content instanceof Node || className !== "name") cell.append(content);
  else cell.append(...breakable(content));
}

class SortedTable {
  /** `columns`: {title, key: row → number or text to sort by, show: row → content, className}; `rows`: objects, sorted
   *  at first by column `first`, downwards if `down`; `sum`: chosen rows → what is said of all of them. */
  constructor(host, { caption, columns, rows, first = 0, down = true, page = 40, search = null, sortable = true, sum = null }) {
    Object.assign(this, { sum, host, columns, rows, column: first, down, page, shown: page, search, needle: "", filters: new Set(), sortable });
    this.above = Object.assign(document.createElement("div"), { className: "above" });
    this.table = document.createElement("table");
    this.table.createCaption().className = "heard";
    this.table.caption.textContent = caption;
    this.more = Object.assign(document.createElement("button"), { type: "button" });
    this.more.addEventListener("click", () => { this.shown += 5 * this.page; this.fill(); });
    this.table.classList.toggle("wide", columns.length > 4); // on a narrow screen its rows are stacked
    const scroll = Object.assign(document.createElement("div"), { className: "scroll" });
    scroll.append(this.table);
    host.replaceChildren(this.above, scroll, this.more);
    if (search) this.addSearch(search);
    this.addHead();
    this.body = this.table.createTBody();
    this.summary = Object.assign(document.createElement("span"), { className: "summary" });
    this.summary.setAttribute("role", "status");
    this.above.append(this.summary);
    this.fill();
  }

  addSearch(label) {
    const input = Object.assign(document.createElement("input"), { type: "search", placeholder: label });
    input.setAttribute("aria-label", label);
    input.addEventListener("input", () => { this.needle = input.value.toLowerCase(); this.fill(); });
    this.above.append(input);
  }

  /** A tick box that keeps rows of which `test` is true. */
  addFilter(label, test, on = false) {
    const outer = document.createElement("label"), box = Object.assign(document.createElement("input"), { type: "checkbox" });
    box.addEventListener("change", () => { this.filters[box.checked ? "add" : "delete"](test); this.fill(); });
    box.checked = on && this.rows.some(test);
    if (box.checked) box.dispatchEvent(new Event("change"));
    outer.append(box, ` ${label}`);
    this.above.insertBefore(outer, this.summary);
  }

  addHead() {
    const row = this.table.createTHead().insertRow();
    this.heads = this.columns.map((column, i) => {
      const head = document.createElement("th");
      head.scope = "col";
      head.className = column.className ?? "";
      if (this.sortable && column.key) {
        const button = Object.assign(document.createElement("button"), { type: "button", textContent: column.title });
        button.addEventListener("click", () => this.sortBy(i));
        head.append(button);
      } else head.textContent = column.title;
      row.append(head);
      return head;
    });
  }

  sortBy(i) {
    this.down = this.column === i ? !this.down : typeof this.columns[i].key(this.rows[0] ?? {}) === "number";
    this.column = i;
    this.fill();
  }

  chosenRows() {
    const { key } = this.columns[this.column], sign = this.down ? -1 : 1;
    const text = (row) => this.columns.map((c) => (c.find ? c.find(row) : "")).join(" ").toLowerCase();
    const rows = this.rows.filter((row) => [...this.filters].every((test) => test(row)) && (!this.needle || text(row).includes(this.needle)));
    if (!this.sortable) return rows;
    return rows.map((row) => [key(row), row]).sort(([a], [b]) => sign * (a < b ? -1 : a > b ? 1 : 0)).map(([, row]) => row);
  }

  fill() {
    const rows = this.chosenRows();
    this.heads.forEach((head, i) => {
      if (this.sortable && i === this.column) head.setAttribute("aria-sort", this.down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    this.body.replaceChildren(...rows.slice(0, this.shown).map((row) => this.rowOf(row)));
    this.summary.textContent = this.sum ? this.sum(rows) : "";
    this.more.hidden = rows.length <= this.shown;
    this.more.textContent = `Show more (${showCount(rows.length - this.shown)} left)`;
  }

  rowOf(row) {
    const made = document.createElement("tr");
    if (row.chosen) made.className = "chosen";
    for (const column of this.columns) {
      const cell = made.insertCell();
      cell.dataset.title = column.title;
      fillCell(cell, column.show(row), column.className);
    }
    return made;
  }
}
