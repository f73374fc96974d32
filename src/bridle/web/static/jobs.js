// Looks every second at work that runs in the background, until it has ended. The page says the
// same without this: there is a link to look again.
const EVERY = 1000;
const MOST_FAILURES = 10;

async function fetched(box) {
  const answer = await fetch(box.dataset.from, { redirect: "error", cache: "no-store" });
  if (!answer.ok) throw new Error(`status ${answer.status}`);
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const found = page.getElementById(box.id);
  if (!found) throw new Error("the box is gone");
  return document.importNode(found, true);
}

// While it runs only the figures change: a screen reader is not told the rest again and again.
function update(box, newer) {
  const bar = box.querySelector("progress");
  const newerBar = newer.querySelector("progress");
  for (const name of ["max", "value"]) {
    const value = newerBar.getAttribute(name);
    if (value !== null) bar.setAttribute(name, value);
  }
  box.querySelector(".job-figure").textContent = newer.querySelector(".job-figure").textContent;
}

async function watch(box) {
  let failures = 0;
  while (box.dataset.state === "running" && failures < MOST_FAILURES) {
    await new Promise((wake) => setTimeout(wake, EVERY));
    if (document.hidden) continue;
    try {
      const newer = await fetched(box);
      failures = 0;
      if (newer.dataset.state === "running") {
        update(box, newer);
      } else {
        box.replaceWith(newer);
        newer.dispatchEvent(new CustomEvent("job-ended", { bubbles: true }));
        return;
      }
    } catch {
      failures += 1;
    }
  }
}

for (const box of document.querySelectorAll(".job[data-from]")) watch(box);
