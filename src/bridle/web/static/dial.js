// Slider and number go together, and the figures show the position that was worked out next to
// them. Without this the number and the table say the same.
const slider = document.getElementById("slider");
const number = document.getElementById("sigma");
const expected = document.getElementById("expected");
const rows = [...document.querySelectorAll("#positions tr[data-sigma]")];

function nearest(sigma) {
  const away = (row) => Math.abs(Number(row.dataset.sigma) - sigma);
  return rows.reduce((best, row) => (best === null || away(row) < away(best) ? row : best), null);
}

function show(sigma) {
  const chosen = nearest(sigma);
  for (const row of rows) row.classList.toggle("chosen", row === chosen);
  if (chosen === null) return;
  for (const place of expected.querySelectorAll("[data-of]")) {
    const from = chosen.querySelector(`[data-of="${place.dataset.of}"]`);
    place.replaceChildren(...[...from.childNodes].map((node) => node.cloneNode(true)));
  }
}

if (slider) {
  document.getElementById("slide").hidden = false;
  slider.addEventListener("input", () => {
    number.value = slider.value;
    show(Number(slider.value));
  });
  number.addEventListener("input", () => {
    const sigma = Number(number.value);
    if (number.value === "" || !(sigma >= 0 && sigma <= 1)) return;
    slider.value = number.value;
    show(sigma);
  });
  show(Number(number.value));
}

// What was worked out stands all over the page: it is asked for anew, without "It has begun".
document.addEventListener("job-ended", () => {
  const here = new URL(location.href);
  here.searchParams.delete("said");
  here.hash = "";
  location.replace(here);
});
