// Parts of a page that take the server longer: asked for until they are ready.

async function load(panel) {
  for (let tries = 0; ; tries++) {
    let found;
    try {
      found = await fetch(panel.dataset.panel);
    } catch {
      panel.replaceChildren(problem("The server does not answer."));
      return;
    }
    if (found.status === 202) {
      await new Promise((done) => setTimeout(done, Math.min(500 + 300 * tries, 4000)));
      continue;
    }
    const text = await found.text();
    const page = new DOMParser().parseFromString(text, "text/html");
    if (found.ok) panel.replaceChildren(...page.body.childNodes);
    else panel.replaceChildren(problem(page.querySelector(".message-text")?.textContent || "This did not work."));
    return;
  }
}

function problem(text) {
  const made = document.createElement("p");
  made.className = "note";
  made.textContent = text;
  return made;
}

for (const panel of document.querySelectorAll("[data-panel]")) load(panel);
