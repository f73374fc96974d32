// Features as a table: reads the lines of the text field, and writes them back at every change.
// The server only ever sees the lines.

const text = document.getElementById('features');
const field = document.getElementById('features-field');
const rows = document.getElementById('rows');
const toggle = document.getElementById('by-rows');
const NUMBER = '-?(?:\\d+(?:\\.\\d*)?|\\.\\d+)(?:[eE][+-]?\\d+)?';
const RANGE = new RegExp(`^(.+?)\\s+(${NUMBER})\\s+(?:to\\s+)?(${NUMBER})(?:\\s+(\\S.*))?$`);
const KINDS = { category: 'one of some words', labels: 'any of some words', flag: 'yes or no', number: 'a number' };

function read(line) {
  const [, kind, rest] = /^(\w+)\s+(.+)$/.exec(line.trim()) || [];
  if (!(kind in KINDS) || rest.includes('"')) return null;  // left as it is
  const found = { kind, name: rest, values: '', low: '', high: '', unit: '', missing: false };
  if (kind === 'number') {
    const range = RANGE.exec(rest);
    if (range) [, found.name, found.low, found.high, found.unit = ''] = range;
  } else if (kind !== 'flag') {
    const at = rest.indexOf(':');
    if (at < 0) return null;
    found.name = rest.slice(0, at).trim();
    found.values = rest.slice(at + 1).trim();
  }
  found.missing = found.name.endsWith('?');
  if (found.missing) found.name = found.name.slice(0, -1).trim();
  return found;
}

function written(row) {
  const value = (name) => row.querySelector(`[data-part=${name}]`).value.trim();
  const kind = value('kind');
  if (!value('name')) return '';
  const name = value('name').replaceAll('"', "'");
  const plain = !/[:?]|\s-?[\d.]/.test(name);
  const start = `${kind} ${plain ? name : `"${name}"`}${row.querySelector('[data-part=missing]').checked ? '?' : ''}`;
  if (kind === 'flag') return start;
  if (kind !== 'number') return `${start}: ${value('values')}`;
  return [start, value('low'), value('high'), value('unit')].filter(Boolean).join(' ');
}

function labelled(words, control) {
  const label = document.createElement('label');
  label.append(words, control);
  return label;
}

function input(part, value, mode) {
  const made = document.createElement('input');
  made.dataset.part = part;
  made.value = value;
  made.autocomplete = 'off';
  if (mode) made.inputMode = mode;
  return made;
}

function show(row) {
  const kind = row.querySelector('[data-part=kind]').value;
  row.querySelector('.words').hidden = kind !== 'category' && kind !== 'labels';
  row.querySelector('.range').hidden = kind !== 'number';
}

function add(feature) {
  const row = document.createElement('div');
  row.className = 'feature-row';
  row.setAttribute('role', 'group');
  row.setAttribute('aria-label', feature.name ? `Feature ${feature.name}` : 'A new feature');
  const kind = document.createElement('select');
  kind.dataset.part = 'kind';
  for (const [name, words] of Object.entries(KINDS)) kind.add(new Option(words, name, false, name === feature.kind));
  const words = labelled('Words, with commas between', input('values', feature.values));
  words.className = 'words';
  const range = document.createElement('div');
  range.className = 'range';
  range.append(
    labelled('From', input('low', feature.low, 'decimal')),
    labelled('To', input('high', feature.high, 'decimal')),
    labelled('Unit', input('unit', feature.unit)),
  );
  const middle = document.createElement('div');
  middle.append(words, range);
  const remove = document.createElement('button');
  remove.type = 'button';
  remove.textContent = 'Remove';
  remove.setAttribute('aria-label', `Remove ${feature.name || 'this feature'}`);
  remove.addEventListener('click', () => { row.remove(); save(); rows.querySelector('.add').focus(); });
  const missing = input('missing', '');
  missing.type = 'checkbox';
  missing.checked = feature.missing;
  const may = labelled('', missing);
  may.className = 'missing';
  may.append(' may be missing');
  row.append(labelled('Kind', kind), labelled('Name', input('name', feature.name)), middle, remove, may);
  rows.querySelector('.list').append(row);
  show(row);
  return row;
}

function save() {
  text.value = [...rows.querySelectorAll('.feature-row')].map(written).filter(Boolean).join('\n');
}

function open() {
  const found = text.value.split('\n').filter((line) => line.trim()).map(read);
  if (found.includes(null)) {
    rows.textContent = 'Some lines can only be edited as text.';
  } else {
    const list = document.createElement('div');
    list.className = 'list';
    const more = document.createElement('button');
    more.type = 'button';
    more.className = 'add';
    more.textContent = 'Add a feature';
    const empty = { kind: 'category', name: '', values: '', low: '', high: '', unit: '', missing: false };
    more.addEventListener('click', () => add(empty).querySelector('[data-part=name]').focus());
    rows.replaceChildren(list, more);
    for (const feature of found.length ? found : [empty]) add(feature);
    field.hidden = true;
  }
  rows.hidden = false;
  toggle.textContent = 'Edit as text';
  toggle.setAttribute('aria-expanded', 'true');
}

function close() {
  field.hidden = false;
  rows.hidden = true;
  toggle.textContent = 'Edit as a table';
  toggle.setAttribute('aria-expanded', 'false');
}

rows.addEventListener('input', (event) => {
  const row = event.target.closest('.feature-row');
  if (row) { show(row); save(); }
});
toggle.addEventListener('click', () => (rows.hidden ? open() : close()));
toggle.parentElement.classList.remove('waits');
