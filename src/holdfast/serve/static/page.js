// The page works without this module. It keeps the list current, opens cards in place, and adds keys.
// Two rules hold everywhere: nothing that arrives moves focus, scroll position or a button, and no answer is
// accepted from a hand that cannot have seen what it answers.

const QUIET_MS = 600; // after a card appears, changes or gains focus
const ARMED_MS = 10_000;
const $ = (selector, root = document) => root.querySelector(selector);
const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];
// HTML comes from our own server only, which escapes what it shows.
const policy = window.trustedTypes?.createPolicy('holdfast', { createHTML: (text) => text });
const list = $('#list');
const elements = new Map(); // call -> its card, or its row in a group
const keyOf = (project, call) => `${project} ${call}`;

function parse(html) {
  const template = document.createElement('template');
  template.innerHTML = policy ? policy.createHTML(html) : html;
  return template.content;
}

// ---- The safe hand

const changed = new WeakMap(); // card -> when it last appeared, changed or gained focus
let shown = performance.now(); // when the window came to the front
let pressed = 0; // when the pointer went down, or the key of a click
let armed = null;
let current = null;

function touch(card) {
  const now = () => changed.set(card, performance.now());
  now();
  requestAnimationFrame(now); // a change counts from when it is on the screen
  if (armed && card.contains(armed)) disarm();
}

// The time of the event, not of its handling: a key that was pressed before a change is handled after it on a busy page.
const isReady = (card, at) => at - Math.max(changed.get(card) ?? 0, shown) >= QUIET_MS;

function disarm() {
  armed?.removeAttribute('data-armed');
  armed = null;
}

function arm(button, how) {
  disarm();
  armed = button;
  button.dataset.armed = performance.now();
  say(button.closest('.card'), `${how} again to ${button.textContent.trim().toLowerCase()}.`);
}

const isArmed = (button) => armed === button && performance.now() - button.dataset.armed < ARMED_MS;

function say(card, text) {
  const said = card && $('.said', card);
  if (said) said.textContent = text;
  $('#status').textContent = text;
}

document.addEventListener('focusin', ({ target }) => {
  const card = target.closest('.card');
  if (card !== current) disarm();
  if (card && card !== current) touch(card);
  current = card;
});
document.addEventListener('focusout', ({ relatedTarget }) => {
  if (relatedTarget) return;
  current = null;
  disarm();
});
const cameToFront = () => { shown = performance.now(); };
addEventListener('focus', cameToFront);
addEventListener('pointerdown', (event) => { pressed = event.timeStamp; }, true);
document.addEventListener('click', (event) => {
  if (event.detail) return;
  // By keyboard or a screen reader: approving takes two presses, as with the key.
  pressed = event.timeStamp;
  const button = event.target.closest('button.approve');
  if (!button?.closest('.card') || isOff(button) || isArmed(button)) return;
  event.preventDefault();
  if (isReady(button.closest('.card'), pressed)) arm(button, 'Press');
}, true);

// ---- Cards

const isOff = (button) => button.disabled || button.closest('.done, .stale, [aria-busy=true]');
const isOpen = (card) => card.matches('.group') || !$('.body', card).hidden;
const cards = () => $$('.card:not([hidden])');

function register(root) {
  for (const element of $$('[data-call]', root)) {
    elements.set(keyOf(element.dataset.project, element.dataset.call), element);
  }
}

function prepare(card) {
  for (const fold of $$('details[data-fold]', card)) fold.open = false;
  gate(card);
  touch(card);
}

function gate(card) {
  const left = $$('details[data-fold]:not([data-seen])', card).length;
  for (const button of $$('button.approve', card)) button.disabled = left > 0;
  const hint = $('.folds', card);
  if (hint) hint.textContent = left ? `Open the folded parts to approve: ${left} left.` : '';
}

document.addEventListener('toggle', ({ target }) => {
  if (!target.matches('details[data-fold]') || !target.open) return;
  target.dataset.seen = '1';
  const card = target.closest('.card');
  if (card) gate(card);
}, true);

