// The table of runs: completion of the query line, choosing runs, and updates that keep the place.
// Without this script the page works too.
"use strict";

(() => {
  const input = document.getElementById("q");
  const completions = JSON.parse(input.dataset.completions);

  // "/" goes to the query line, unless text is being typed.
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input:not([type=checkbox]), textarea, select, [contenteditable]")) return;
    event.preventDefault();
    input.focus();
    input.setSelectionRange(input.value.length, input.value.length);
  });

  // Completion of the term before the cursor: its key, then its value.
  const list = document.createElement("ul");
  list.className = "completions";
  list.id = "completions";
  list.hidden = true;
  list.setAttribute("role", "listbox");
  list.setAttribute("aria-label", "Completions");
  input.after(list);
  for (const [name, value] of Object.entries({
    role: "combobox", "aria-expanded": "false", "aria-controls": list.id, "aria-autocomplete": "list",
  })) input.setAttribute(name, value);
  let chosen = -1;

  const term = () => /(?:^|\s)(-?)([a-z_]*:)?("[^"]*|[^\s"]*)$/i.exec(input.value.slice(0, input.selectionStart));
  const close = () => {
    list.hidden = true;
    chosen = -1;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  };
  const choose = (place) => {
    chosen = place;
    [...list.children].forEach((item, number) => item.setAttribute("aria-selected", String(number === place)));
    const item = list.children[place];
    if (!item) return input.removeAttribute("aria-activedescendant");
    input.setAttribute("aria-activedescendant", item.id);
    item.scrollIntoView({ block: "nearest" });
  };
  const open = (isAsked = false) => {
    const found = term();
    if (!found || (!isAsked && !found[0].trim())) return close();
    const key = (found[2] ?? "").slice(0, -1).toLowerCase(), begun = found[3].replace(/^"/, "").toLowerCase();
    const known = key ? (completions[key] ?? []).map((value) => [value, ""]) : completions[""].map(([name, what]) => [`${name}:`, what]);
    const fitting = known.filter(([value]) => value.toLowerCase().startsWith(begun) && value.toLowerCase() !== begun).slice(0, 20);
    list.replaceChildren(...fitting.map(([value, what], number) => {
      const item = document.createElement("li"), code = document.createElement("code"), hint = document.createElement("span");
      item.id = `completion-${number}`;
      item.setAttribute("role", "option");
      item.dataset.value = value;
      code.textContent = value;
      hint.className = "quiet";
      hint.textContent = what;
      item.append(code, hint);
      item.addEventListener("mousedown", (event) => { event.preventDefault(); take(value); });
      return item;
    }));
    choose(-1);
    list.hidden = fitting.length === 0;
    input.setAttribute("aria-expanded", String(!list.hidden));
  };
  const take = (value) => {
    const found = term(), at = input.selectionStart;
    const isKey = !found[2];
    const text = !isKey && /[\s"\\]/.test(value) ? `"${value.replace(/[\\"]/g, "\\$&")}"` : value;
    const before = input.value.slice(0, at - found[3].length) + text + (isKey ? "" : " ");
    input.value = before + input.value.slice(at).trimStart();
    input.setSelectionRange(before.length, before.length);
    open();
  };
  input.addEventListener("input", () => open());
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    const count = list.children.length;
    if (event.key === "Escape" && !list.hidden) { event.preventDefault(); close(); return; }
    if (list.hidden) {
      if (event.key === "ArrowDown") { event.preventDefault(); open(true); }
      return;
    }
    if (event.key === "ArrowDown") choose((chosen + 1) % count);
    else if (event.key === "ArrowUp") choose(chosen <= 0 ? count - 1 : chosen - 1);
    else if (event.key === "Enter" && chosen >= 0) take(list.children[chosen].dataset.value);
    else if (event.key === "Tab" && chosen >= 0) take(list.children[chosen].dataset.value);
    else return;
    event.preventDefault();
  });

  // Chosen runs: their number, and a box for all of the page.
  const boxes = () => [...document.querySelectorAll("#runs tbody .pick input")];
  const count = () => {
    const number = boxes().filter((box) => box.checked).length, head = document.getElementById("pick-all");
    const shown = document.getElementById("chosen-count"), all = document.getElementById("choose-all");
    if (shown) shown.textContent = number ? `${number} chosen` : "";
    for (const button of document.querySelectorAll("#choose-runs [name=action]")) button.disabled = !number && !all.checked;
    if (head) {
      head.checked = number > 0 && number === boxes().length;
      head.indeterminate = number > 0 && !head.checked;
    }
  };
  const addHead = () => {
    const cell = document.querySelector("#runs thead .pick");
    if (cell && !document.getElementById("pick-all")) {
      const box = document.createElement("input");
      box.type = "checkbox";
      box.id = "pick-all";
      box.setAttribute("aria-label", "Choose all runs of this page");
      cell.replaceChildren(box);
    }
    count();
  };
  document.addEventListener("change", (event) => {
    if (event.target.id === "pick-all") for (const box of boxes()) box.checked = event.target.checked;
    if (event.target.closest("#runs")) count();
  });
  addEventListener("pageshow", addHead);
  addHead();

  // An update leaves the rows where they are while runs are chosen, the page is scrolled, or the
  // pointer is over them: it changes the rows that are there, and offers new ones.
  const isHeld = () => boxes().some((box) => box.checked) || scrollY > 40
    || document.querySelector("#runs tbody:hover") !== null;
  const parse = (text) => new DOMParser().parseFromString(text, "text/html");
  const keep = globalThis.Idiomorph?.defaults.callbacks;
  if (keep) {
    const before = keep.beforeAttributeUpdated;
    keep.beforeAttributeUpdated = (name, node, kind) =>
      ["checked", "disabled"].includes(name) && node.closest("#runs") ? false : before(name, node, kind);
  }
  document.body.addEventListener("htmx:beforeSwap", (event) => {
    if (event.detail.xhr.status !== 200 || !document.querySelector("#runs tbody") || !isHeld()) return;
    const update = parse(event.detail.serverResponse), rows = [...update.querySelectorAll("#runs tbody tr")];
    if (!rows.length) return;
    event.detail.shouldSwap = false;
    for (const row of rows) {
      const old = document.getElementById(row.id);
      if (old) Idiomorph.morph(old, row);
    }
    const counts = document.querySelector("#runs .counts"), new_counts = update.querySelector("#runs .counts");
    if (counts && new_counts) Idiomorph.morph(counts, new_counts);
    const number = rows.filter((row) => !document.getElementById(row.id)).length;
    const button = document.getElementById("show-new");
    button.hidden = number === 0;
    button.textContent = `${number} new ${number === 1 ? "run" : "runs"}: show`;
  });
  document.body.addEventListener("htmx:afterSettle", addHead);
  document.addEventListener("click", (event) => {
    if (event.target.id === "show-new") location.reload();
  });
})();
