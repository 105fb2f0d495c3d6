// Light or dark: what the system says, unless the reader chose. Runs before the page is drawn.
const chosen = (() => {
  try { return localStorage.getItem("frazil-theme"); } catch { return null; }
})();
if (chosen) document.documentElement.dataset.theme = chosen;
document.addEventListener("DOMContentLoaded", () => {
  // On a phone the tabs are wider than the screen: show the one that is open.
  document.querySelector(".tabs [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
  const button = document.getElementById("theme");
  if (!button) return;
  button.addEventListener("click", () => {
    const root = document.documentElement;
    const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
    const next = (root.dataset.theme || system) === "dark" ? "light" : "dark";
    root.dataset.theme = next;
    try { localStorage.setItem("frazil-theme", next); } catch { /* a private window */ }
    dispatchEvent(new Event("frazil-theme"));
  });
});