async function load(address) {
  const response = await fetch(address, { headers: { Accept: 'text/html' } });
  if (response.redirected && new URL(response.url).pathname === '/login') location.reload();
  const content = parse(await response.text());
  if (!response.ok) throw new Error($('[role=alert]', content)?.textContent ?? `Error ${response.status}.`);
  return content;
}

const isTyped = (field) => field.matches('textarea, input[type=text]') && field.name !== 'args';

// Shows the newest version of a card, with its body. Text that was typed into it stays.
async function refresh(card) {
  if (card.ariaBusy === 'true') return false;
  card.ariaBusy = 'true';
  try {
    const fresh = $('.card', await load(`${card.dataset.address}/card`));
    const typed = new Map($$('textarea, input', card).filter(isTyped).map((field) => [field.name, field.value]));
    const hadFocus = card.contains(document.activeElement);
    card.replaceChildren(...fresh.childNodes);
    card.dataset.digest = fresh.dataset.digest;
    card.classList.remove('stale', 'done');
    for (const field of $$('textarea, input', card).filter(isTyped)) field.value = typed.get(field.name) ?? field.value;
    show(card, true);
    prepare(card);
    if (hadFocus) card.focus({ preventScroll: true });
    tick();
    return true;
  } catch (error) {
    say(card, error.message);
    return false;
  } finally {
    card.ariaBusy = 'false';
  }
}

function show(card, open) {
  $('.body', card).hidden = !open;
  $('.open', card).ariaExpanded = String(open);
}

async function open(card) {
  if (isOpen(card)) return true;
  if (!$('.body', card).childElementCount) return refresh(card);
  show(card, true);
  touch(card);
  return true;
}

function toggle(card) {
  const fold = isOpen(card) && $('details[data-fold]:not([data-seen])', card);
  if (fold) {
    fold.open = true;
    fold.scrollIntoView({ block: 'nearest' });
  } else if (!isOpen(card)) open(card);
  else if (!card.matches('.group')) show(card, false);
}

function note(element, text) {
  const slot = $('.note', element);
  slot.hidden = false;
  slot.textContent = slot.title = text;
}

// Buttons are off without `disabled`, which would take the focus away from them.
function settle(element, text) {
  element.classList.remove('stale');
  element.classList.add('done');
  note(element, text);
  for (const button of $$('button, summary', element)) button.ariaDisabled = 'true';
  if (armed && element.contains(armed)) disarm();
  const box = $('input[name=call]', element);
  if (box) box.checked = false;
  const group = element.closest('.group');
  if (group && group !== element) countRows(group);
}

function stale(element) {
  element.classList.remove('done');
  element.classList.add('stale');
  note(element, 'changed');
  const box = $('input[name=call]', element);
  if (box) box.checked = false;
  else {
    const button = Object.assign(document.createElement('button'), { className: 'renew', type: 'button' });
    button.textContent = 'Show the new version';
    $('.note', element).replaceChildren(button);
    for (const other of $$('.body button', element)) other.ariaDisabled = 'true';
  }
  touch(element.closest('.card'));
}

function countRows(group) {
  const button = $('button.approve', group);
  const boxes = $$('input[name=call]', group);
  const count = boxes.filter((box) => box.checked).length;
  button.textContent = `Approve these ${count}`;
  if (boxes.every((box) => box.closest('.done'))) group.classList.add('done');
}

function moveOn(card) {
  const all = cards();
  const at = all.indexOf(card);
  const waits = (other) => !other.matches('.done');
  const next = all.slice(at + 1).find(waits) ?? all.slice(0, Math.max(at, 0)).reverse().find(waits);
  (next ?? $('#main')).focus();
}

// ---- Answers

function words({ state, by }) {
  const plain = state.replaceAll('_', ' ');
  if (!by) return plain;
  return ['approved', 'rejected', 'denied'].includes(state) ? `${plain} by ${by}` : `${plain}, answered by ${by}`;
}

