// Makes pages live. Without it they work too, and are loaded anew by hand.
//
// A page that lives says on its body what is to be looked at again:
//   data-live="#runs,#counts"        the parts, by id: fetched with the page itself, and changed where they have changed
//   data-live-seconds="2"            how often, while somebody looks
//   data-live-events="/api/..."      server-sent events: each makes it look at once (at most twice a second)
"use strict";

(() => {
  const EVENTS = ["submitted", "committed", "interrupted", "resumed", "stop_requested", "stopped", "completed", "errored", "retried",
    "failed", "lost", "resent", "given_back"];
  const SOONEST = 500; // milliseconds between two looks, however much happens
  const body = document.body;
  const away = document.getElementById("away");
  let last = 0, waiting = 0, busy = false;

  // What is unfolded stays so, what is being typed stays as it is, and a form that still asks the same thing is left alone.
  Object.assign(Idiomorph.defaults, { ignoreActiveValue: true, restoreFocus: true });
  Idiomorph.defaults.callbacks.beforeAttributeUpdated = (name, node) => !(name === "open" && node.tagName === "DETAILS");
  Idiomorph.defaults.callbacks.beforeNodeMorphed = (old, fresh) =>
    !(old.dataset && old.dataset.keep && fresh.dataset && old.dataset.keep === fresh.dataset.keep);

  const look = () => {
    clearTimeout(waiting);
    waiting = 0;
    if (busy || document.hidden) return;
    busy = true;
    last = Date.now();
    const parts = body.dataset.live.split(",");
    htmx.ajax("GET", location.href, {
      source: body,
      target: parts[0],
      swap: "morph:outerHTML",
      select: parts[0],
      selectOOB: parts.slice(1).map((part) => `${part}:morph`).join(","),
    }).finally(() => { busy = false; });
  };

  const soon = () => {
    if (!waiting) waiting = setTimeout(look, Math.max(0, last + SOONEST - Date.now()));
  };

  if (!body.dataset.live) return;
  setInterval(() => { if (Date.now() - last >= 900 * (body.dataset.liveSeconds || 2)) look(); }, 1000 * (body.dataset.liveSeconds || 2));
  document.addEventListener("visibilitychange", () => { if (!document.hidden) soon(); });
  for (const name of ["htmx:responseError", "htmx:sendError"]) body.addEventListener(name, () => { away.hidden = false; });
  body.addEventListener("htmx:afterOnLoad", () => { away.hidden = true; });
  if (body.dataset.liveEvents && window.EventSource) {
    const source = new EventSource(body.dataset.liveEvents);
    for (const name of ["message", ...EVENTS]) source.addEventListener(name, soon);
  }
})();
