"use strict";

// Single keys press the button that names them; they can be switched off.
const keys = document.getElementById("keys");
if (keys) {
  keys.checked = localStorage.getItem("keys") !== "off";
  keys.parentElement.hidden = false;
  keys.addEventListener("change", () => localStorage.setItem("keys", keys.checked ? "on" : "off"));
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input:not([type=checkbox]), select, textarea");
    const native = event.key === " " && event.target.closest("a, button, summary, input");
    const held = event.ctrlKey || event.metaKey || event.altKey || event.repeat;
    if (!keys.checked || typing || native || held) return;
    const button = document.querySelector(`[data-key="${CSS.escape(event.key.toLowerCase())}"]`);
    if (!button || button.disabled) return;
    event.preventDefault();
    button.click();
  });
}

// A form is sent once, however often its button is pressed.
for (const form of document.querySelectorAll("form[method=post]")) {
  form.addEventListener("submit", (event) => {
    if (form.dataset.sent) event.preventDefault();
    form.dataset.sent = "yes";
  });
}
addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("form[data-sent]")) delete form.dataset.sent;
});

// Part of a page as it is by now; null where it cannot be had.
async function fresh(address, ...selectors) {
  const answer = await fetch(address).catch(() => null);
  if (answer?.redirected) location.reload();
  if (!answer || answer.redirected || answer.status >= 500) return null;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  return selectors.map((selector) => page.querySelector(selector)).find((part) => part);
}

// What is marked as live is fetched anew, unless somebody looks elsewhere, works in it or stopped it.
const shown = document.querySelector("[data-live]");
const live = document.getElementById("live");
if (shown && live) {
  live.parentElement.hidden = false;
  setInterval(async () => {
    if (!live.checked || document.hidden || shown.contains(document.activeElement)) return;
    const part = await fresh(location.href, "[data-live]");
    if (part && part.innerHTML !== shown.innerHTML) shown.replaceChildren(...part.childNodes);
  }, 3000);
}

// Bounds that are dragged are tried at once.
const bounds = document.getElementById("try");
if (bounds) {
  let pause;
  bounds.addEventListener("input", (event) => {
    event.target.parentElement.querySelector("output").value = event.target.value;
    clearTimeout(pause);
    pause = setTimeout(async () => {
      const asked = new URLSearchParams(new FormData(bounds));
      const part = await fresh(`${location.pathname}?${asked}`, "#tried", ".notice");
      if (part) document.getElementById("tried").replaceChildren(...part.childNodes);
    }, 150);
  });
}
