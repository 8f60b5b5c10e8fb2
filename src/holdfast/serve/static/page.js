// The page works without it.

const QUIET_MS = 600;
const SOON = 'Too soon after a change.';
const GONE = 'It was answered or has changed.';
const $ = (selector, root = document) => root.querySelector(selector);
const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];
const now = () => performance.now();
const on = (type, handler, capture) => document.addEventListener(type, handler, capture);
// Only our server sends HTML, and it escapes what it shows.
const policy = window.trustedTypes?.createPolicy('holdfast', { createHTML: (text) => text });
const list = $('#list');
const alone = $('#list[data-single]');
const find = ({ project, call_id }) => document.getElementById(`c-${project}-${call_id}`);

function parse(html) {
	const template = document.createElement('template');
	template.innerHTML = policy?.createHTML(html) ?? html;
	return template.content;
}

// The safe hand

const changed = new WeakMap(); // card -> when it did
let current; // has the focus
let entered = 0; // when it did
let shown = 0; // when the window came up, or cards moved
let pressed = 0; // when the pointer or a key went down
let armed = null;
let timer;

function touch(card) {
	const stamp = () => changed.set(card, now());
	stamp();
	requestAnimationFrame(stamp); // when it is on the screen
	if (card.contains(armed)) disarm();
}

// `at` is the time of the event, which a busy page may handle after a later change.
const isReady = (card, at, since = entered) => at - Math.max(changed.get(card) ?? 0, shown, since) >= QUIET_MS;
const isOff = (button) => button.disabled || button.closest('.done, .stale, [aria-busy=true]');

function arm(button) {
	disarm();
	armed = button;
	button.dataset.armed = '';
	timer = setTimeout(disarm, 1e4);
	say(button.closest('.card'), `Press again to ${button.textContent.trim().toLowerCase()}.`);
}

function disarm() {
	clearTimeout(timer);
	armed?.removeAttribute('data-armed');
	armed = null;
}

function say(card, text) {
	for (const place of [$('#status'), ...(card ? $$('.said', card) : [])]) place.textContent = text;
	setTimeout(() => { $('#status').textContent = ''; }, 5000);
}

function enter(card) {
	if (card === current) return;
	disarm();
	current = card;
	entered = now();
}

on('focusin', ({ target }) => enter(target.closest('.card')));
on('focusout', ({ relatedTarget }) => relatedTarget || enter(null));
on('pointerdown', (event) => { pressed = event.timeStamp; }, true);
on('click', (event) => {
	if (event.detail) return;
	pressed = event.timeStamp; // by keyboard: a second press approves
	const button = event.target.closest('.card .approve');
	if (!button || isOff(button) || armed === button) return;
	event.preventDefault();
	if (isReady(button.closest('.card'), pressed)) arm(button);
}, true);

// Cards

const isGroup = (card) => card.matches('.group');
const isOpen = (card) => isGroup(card) || !$('.body', card).hidden;
const waiting = () => $$('.card:not(.done)');
const unseen = (card) => $$('details[data-fold]:not([data-seen])', card);

function prepare(card) {
	for (const fold of unseen(card)) fold.open = false;
	gate(card);
	touch(card);
}

function gate(card) {
	const left = unseen(card).length;
	for (const button of $$('.approve', card)) button.disabled = left > 0;
	for (const hint of $$('.folds', card)) hint.textContent = left ? `Open the folded parts first (${left}).` : '';
}

on('toggle', ({ target }) => {
	const card = target.open && target.matches('[data-fold]') && target.closest('.card');
	if (!card) return;
	target.dataset.seen = '1';
	gate(card);
}, true);

async function load(address) {
	const response = await fetch(address);
	const content = parse(await response.text());
	if (response.ok) return content;
	throw new Error($('[role=alert]', content)?.textContent ?? `Error ${response.status}. Reload the page.`);
}

const typed = (card) => $$('textarea:not([name=args])', card);

// Words that were typed stay.
async function refresh(card) {
	if (card.ariaBusy === 'true') return false;
	card.ariaBusy = 'true';
	const content = await load(`${card.dataset.address}/card`).catch((error) => say(card, error.message));
	card.ariaBusy = 'false';
	if (!content) return false;
	const fresh = $('.card', content);
	const words = typed(card).map((field) => field.value);
	const hadFocus = card.contains(document.activeElement);
	card.replaceChildren(...fresh.childNodes);
	card.dataset.digest = fresh.dataset.digest;
	card.className = fresh.className;
	typed(card).forEach((field, place) => { field.value = words[place] ?? ''; });
	prepare(card);
	if (hadFocus) card.focus({ preventScroll: true });
	return show(card, true);
}

function show(card, open) {
	$('.body', card).hidden = !open;
	$('.open', card).ariaExpanded = String(open);
	if (!open) shown = now();
	touch(card);
	return true;
}

const open = async (card) => isOpen(card) || ($('.body', card).childElementCount ? show(card, true) : refresh(card));

function toggle(card) {
	const [fold] = unseen(card);
	if (!isOpen(card)) open(card);
	else if (fold) {
		fold.open = true;
		fold.scrollIntoView({ block: 'nearest' });
	} else if (isGroup(card)) $('.whole', card)?.click();
	else show(card, false);
}