async function send(card, form, button) {
  const answer = form.dataset.answer;
  const body = new URLSearchParams(new FormData(form, button));
  card.ariaBusy = 'true';
  let reply;
  try {
    const response = await fetch(form.action, { method: 'POST', body, headers: { Accept: 'application/json' } });
    reply = await response.json();
  } catch {
    reply = { error: { message: 'No reply came from holdfast. The list shows whether the answer arrived.' } };
  }
  card.ariaBusy = 'false';
  if (reply.error) {
    if (reply.error.kind === 'stale') stale(card);
    if (reply.error.kind === 'not_pending') settle(card, 'answered elsewhere');
    say(card, reply.error.message);
    return;
  }
  if (answer === 'edit') {
    if (await refresh(card)) say(card, 'Changed. Review it, then approve it.');
    return;
  }
  const outcomes = [reply].flat();
  for (const outcome of outcomes) tell(outcome);
  const refused = outcomes.filter((outcome) => !outcome.ok);
  const undone = outcomes.findLast((outcome) => outcome.ok && answer !== 'reject');
  if (undone) sessionStorage.setItem('holdfast.last', `/history/${undone.project}/${encodeURIComponent(undone.call_id)}/undo`);
  if (refused.length) say(card, `${refused.length} of ${outcomes.length} not done: ${refused[0].message}`);
  else {
    say(card, outcomes[0].message || `${outcomes.length > 1 ? `${outcomes.length} calls: ` : ''}${outcomes[0].state}`);
    finish(card);
  }
}

function tell(outcome) {
  const element = elements.get(keyOf(outcome.project, outcome.call_id));
  if (!element) return;
  if (outcome.ok) settle(element, words(outcome));
  else note(element, outcome.message);
}

function finish(card) {
  const advance = $('form.advance', card);
  if (advance && card.matches('.done')) advance.hidden = false;
  else if (list && !card.matches('.group') && !('single' in list.dataset)) show(card, false);
  moveOn(card);
}

document.addEventListener('submit', async (event) => {
  const form = event.target;
  const card = form.closest('.card');
  if (!card || !(form.dataset.answer || form.dataset.part)) return;
  event.preventDefault();
  if (form.dataset.part) {
    const query = new URLSearchParams(new FormData(form));
    const slot = $(form.dataset.part, card);
    try {
      slot.replaceChildren(...(await load(`${form.action}?part=1&${query}`)).childNodes);
      for (const fold of $$('details[data-fold]', slot)) fold.open = false;
    } catch (error) {
      slot.textContent = error.message;
    }
    gate(card);
    touch(card);
  } else if (card.matches('.done, .stale') || card.ariaBusy === 'true') {
    say(card, 'This call has changed or was answered.');
  } else if (!isReady(card, pressed)) {
    say(card, 'This card has just changed. Look at it, then press again.');
  } else send(card, form, event.submitter);
});

document.addEventListener('click', (event) => {
  const { target } = event;
  const card = target.closest('.card');
  const link = target.closest('a.open');
  if (link && card && !(event.ctrlKey || event.metaKey || event.shiftKey)) {
    event.preventDefault();
    if (isOpen(card)) show(card, false);
    else open(card);
  } else if (target.closest('.renew')) refresh(card);
  else if (target.closest('.leave') && list) {
    event.preventDefault();
    show(card, false);
    moveOn(card);
  } else if (target.closest('#clear')) {
    for (const done of $$('.card.done')) done.remove();
  } else if (target.closest('[data-help]')) help.showModal();
  else if (target.closest('[data-close]')) target.closest('dialog').close();
});

document.addEventListener('change', ({ target }) => {
  if (target.name === 'call' && target.closest('.group')) countRows(target.closest('.group'));
});

// ---- What happens elsewhere

