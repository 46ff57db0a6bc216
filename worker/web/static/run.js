// The page of a run: loads older rows as one scrolls, keeps rows that leave the newest page, and copies texts.
// Without this script, the page has links to older rows, and no buttons that copy.
"use strict";

(() => {
  const timeline = document.getElementById("timeline");
  let loaded = null; // where older pages are, once the first one was loaded
  let busy = false;

  // A row that leaves the newest page moves to the older ones, so that none is missing between them.
  const callbacks = typeof Idiomorph === "undefined" ? {} : Idiomorph.defaults.callbacks;
  callbacks.beforeNodeRemoved = (node) => {
    if (!loaded || !node.id?.startsWith("e-") || loaded.contains(node)) return true;
    loaded.querySelector("ol")?.prepend(node.cloneNode(true));
    return true;
  };

  const load = async (link) => {
    if (busy) return;
    busy = true;
    link.textContent = "Loading …";
    try {
      const response = await fetch(link.dataset.part, { headers: { "HX-Request": "true" } });
      if (!response.ok) throw new Error(response.status);
      const part = new DOMParser().parseFromString(await response.text(), "text/html");
      if (!loaded) {
        loaded = document.createElement("div");
        loaded.id = "older-rows";
        timeline.after(loaded);
        document.documentElement.classList.add("scrolls");
      }
      for (const paging of loaded.querySelectorAll(".paging")) paging.remove();
      loaded.append(...part.body.childNodes);
      loaded.querySelector(".paging a:not(.older)")?.remove();
      watch();
    } catch {
      link.textContent = "Older";
    } finally {
      busy = false;
    }
  };

  const sight = typeof IntersectionObserver === "undefined" ? null : new IntersectionObserver((seen) => {
    for (const each of seen) if (each.isIntersecting) load(each.target);
  }, { rootMargin: "600px" });

  const watch = () => {
    sight?.disconnect();
    const link = (loaded ?? timeline)?.querySelector("a.older");
    if (link) sight?.observe(link);
  };

  // The picture of a long run comes after its rows.
  const later = document.getElementById("strip-later");
  if (later) fetch(later.dataset.load, { headers: { "HX-Request": "true" } }).then(async (response) => {
    const whole = new DOMParser().parseFromString(await response.text(), "text/html").getElementById("whole-run");
    if (whole && later.isConnected) steady.change(() => document.getElementById("whole-run").replaceWith(whole));
  }).catch(() => {});

  let waiting = 0;
  const follow = () => {
    waiting = 0;
    watch();
  };
  document.body.addEventListener("htmx:afterSettle", () => { if (!waiting) waiting = setTimeout(follow, 50); });

  document.addEventListener("click", (event) => {
    const button = event.target.closest?.("button.copy");
    if (!button) return;
    const text = document.getElementById(button.dataset.copy)?.textContent ?? "";
    navigator.clipboard?.writeText(text.trim()).then(() => {
      const word = button.textContent;
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = word; }, 1500);
    }, () => {});
  });
  document.documentElement.classList.add("scripted");
  follow();
})();