function mark(element, kind, text) {
	element.classList.remove('stale', 'done');
	if (kind) element.classList.add(kind);
	const note = $('.note', element);
	note.hidden = false;
	note.textContent = note.title = text;
	for (const box of kind ? $$('[name=call]', element) : []) box.checked = false;
	for (const button of $$('.body button', element)) button.ariaDisabled = String(!!kind); // `disabled` loses the focus
	const card = element.closest('.card');
	if (isGroup(card)) countRows(card);
	touch(card);
}

function countRows(group) {
	const { length } = $$('[name=call]:checked', group);
	for (const button of $$('.approve', group)) button.textContent = `Approve these ${length}`;
	group.classList.toggle('done', $$('[data-call]', group).every((row) => row.matches('.done')));
}

// Answers

const words = ({ state, by }) => state.replace('_', ' ') + (by ? `, by ${by}` : '');

async function send(card, form, button) {
	const { answer } = form.dataset;
	const body = new URLSearchParams(new FormData(form, button));
	disarm();
	card.ariaBusy = 'true';
	const reply = await fetch(form.action, { method: 'POST', body, headers: { Accept: 'application/json' } })
		.then((r) => r.json())
		.catch(() => ({ error: { message: 'No reply. See the list.' } }));
	card.ariaBusy = 'false';
	if (reply.error) {
		if (reply.error.kind === 'stale') mark(card, 'stale', 'changed');
		if (reply.error.kind === 'not_pending') mark(card, 'done', 'answered elsewhere');
		return say(card, reply.error.message);
	}
	if (answer === 'edit') return (await refresh(card)) && say(card, 'Changed. Review it.');
	const outcomes = [reply].flat();
	for (const outcome of outcomes) {
		const element = find(outcome);
		if (element?.matches(':not(.done)')) mark(element, outcome.ok && outcome.state !== 'pending' && 'done', outcome.ok ? words(outcome) : outcome.message);
	}
	const refused = outcomes.find(({ ok }) => !ok);
	if (refused) say(card, `Not done: ${refused.message}`);
	else finish(card, outcomes[0].message || `${outcomes.length} answered.`);
}

function finish(card, text) {
	if (!list) location.assign('/');
	const advance = $('form.advance', card);
	if (advance) advance.hidden = false;
	else if (!isGroup(card) && !alone) show(card, false);
	const others = waiting();
	const follows = (other) => card.compareDocumentPosition(other) & Node.DOCUMENT_POSITION_FOLLOWING;
	(others.find(follows) ?? others.at(-1) ?? $('#main')).focus();
	say(card, text);
}

on('submit', async (event) => {
	const form = event.target;
	const card = form.closest('.card');
	const { answer, part } = form.dataset;
	if (!card || !(answer || part)) return;
	event.preventDefault();
	if (part) {
		const query = new URLSearchParams(new FormData(form));
		$(part, card).replaceChildren(await load(`${form.action}?part=1&${query}`).catch((error) => error.message));
		prepare(card);
	} else if (card.matches('.done, .stale')) say(card, GONE);
	else if (!isReady(card, pressed, 0)) say(card, SOON); // a click gives the card the focus
	else if (card.ariaBusy !== 'true') send(card, form, event.submitter);
});

on('click', (event) => {
	const at = (selector) => event.target.closest(selector);
	const card = at('.card');
	if (at('a.open, .leave') && !alone && !event.ctrlKey && !event.metaKey) {
		event.preventDefault();
		if (isOpen(card)) show(card, false);
		else open(card);
	} else if (at('.renew')) refresh(card);
	else if (at('#clear')) {
		$$('.card.done').forEach((done) => done.remove());
		shown = now();
	}
	else if (at('[data-help]')) help.showModal();
});

on('change', ({ target }) => target.matches('.group input') && countRows(target.closest('.group')));

// What happens elsewhere

function apply(change) {
	const element = find(change);
	if (!element) {
		if (!change.html || alone) return;
		list.append(parse(change.html));
		touch(find(change));
	} else if (change.state !== 'pending') mark(element, 'done', words(change));
	else if (element.dataset.digest !== change.digest || element.matches('.done')) mark(element, 'stale', 'changed');
}

let source;
let last;
function connect() {
	source?.close();
	const address = new URL(list.dataset.events, location);
	if (last) address.searchParams.set('after', last);
	if (document.hidden) address.searchParams.set('brief', 1);
	source = new EventSource(address);
	const bar = $('#bar');
	source.onopen = () => { bar.hidden = true; };
	source.onerror = ({ target }) => {
		bar.hidden = false;
		if (target.readyState === EventSource.CLOSED) setTimeout(() => target === source && connect(), 5000);
	};
	source.addEventListener('calls', (event) => {
		last = event.lastEventId;
		const { calls, pending } = JSON.parse(event.data);
		calls.forEach(apply);
		count(pending);
	});
	source.addEventListener('reload', () => {
		source = source.close();
		bar.hidden = false;
	});
}