function apply(change) {
  const element = elements.get(keyOf(change.project, change.call_id));
  if (!element) {
    if (change.html && !('single' in list.dataset)) add(change.html);
  } else if (change.state !== 'pending') settle(element, words(change));
  else if (element.dataset.digest !== change.digest || element.matches('.done')) stale(element);
}

function add(html) {
  const card = $('.card', parse(html));
  list.append(card);
  register(list);
  filter(card);
  touch(card);
  $('#empty').hidden = true;
}

let source;
let last;
function connect() {
  source?.close();
  const address = new URL(list.dataset.events, location);
  if (last) address.searchParams.set('after', last);
  source = new EventSource(address);
  const bar = $('#bar');
  source.addEventListener('open', () => { bar.hidden = !bar.dataset.stays; });
  source.addEventListener('calls', (event) => {
    last = event.lastEventId;
    const { calls, pending } = JSON.parse(event.data);
    calls.forEach(apply);
    count(pending);
    tick();
  });
  source.addEventListener('reload', (event) => {
    last = event.lastEventId;
    bar.dataset.stays = '1';
    bar.hidden = false;
  });
  source.addEventListener('error', ({ target }) => {
    bar.hidden = false;
    if (target.readyState === EventSource.CLOSED) setTimeout(() => target === source && connect(), 5000);
  });
}

function count(pending) {
  document.title = document.title.replace(/^(\(\d+\) )?/, pending ? `(${pending}) ` : '');
  const number = $('[data-count]');
  if (number) number.textContent = pending;
  const icon = $('#icon');
  icon.dataset.plain ??= icon.href;
  icon.href = pending ? badge(pending) : icon.dataset.plain;
}

function badge(pending) {
  const canvas = Object.assign(document.createElement('canvas'), { width: 32, height: 32 });
  const pen = canvas.getContext('2d');
  pen.fillStyle = '#a40e26';
  pen.beginPath();
  pen.roundRect(0, 0, 32, 32, 8);
  pen.fill();
  Object.assign(pen, { fillStyle: '#fff', font: 'bold 20px system-ui', textAlign: 'center', textBaseline: 'middle' });
  pen.fillText(pending > 99 ? '99' : pending, 16, 17, 30);
  return canvas.toDataURL();
}

// ---- Time. Every text that ticks has room of a fixed width.

const skew = list?.dataset.now ? list.dataset.now - Date.now() / 1000 : 0;
let ticked = Date.now();

function span(seconds) {
  for (const [unit, size] of [['d', 86400], ['h', 3600], ['min', 60]]) {
    if (seconds >= size) return `${Math.floor(seconds / size)} ${unit}`;
  }
  return `${Math.max(0, Math.floor(seconds))} s`;
}

function tick() {
  if (document.hidden) return;
  const now = Date.now() / 1000 + skew;
  for (const time of $$('time[data-age], time[data-left]')) {
    const { age, left } = time.dataset;
    const text = age ? span(now - age) : span(left - now);
    if (time.textContent !== text) time.textContent = text;
  }
  for (const bar of $$('progress[data-from]')) bar.value = now - bar.dataset.from;
  // The machine slept: the connection may be dead without knowing it.
  if (Date.now() - ticked > 30_000 && source) connect();
  ticked = Date.now();
}

// ---- Keys

const help = $('#help');
const fields = $$('input[data-key]', help ?? undefined);
const stored = JSON.parse(localStorage.getItem('holdfast.keys') ?? '{}');
for (const field of fields) field.value = stored[field.dataset.key] ?? field.value;
const actionOf = (key) => fields.find((field) => field.value === key)?.dataset.key;

help?.addEventListener('input', ({ target }) => {
  const taken = fields.some((field) => field !== target && field.value === target.value);
  target.setCustomValidity(taken ? 'This key is used already.' : '');
  if (!target.reportValidity()) return;
  localStorage.setItem('holdfast.keys', JSON.stringify(Object.fromEntries(fields.map((f) => [f.dataset.key, f.value]))));
});
help?.addEventListener('reset', () => localStorage.removeItem('holdfast.keys'));

