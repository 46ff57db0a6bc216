// Updates pages while they are open. Without this script they work too, and are reloaded by hand.
//
// Attributes of a page's body say what to update:
//   data-live="#runs,#counts"        ids of the parts. The whole page is loaded, and changed parts are replaced.
//   data-live-seconds="2"            seconds between two updates while the tab is visible
//   data-live-events="/api/..."      a stream of server-sent events. Each causes an update, at most two a second.
//                                    All items are also dispatched as DOM events `perdure:item`.
"use strict";

// Changes the page, and lets moved elements glide from their old place: nothing jumps below the pointer.
// With `prefers-reduced-motion`, the change takes one frame.
const steady = (() => {
  const MOVES = "footer, main > *, main > section > *, .standing > *, .tile > *, .verdicts > li, .rows > .row, .row > *, tbody > tr, tr > *";
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  let before = null, moving = 0;
  const begin = () => {
    before = new Map();
    for (const each of document.querySelectorAll(MOVES)) {
      const box = each.getBoundingClientRect();
      if (box.height && box.bottom > 0 && box.top < innerHeight) before.set(each, box);
    }
  };
  const end = () => {
    const moved = new Map();
    for (const [each, old] of before ?? []) {
      if (!each.isConnected) continue;
      for (const running of each.getAnimations()) if (running.id === "steady") running.cancel();
    }
    for (const [each, old] of before ?? []) {
      if (!each.isConnected) continue;
      const now = each.getBoundingClientRect();
      moved.set(each, [old.left - now.left, old.top - now.top]);
    }
    before = null;
    const steps = [];
    for (const [each, [x, y]] of moved) {
      let above = each.parentElement;
      while (above && !moved.has(above)) above = above.parentElement;
      const [ofX, ofY] = moved.get(above) ?? [0, 0];
      if (Math.abs(x - ofX) >= 1 || Math.abs(y - ofY) >= 1) steps.push([each, x - ofX, y - ofY]);
    }
    const glides = steps.map(([each, x, y]) =>
      each.animate([{ transform: `translate(${x}px, ${y}px)` }, { transform: "none" }],
        { id: "steady", duration: still.matches ? 1 : 160, easing: "ease-out" }).finished);
    moving += 1;
    Promise.allSettled(glides).then(() => requestAnimationFrame(() => requestAnimationFrame(() => { moving -= 1; })));
  };
  const change = (work) => { begin(); try { work(); } finally { end(); } };
  // One change at a time: an element that is moved during its glide, or in its last frame, jumps.
  // `updating`: a change is about to come.
  const free = () => !made.updating && moving === 0;
  const made = { begin, end, change, free, updating: false };
  return made;
})();

(() => {
  const EVENTS = ["submitted", "committed", "interrupted", "resumed", "stop_requested", "stopped", "completed", "errored", "retried",
    "failed", "lost", "resent", "given_back", "handed_on"];
  const ITEMS = [...EVENTS, "text", "retracted", "trimmed", "waits"];
  const SOONEST = 500; // minimum milliseconds between two updates, however many events come
  const { live, liveSeconds = "2", liveEvents } = document.body.dataset;
  const away = document.getElementById("away");
  let last = Date.now(), waiting = 0, source = null;
  if (!live) return;

  // Unfolded parts stay open, text being typed is kept, and a form for the same question is not replaced.
  Idiomorph.defaults.ignoreActiveValue = true;
  Idiomorph.defaults.callbacks.beforeAttributeUpdated = (name, node) => !(name === "open" && node.tagName === "DETAILS");
  Idiomorph.defaults.callbacks.beforeNodeMorphed = (old, fresh) =>
    !(old.dataset?.keep && old.dataset.keep === fresh.dataset?.keep);

  const update = () => {
    clearTimeout(waiting);
    waiting = 0;
    if (document.hidden) return;
    if (!steady.free()) return updateSoon();
    steady.updating = true;
    last = Date.now();
    const [first, ...others] = live.split(",");
    // Without the fragment: htmx takes it for a selector, and `#worker-host:1` is none.
    htmx.ajax("GET", location.pathname + location.search, {
      source: document.body, target: first, select: first, swap: "morph:outerHTML",
      selectOOB: others.map((part) => `${part}:morph`).join(","),
    }).catch(() => {}).finally(() => { steady.updating = false; }); // the event listeners below report errors
  };

  const updateSoon = () => {
    if (!waiting) waiting = setTimeout(update, Math.max(SOONEST / 5, last + SOONEST - Date.now()));
  };

  // A hidden tab holds no connection, because a browser opens at most six to one server.
  const listen = () => {
    source?.close();
    source = null;
    if (!liveEvents || document.hidden) return;
    source = new EventSource(liveEvents);
    document.dispatchEvent(new Event("perdure:listens"));
    for (const name of EVENTS) source.addEventListener(name, updateSoon);
    for (const name of ITEMS) source.addEventListener(name, (event) => {
      document.dispatchEvent(new CustomEvent("perdure:item", { detail: JSON.parse(event.data) }));
    });
    source.addEventListener("end", () => { updateSoon(); source.close(); });
  };

  setInterval(() => { if (Date.now() - last >= 900 * liveSeconds) update(); }, 1000 * liveSeconds);
  document.addEventListener("visibilitychange", () => { listen(); if (!document.hidden) updateSoon(); });
  addEventListener("pagehide", () => source?.close());
  for (const name of ["htmx:responseError", "htmx:sendError"]) document.body.addEventListener(name, () => { if (away.hidden) steady.change(() => { away.hidden = false; }); });
  document.body.addEventListener("htmx:afterOnLoad", (event) => { if (event.detail.successful && !away.hidden) steady.change(() => { away.hidden = true; }); });
  document.body.addEventListener("htmx:beforeSwap", () => steady.begin());
  document.body.addEventListener("htmx:afterSwap", () => { document.dispatchEvent(new Event("perdure:swapped")); steady.end(); });
  document.addEventListener("perdure:update", updateSoon);
  listen();
})();