function count(pending) {
	document.title = document.title.replace(/^(\(\d+\) )?/, pending ? `(${pending}) ` : '');
	for (const number of $$('[data-count]')) number.textContent = pending;
	$('#icon').href = `/icon/${Math.min(pending, 99)}.svg`;
}

$('#live') && new EventSource('/live/events').addEventListener('output', ({ data }) => {
	const { project, call_id, text = '', dropped, reset, progress = '', state } = JSON.parse(data);
	const call = document.getElementById(`r-${project}-${call_id}`);
	if (!call) return;
	const output = $('pre', call);
	const isAtEnd = output.scrollHeight - output.scrollTop - output.clientHeight < 8;
	const gap = dropped ? `\n[${dropped} characters dropped]\n` : '';
	output.textContent = ((reset ? '' : output.textContent) + gap + text).slice(-65536);
	if (isAtEnd) output.scrollTop = output.scrollHeight;
	$('[data-progress]', call).textContent = progress;
	if (!state) return;
	$('[data-state]', call).textContent = words({ state });
	for (const button of $$('button', call)) button.disabled = true;
});

// Time

const skew = list?.dataset.now - Date.now() / 1000 || 0;
let ticked = Date.now();

function span(seconds) {
	const [unit, size] = [['d', 86400], ['h', 3600], ['min', 60]].find((pair) => seconds >= pair[1]) ?? ['s', 1];
	return `${Math.max(0, Math.floor(seconds / size))} ${unit}`;
}

function tick() {
	const at = Date.now() / 1000 + skew;
	for (const time of $$('time[data-age], time[data-left]')) {
		const text = span(time.dataset.age ? at - time.dataset.age : time.dataset.left - at);
		if (time.textContent !== text) time.textContent = text;
	}
	for (const bar of $$('progress')) bar.value = at - bar.dataset.from;
	if (source && Date.now() - ticked > 3e4) connect();
	ticked = Date.now();
}

// Keys

const help = $('#help');
const fields = $$('#help input');
for (const field of fields) field.value = localStorage[field.id] ?? field.value;

help?.addEventListener('input', ({ target }) => {
	const taken = fields.filter(({ value }) => value === target.value).length > 1;
	target.setCustomValidity(taken ? 'This key is used already.' : '');
	if (target.reportValidity()) localStorage[target.id] = target.value;
});
help?.addEventListener('reset', () => fields.forEach((field) => localStorage.removeItem(field.id)));

function move(card, step) {
	const all = waiting();
	all[card ? Math.min(Math.max(all.indexOf(card) + step, 0), all.length - 1) : 0]?.focus();
}

async function approve(card, at, action) {
	const button = isGroup(card) === (action === 'group') && (await open(card)) && $('.approve', card);
	if (card !== current) return;
	if (!button) say(card, 'This key does nothing here.');
	else if (isOff(button)) say(card, $('.folds', card).textContent || GONE);
	else if (armed !== button) arm(button);
	else if (isReady(card, at)) send(card, button.form, button);
}

async function write(card, at, action) {
	const details = (await open(card)) && $(`[data-more=${action}]`, card);
	if (!details || card !== current) return;
	details.open = true;
	$('textarea', details).focus();
}

const actions = {
	next: (card) => move(card, 1),
	previous: (card) => move(card, -1),
	open: (card) => card && toggle(card),
	filter: () => $('[data-filter]')?.focus(),
	help: () => help.showModal(),
	undo: () => location.assign('/undo/last'),
};
const answers = { approve, group: approve, edit: write, reject: write };

on('keydown', (event) => {
	const { key, target, timeStamp } = event;
	const card = document.activeElement?.closest('.card');
	const control = event.ctrlKey || event.metaKey;
	if (event.isComposing) return;
	if (target.matches('input:not([type=checkbox]), textarea, select')) {
		if (key === 'Escape') card?.focus();
		if (key !== 'Enter' || !control || event.repeat || !target.form?.dataset.answer) return;
		pressed = timeStamp;
		return target.form.requestSubmit();
	}
	if (key === 'Enter' && target.matches('.approve')) {
		event.preventDefault();
		return say(card, 'Enter never approves. Press Space twice.');
	}
	if (control || event.altKey || $('dialog[open]')) return;
	const action = key === 'Enter' && target === card ? 'open' : fields.find(({ value }) => value === key)?.name;
	if (key !== 'Shift' && key !== ' ' && !(action in answers)) disarm();
	if (!action) return;
	event.preventDefault();
	if (event.repeat && action !== 'next' && action !== 'previous') return;
	if (action in actions) actions[action](card);
	else if (!card) say(null, 'Move to a card first.');
	else if (!isReady(card, timeStamp)) say(card, SOON);
	else answers[action](card, timeStamp, action);
});

const secret = $('#secret');
if (secret && location.hash) {
	secret.value = location.hash.slice(1);
	history.replaceState(null, '', location.pathname); // the code stays in no history
	secret.form.requestSubmit();
}
$$('.card').forEach(prepare);
if (list) {
	connect();
	count(+list.dataset.pending);
}
addEventListener('focus', () => { shown = now(); });
on('visibilitychange', () => source && connect());
setInterval(tick, 1000);