function move(card, step) {
  const all = cards().filter((other) => other === card || !other.matches('.done'));
  const at = all.indexOf(card);
  const to = at < 0 ? 0 : Math.min(Math.max(at + step, 0), all.length - 1);
  all[to]?.focus();
}

async function approve(card, at) {
  const group = card.matches('.group');
  if (!group && !isOpen(card) && !(await open(card))) return;
  const button = $('button.approve', card);
  if (!button) return;
  if (isOff(button)) say(card, $('.folds', card)?.textContent || 'This call has changed or was answered.');
  else if (!isArmed(button)) arm(button, 'Press the key');
  else if (isReady(card, at)) {
    disarm();
    send(card, button.form, button);
  }
}

async function write(card, part) {
  if (card.matches('.group') || !(await open(card))) return;
  const details = $(`details[data-more=${part}]`, card);
  if (!details || card.matches('.done')) return;
  details.open = true;
  $('textarea', details).focus();
}

const actions = {
  next: (card) => move(card, 1),
  previous: (card) => move(card, -1),
  filter: () => $('[data-filter]')?.focus(),
  help: () => help.showModal(),
  undo: () => {
    const address = sessionStorage.getItem('holdfast.last');
    if (address) location.assign(address);
    else say(null, 'You have approved nothing here yet.');
  },
  open: (card) => card && toggle(card),
};
const answers = {
  approve: (card, at) => (card.matches('.group') ? say(card, 'This is a group, which has a key of its own.') : approve(card, at)),
  group: (card, at) => (card.matches('.group') ? approve(card, at) : say(card, 'This is not a group.')),
  edit: (card) => write(card, 'edit'),
  reject: (card) => write(card, 'reject'),
};

document.addEventListener('keydown', (event) => {
  const { key, timeStamp, target } = event;
  const card = document.activeElement?.closest('.card');
  if (event.isComposing || event.defaultPrevented) return;
  const modified = event.ctrlKey || event.metaKey;
  if (target.matches('input:not([type=checkbox], [type=radio]), textarea, select')) {
    if (key === 'Escape' && card) card.focus();
    if (key === 'Enter' && modified && target.form?.dataset.answer && !event.repeat) {
      pressed = timeStamp;
      target.form.requestSubmit($('button', target.form));
    }
    return;
  }
  if (key === 'Enter' && target.matches('button.approve')) {
    event.preventDefault();
    say(card, 'Enter alone never approves. Click, or press Space twice.');
    return;
  }
  if (modified || event.altKey || $('dialog[open]')) return;
  const action = key === 'Enter' && target === card ? 'open' : actionOf(key);
  if (!action) {
    if (key !== 'Shift' && key !== ' ') disarm();
    return;
  }
  event.preventDefault();
  if (event.repeat && action !== 'next' && action !== 'previous') return;
  if (action in actions) {
    disarm();
    actions[action](card);
  } else if (!card) say(null, 'Move to a card first.');
  else if (!isReady(card, timeStamp)) say(card, 'Too soon after a change. Press again.');
  else answers[action](card, timeStamp);
});

function filter(card) {
  const text = $('[data-filter]')?.value.trim().toLowerCase() ?? '';
  card.hidden = !card.textContent.toLowerCase().includes(text);
}

$('[data-filter]')?.addEventListener('input', () => $$('.card').forEach(filter));

// ---- Start

const login = $('form[data-login]');
if (login && location.hash.length > 1) {
  $('#secret').value = location.hash.slice(1);
  history.replaceState(null, '', location.pathname + location.search); // the code stays in no history
  login.requestSubmit();
}
document.documentElement.classList.add('scripted');
register(document);
for (const card of $$('.card')) prepare(card);
if (list) {
  connect();
  count(Number(list.dataset.pending));
  document.addEventListener('visibilitychange', () => { if (!document.hidden) { cameToFront(); tick(); } });
  addEventListener('pageshow', (event) => { if (event.persisted) connect(); });
}
setInterval(tick, 1000);
