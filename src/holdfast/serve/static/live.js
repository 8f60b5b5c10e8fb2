// Appends the output of running calls as it arrives. It moves neither the focus nor the page.
const kept = 65536;
const list = document.getElementById("live");
const news = document.getElementById("news");
const known = new Map();
for (const card of list.querySelectorAll("[data-output]")) {
  const call = card.closest("[data-call]");
  known.set(call.dataset.project + "/" + call.dataset.call, call);
}

const say = (element, text) => {
  if (element && element.textContent !== text) element.textContent = text;
};

function print(call, data) {
  const output = call.querySelector("[data-output]");
  const atEnd = output.scrollHeight - output.scrollTop - output.clientHeight < 8;
  const text = (data.reset ? "" : output.textContent) + (data.text || "");
  if (data.reset || data.text) output.textContent = text.slice(-kept);
  if (atEnd) output.scrollTop = output.scrollHeight;
  say(call.querySelector("[data-progress]"), data.progress || "");
  if (data.dropped) {
    const note = call.querySelector("[data-dropped]");
    note.hidden = false;
    say(note, `${data.dropped.toLocaleString()} characters were dropped here: the output is faster than this page.`);
  }
  if (data.state) {
    const mark = call.querySelector("[data-state]");
    say(mark, data.state.replace("_", " "));
    mark.className = "state-mark state-" + data.state;
    for (const button of call.querySelectorAll("button")) button.disabled = true;
  }
}

const stream = new EventSource(list.dataset.stream);
stream.addEventListener("output", (message) => {
  const data = JSON.parse(message.data);
  const call = known.get(data.project + "/" + data.call_id);
  if (call) print(call, data);
  else if (!data.state) say(news, "Another call has begun. Refresh to see it.");
});
stream.addEventListener("error", () => say(news, "The connection was lost. Trying again…"));
stream.addEventListener("open", () => say(news, known.size ? "Output appears as it is printed." : ""));
for (const output of list.querySelectorAll("[data-output]")) output.scrollTop = output.scrollHeight;
