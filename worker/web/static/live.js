// Makes pages live. Without it they work too, and are loaded anew by hand.
//
// A page that lives says on its body what is to be looked at again:
//   data-live="#runs,#counts"        the parts, by id: fetched with the page itself, and changed where they have changed
//   data-live-seconds="2"            how often, while somebody looks
//   data-live-events="/api/..."      server-sent events: each makes it look at once (at most twice a second)
"use strict";

(() => {
  const EVENTS = ["submitted", "committed", "interrupted", "resumed", "stop_requested", "stopped", "completed", "errored", "retried",
    "failed", "lost", "resent", "given_back", "handed_on"];
  const SOONEST = 500; // milliseconds between two looks, however much happens
  const { live, liveSeconds = "2", liveEvents } = document.body.dataset;
  const away = document.getElementById("away");
  let last = Date.now(), waiting = 0, busy = false, source = null;
  if (!live) return;

  // What is unfolded stays so, what is being typed stays as it is, and a form that still asks the same thing is left alone.
  Idiomorph.defaults.ignoreActiveValue = true;
  Idiomorph.defaults.callbacks.beforeAttributeUpdated = (name, node) => !(name === "open" && node.tagName === "DETAILS");
  Idiomorph.defaults.callbacks.beforeNodeMorphed = (old, fresh) =>
    !(old.dataset?.keep && old.dataset.keep === fresh.dataset?.keep);

  const look = () => {
    clearTimeout(waiting);
    waiting = 0;
    if (document.hidden) return;
    if (busy) return soon();
    busy = true;
    last = Date.now();
    const [first, ...others] = live.split(",");
    htmx.ajax("GET", location.href, {
      source: document.body, target: first, select: first, swap: "morph:outerHTML",
      selectOOB: others.map((part) => `${part}:morph`).join(","),
    }).catch(() => {}).finally(() => { busy = false; }); // what went wrong is told by the events below
  };

  const soon = () => {
    if (!waiting) waiting = setTimeout(look, Math.max(SOONEST / 5, last + SOONEST - Date.now()));
  };

  // A tab that nobody looks at holds no connection: a browser has six for each server.
  const listen = () => {
    source?.close();
    source = null;
    if (!liveEvents || document.hidden) return;
    source = new EventSource(liveEvents);
    for (const name of EVENTS) source.addEventListener(name, soon);
    source.addEventListener("end", () => { soon(); source.close(); });
  };

  setInterval(() => { if (Date.now() - last >= 900 * liveSeconds) look(); }, 1000 * liveSeconds);
  document.addEventListener("visibilitychange", () => { listen(); if (!document.hidden) soon(); });
  addEventListener("pagehide", () => source?.close());
  for (const name of ["htmx:responseError", "htmx:sendError"]) document.body.addEventListener(name, () => { away.hidden = false; });
  document.body.addEventListener("htmx:afterOnLoad", (event) => { if (event.detail.successful) away.hidden = true; });
  listen();
})();
