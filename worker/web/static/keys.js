// Keyboard shortcuts. Every page works without them. The sheet (?) lists them.
"use strict";

(() => {
  const sheet = document.getElementById("shortcuts");
  const address = (name) => document.querySelector(`[data-key="${name}"]`)?.href;
  let begun = 0; // when g was pressed

  const step = (by) => {
    const links = [...document.querySelectorAll("main .rows .step a, main tbody a.goal, main .verdicts a.goal")];
    if (!links.length) return;
    const at = links.indexOf(document.activeElement);
    links[Math.min(Math.max(at + by, 0), links.length - 1)].focus();
  };

  document.addEventListener("keydown", (event) => {
    const { key, target } = event;
    if (event.ctrlKey || event.metaKey || event.altKey || target.closest?.("input, textarea, select, [contenteditable], dialog[open]")) return;
    const second = Date.now() - begun < 1500;
    begun = 0;
    if (second && address(key)) location.href = address(key);
    else if (key === "g") begun = Date.now();
    else if (key === "?") sheet?.showModal();
    else if (key === "n" && address("n")) location.href = address("n");
    else if (key === "j") step(1);
    else if (key === "k") step(-1);
    else if (key === "/") {
      const field = document.querySelector("main [type=search], main form[role=search] input");
      if (!field) { location.href = address("r"); return; }
      event.preventDefault();
      field.focus();
    }
  });

  // A choice of a form that only shows another page needs no button.
  for (const choice of document.querySelectorAll("select[data-submit]")) choice.addEventListener("change", () => choice.form.requestSubmit());
})();
