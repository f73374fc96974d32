// Keys for the buttons of a question. The page does all of it without this file.
const STORED = "bridle-keys";
const box = document.getElementById("keys");

function remembered() {
  try { return localStorage.getItem(STORED) !== "off"; } catch { return true; }
}

if (box) {
  box.checked = remembered();
  box.closest(".keys").classList.add("on");
  box.addEventListener("change", () => {
    try { localStorage.setItem(STORED, box.checked ? "on" : "off"); } catch { /* not kept, then */ }
  });
}

// Each answer is sent once: a second key, or click, is for the page that comes.
let sent = false;
document.addEventListener("submit", (event) => {
  if (sent) event.preventDefault();
  sent = true;
});
// A page that the browser kept and shows again is a fresh one.
addEventListener("pageshow", () => { sent = false; });

document.addEventListener("keydown", (event) => {
  if (event.repeat || event.ctrlKey || event.altKey || event.metaKey || event.defaultPrevented) return;
  if (box && !box.checked) return;
  const at = event.target;
  const typing = at instanceof Element && at.closest("input:not([type=checkbox]), textarea, select, [contenteditable]");
  if (typing) return;
  const key = event.key.toLowerCase();
  const button = [...document.querySelectorAll("button[data-key]")]
    .find((one) => one.dataset.key.split(" ").includes(key));
  if (button) {
    event.preventDefault();
    button.click();
  }
});

// Who comes from the question before hears the next one first.
let before = "";
try { before = new URL(document.referrer).pathname; } catch { /* there was none */ }
if (before === location.pathname) document.getElementById("question")?.focus({ preventScroll: true });
