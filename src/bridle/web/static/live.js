// Decisions as they come. The list has a fixed number of rows, whose words are changed: nothing
// moves. What comes is only ever put in as text.
const feed = document.getElementById("feed");
const slots = [...feed.children];
const state = document.getElementById("state");
const more = document.getElementById("more");
const pause = document.getElementById("pause");
const curves = document.getElementById("curves");
const KINDS = { decision: "played", abstention: "held back", question: "asked" };
const REFRESH = 5000;

let after = Number(feed.dataset.after);
let source = null;
let paused = false;
let timer = 0;
let passed = 0;
let rows = slots.filter((slot) => slot.dataset.id !== undefined).map(read);

function read(slot) {
  const [time, kind, said, context, reward] = slot.children;
  return {
    id: slot.dataset.id, outcome: slot.dataset.outcome, at: time.dateTime, clock: time.textContent, kind: kind.textContent,
    said: said.textContent, href: said.getAttribute("href"), context: context.textContent,
    reward: reward.textContent,
  };
}

function write(slot, row) {
  const [time, kind, said, context, reward] = slot.children;
  put(time, row.clock);
  time.dateTime = row.at ?? "";
  slot.dataset.outcome = row.outcome ?? "";
  put(kind, row.kind ?? KINDS[row.outcome]);
  put(said, row.said);
  if (row.href) said.setAttribute("href", row.href);
  else said.removeAttribute("href");
  put(context, row.context);
  put(reward, row.reward);
}

function put(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// Rows stand still while somebody is about to follow one of them.
function held() {
  return feed.contains(document.activeElement) || (matchMedia("(hover: hover)").matches && feed.matches(":hover"));
}

function show() {
  if (held()) {
    say("The list stands still while you are in it.");
    return;
  }
  rows.forEach((row, n) => write(slots[n], row));
  if (rows.length) put(more, passed ? `… and ${passed.toLocaleString("en")} more entries came too fast to be shown.` : "");
  if (!paused && source?.readyState === EventSource.OPEN) say("Live.", "live");
}

function say(text, name = "") {
  put(state, text);
  state.dataset.state = name;
}

function take(event) {
  const news = JSON.parse(event.data);
  after = Number(event.lastEventId) || after;
  passed = news.more;
  rows = [...news.rows.reverse(), ...rows].slice(0, slots.length);
  for (const row of rows) {
    // What was played earns, not what was asked along with it. An id may be any word.
    const played = (row.kind ?? KINDS[row.outcome]) === KINDS.decision;
    if (played && Object.hasOwn(news.rewards, row.id)) row.reward = news.rewards[row.id];
  }
  show();
}

function begin() {
  source = new EventSource(`${feed.dataset.stream}?after=${after}`);
  source.onopen = () => say("Live.", "live");
  source.onmessage = take;
  source.onerror = () => {
    // A refusal ends it for good; all else the browser tries again by itself.
    if (source.readyState !== EventSource.CLOSED) return;
    say("Not connected. Reload the page to go on.");
  };
  timer = setInterval(refresh, REFRESH);
}

function end() {
  source?.close();
  source = null;
  clearInterval(timer);
}

async function refresh() {
  if (document.hidden || curves.contains(document.activeElement)) return;
  try {
    const answer = await fetch(curves.dataset.from, { redirect: "error" });
    if (!answer.ok || paused) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    curves.replaceChildren(...page.body.childNodes);
  } catch {
    // It is tried again soon, and the curves stay as they are.
  }
}

pause.addEventListener("click", () => {
  paused = !paused;
  put(pause, paused ? "Go on" : "Pause");
  if (paused) {
    end();
    say("Paused.", "paused");
  } else {
    say("Connecting …");
    begin();
    refresh();
  }
});
feed.addEventListener("pointerleave", show);
feed.addEventListener("focusout", () => setTimeout(show));
// A page that is kept for "back" must not keep its stream, and wants one again when it is shown.
addEventListener("pagehide", end);
addEventListener("pageshow", (event) => {
  if (event.persisted && !paused) begin();
});

pause.hidden = false;
say("Connecting …");
begin();
