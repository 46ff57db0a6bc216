// The page of a run: the round in flight fills with the text that its model writes.
// Without this script, the text comes with the round's end.
"use strict";

(() => {
  const MOST = 100_000; // characters of a text that are shown: its end
  const said = document.getElementById("live-said");
  let rounds = new Map(); // by step: the attempt, and its texts by kind and part
  let asked = ""; // the attempt whose row was asked for
  let drawing = 0;

  const say = (words) => { if (said && said.textContent !== words) said.textContent = words; };

  // One node of text for each, so that a piece costs the same however long the text is.
  const block = (kind) => {
    const section = document.createElement("section");
    if (kind !== "text") {
      const name = document.createElement("p");
      name.className = "quiet kind";
      name.textContent = kind;
      section.append(name);
    }
    const words = document.createElement("pre");
    words.dir = "auto";
    words.append("");
    section.append(words);
    return section;
  };

  const draw = (swapping) => {
    drawing = 0;
    const box = document.getElementById("live-text");
    const round = box && rounds.get(Number(box.dataset.step));
    const newest = Math.max(-1, ...rounds.keys());
    if (rounds.size && (!box || Number(box.dataset.step) < newest)) {
      const wanted = `${newest}/${rounds.get(newest).attempt}`;
      if (asked !== wanted) document.dispatchEvent(new Event("perdure:update"));
      asked = wanted;
    }
    if (!box) return;
    const fill = () => {
      if (!round) { box.replaceChildren(); return; }
      for (const part of round.parts.values()) {
        if (part.section?.parentNode !== box) {
          part.section = block(part.kind);
          part.length = 0;
          box.append(part.section);
        }
        const node = part.section.querySelector("pre").firstChild;
        if (part.length === 0 || part.text.length < part.length) node.data = part.text;
        else node.appendData(part.text.slice(part.length));
        part.length = part.text.length;
        if (part.length > 2 * MOST) {
          part.text = `…${part.text.slice(-MOST)}`;
          node.data = part.text;
          part.length = part.text.length;
        }
      }
      const live = [...round.parts.values()].map((part) => part.section);
      for (const old of [...box.children]) if (!live.includes(old)) old.remove();
    };
    const follows = box.scrollTop + box.clientHeight >= box.scrollHeight - 24;
    // The box has one height, so the elements below it move only when it appears or disappears.
    if (swapping || (box.childNodes.length > 0) === (round !== undefined)) fill();
    else if (steady.free()) steady.change(fill);
    else drawSoon();
    if (follows) box.scrollTop = box.scrollHeight;
  };
  const drawSoon = () => { if (!drawing) drawing = requestAnimationFrame(() => draw(false)); };

  const hear = {
    text: ({ step, attempt, kind, part, text }) => {
      let round = rounds.get(step);
      if (!round || round.attempt < attempt) rounds.set(step, round = { attempt, parts: new Map() });
      if (round.attempt > attempt) return;
      const key = `${kind}/${part}`;
      if (!round.parts.has(key)) round.parts.set(key, { kind, text: "", length: 0 });
      round.parts.get(key).text += text;
      // Once a round: a screen reader does not read each word.
      say(`Step ${step}: the model is writing.`);
    },
    retracted: ({ step }) => {
      if (rounds.delete(step)) say(`Step ${step}: the attempt was given up, and its text with it.`);
    },
    committed: ({ step }) => {
      // Its text stays until its row comes.
      if (rounds.has(step)) say(`Step ${step}: the text is complete.`);
      setTimeout(() => { rounds.delete(step); }, 5000);
    },
  };

  document.addEventListener("perdure:item", ({ detail }) => {
    if (!hear[detail.type]) return;
    hear[detail.type](detail);
    drawSoon();
  });
  // The stream begins again, with the text of the round so far.
  document.addEventListener("perdure:listens", () => { rounds = new Map(); });
  document.addEventListener("perdure:swapped", () => draw(true));
})();
