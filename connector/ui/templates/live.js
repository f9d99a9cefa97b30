// Follows the store: asks for its epoch, and replaces the page's content when there is a new one.
"use strict";
(() => {
  const EVERY = 1000, AT_LEAST_EVERY = 10000;
  const main = document.getElementById("main"), live = document.getElementById("live");
  let epoch = null, shown = Date.now(), busy = false;

  // What a reader is typing or has selected must not go away.
  const isInUse = () => {
    const active = document.activeElement, selection = getSelection();
    return (active !== null && active.tagName === "INPUT" && main.contains(active))
      || (!selection.isCollapsed && main.contains(selection.anchorNode));
  };
  const offsets = () => Array.from(main.querySelectorAll(".wide"), wide => wide.scrollLeft);
  // A reader of the screen hears what changes here; what is the same is not said again.
  const say = text => { if (live.textContent !== text) live.textContent = text; };

  async function replace() {
    const response = await fetch(location.href, { headers: { Accept: "text/html" } });
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    const fresh = page.getElementById("main");
    if (fresh !== null && !isInUse()) {
      const before = offsets();
      main.replaceChildren(...fresh.childNodes);
      main.querySelectorAll(".wide").forEach((wide, n) => { wide.scrollLeft = before[n] ?? 0; });
      shown = Date.now();
    }
  }

  async function look() {
    if (busy || document.hidden) return;
    busy = true;
    try {
      const answer = await (await fetch("/epoch")).json();
      const changed = epoch !== null && answer.epoch !== epoch;
      if (changed || Date.now() - shown > AT_LEAST_EVERY) await replace();
      epoch = answer.epoch;
      say(`live · epoch ${epoch}`);
    } catch {
      say("not connected");
    } finally {
      busy = false;
    }
  }

  look();
  setInterval(look, EVERY);
})();
