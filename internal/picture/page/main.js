// The frame: head, tabs, the pane that describes what is selected, search, and the fragment of the address that remembers all that.

// link is a button that goes to a node.
const link = (at, text) => element('button', { className: 'link', type: 'button', textContent: text, onclick: () => go(at) });

// go selects a node and shows it in the graph.
function go(at) {
  select(at);
  if (tab !== 'nodes') show('graph');
  graph.center(at);
}

function describe() {
  const pane = $('pane'), at = selection.node;
  pane.replaceChildren();
  if (selection.buffer >= 0) describeBuffer(pane);
  if (selection.span >= 0) describeSpan(pane);
  if (at < 0) return selection.buffer < 0 && selection.span < 0 ? overview(pane) : undefined;
  const n = D.nodes[at];
  pane.append(element('h2', { dir: 'auto', textContent: n.label }));
  if (n.name && n.kind !== 'group' && n.kind !== 'region') pane.append(element('p', { dir: 'auto', textContent: n.name }));
  const facts = [], what = {
    op: n.property ? 'several nodes of the model, run as one' : '', host: 'run by the host scheduler: control flow, sequences, optionals and maps',
    group: 'what one backend runs as a whole', convert: 'a change of format', region: 'a branch or the body of a loop', input: 'read from outside', output: 'made for outside',
  }[n.kind];
  if (what) pane.append(element('p', { className: 'muted', textContent: what }));
  if (n.backend && n.kind !== 'region') facts.push(['backend', n.backend + (n.device ? ' on ' + n.device : '')]);
  if (n.property) facts.push(['fused by the property', n.property]);
  if (n.kind === 'convert') facts.push(['size', bytes(n.bytes || 0)], ['by', n.via]);
  if (n.nanoseconds) facts.push(['modelled', time(n.nanoseconds)]);
  const spent = measured(at);
  if (spent) facts.push(['measured', time(spent) + ' (' + (100 * spent / Math.max(D.run.nanoseconds, 1)).toFixed(1) + '% of the run)']);
  pane.append(rows(facts));
  const owner = D.scopes[n.scope].owner, maker = n.kind === 'input' && n.scope > 0 && makers.has(n.name) ? makers.get(n.name) : -1;
  if (maker >= 0) pane.append(element('p', {}, 'made by ', link(maker, D.nodes[maker].name || D.nodes[maker].label)));
  if (owner >= 0) pane.append(element('p', {}, 'in ', link(owner, D.nodes[owner].label)));
  if (n.inside >= 0) pane.append(element('p', {}, element('button', { type: 'button', textContent: open.has(at) ? 'Fold' : 'Unfold', onclick: () => { graph.toggle(at); } })));
  if (n.candidates && n.candidates.length) candidates(pane, n);
  ports(pane, 'reads', n.inputs, true);
  ports(pane, 'makes', n.outputs, false);
  if (n.attrs && n.attrs.length) pane.append(element('h3', { textContent: 'attributes' }), ...n.attrs.map(a => element('p', { dir: 'auto', textContent: a })));
  elsewhere(pane, at);
  if (n.nodes && (n.nodes.length > 1 || n.nodes[0] !== n.name)) {
    pane.append(element('h3', { textContent: counted(n.nodes.length, 'node') + ' of the model' }));
    for (const m of n.nodes.slice(0, 200)) {
      const of = n.kind === 'group' ? holder(m, at) : -1;
      pane.append(element('p', { dir: 'auto' }, of >= 0 ? link(of, m) : m));
    }
    if (n.nodes.length > 200) pane.append(element('p', { className: 'muted', textContent: '… ' + (n.nodes.length - 200) + ' more' }));
  }
}

const rows = list => element('dl', {}, ...list.map(([k, v]) => element('div', { className: 'fact' }, element('dt', { textContent: k }), element('dd', { textContent: v }))));

// holder returns the node that stands for one of the model's.
let holders;
function holder(name) {
  if (!holders) {
    holders = new Map();
    D.nodes.forEach((n, i) => { if (n.kind === 'op' || n.kind === 'host') for (const m of n.nodes || []) if (!holders.has(m)) holders.set(m, i); });
  }
  return holders.has(name) ? holders.get(name) : -1;
}

function candidates(pane, n) {
  const tuned = n.candidates.some(c => c.measured_nanoseconds);
  const body = n.candidates.map(c => element('tr', { className: c.chosen ? 'chosen' : '' },
    element('td', {}, chip(c.backend), ' ' + c.backend),
    element('td', { className: 'num', textContent: c.nanoseconds ? time(c.nanoseconds) : '' }),
    ...(tuned ? [element('td', { className: 'num', textContent: c.measured_nanoseconds ? time(c.measured_nanoseconds) : '' })] : []),
    element('td', {}, ...(c.chosen ? [element('div', { textContent: 'chosen' })] : []), ...(c.reasons || []).map(r => element('div', { dir: 'auto', textContent: r })))));
  pane.append(element('h3', { textContent: 'every backend of the list' }), element('table', { className: 'of' },
    element('thead', {}, element('tr', {}, ...['', 'modelled', ...(tuned ? ['tuned'] : []), 'chosen, or why not'].map(t => element('th', { textContent: t })))), element('tbody', {}, ...body)));
  if (n.candidates.some(c => c.nanoseconds)) pane.append(element('p', { className: 'muted', textContent: `Modelled${tuned ? ' and tuned' : ''} times are of the node by itself, without conversions and launches.` }));
}

function ports(pane, title, list, from) {
  list = (list || []).filter(v => v.type);
  if (!list.length) return;
  pane.append(element('h3', { textContent: title }));
  const body = list.map(v => {
    const maker = from && !v.constant && makers.has(v.name) ? makers.get(v.name) : -1;
    return element('tr', {}, element('td', { dir: 'auto' }, maker >= 0 ? link(maker, v.name) : v.name || '(no name)', v.constant ? ' (constant)' : ''),
      element('td', {}, v.type + (v.format ? ' as ' + v.format : '')), element('td', { className: 'num', textContent: v.bytes ? bytes(v.bytes) : '' }));
  });
  pane.append(element('table', {}, element('tbody', {}, ...body)));
}

// elsewhere links to a node's buffers and to its steps in the measured run.
function elsewhere(pane, at) {
  const buffers = buffersOf.get(at) || [], spans = spansOf.get(at) || [];
  if (buffers.length) pane.append(element('h3', { textContent: 'memory' }), ...buffers.slice(0, 40).map(([k, i]) => {
    const b = D.arenas[k].buffers[i];
    return element('p', {}, element('button', { className: 'link', type: 'button', textContent: b.name, onclick: () => { memory.show(k); memory.pick(i); show('memory'); } }),
      ' ' + bytes(b.bytes) + ' in steps ' + b.first + ' to ' + (b.end - 1));
  }));
  if (spans.length) pane.append(element('h3', { textContent: 'measured run' }), ...spans.slice(0, 40).map(i => element('p', {},
    element('button', { className: 'link', type: 'button', textContent: time(D.run.spans[i].time), onclick: () => { timeline.pick(i); show('timeline'); } }), ' from ' + time(D.run.spans[i].start))));
}

function describeBuffer(pane) {
  const a = D.arenas[selection.arena], b = a.buffers[selection.buffer];
  pane.append(element('h3', { textContent: 'buffer' }), element('h2', { dir: 'auto', textContent: b.name }), rows([['size', bytes(b.bytes) + ' (' + b.bytes.toLocaleString() + ' bytes)'], ['offset', b.offset.toLocaleString()],
    ['alive', 'in steps ' + b.first + ' to ' + (b.end - 1)]]));
  if (b.node >= 0) pane.append(element('p', {}, 'made by ', link(b.node, D.nodes[b.node].name || D.nodes[b.node].label)), element('hr', {}));
}

function describeSpan(pane) {
  const t = D.run.spans[selection.span];
  pane.append(element('h3', { textContent: 'step of the measured run' }), rows([['time', time(t.time)], ['from', time(t.start)], ['on', t.backend], ...(t.flops ? [['speed', (t.flops / t.time).toFixed(1) + ' GFLOP/s']] : [])]));
  if (t.node >= 0) pane.append(element('p', {}, 'runs ', link(t.node, D.nodes[t.node].name || D.nodes[t.node].label)), element('hr', {}));
}

function overview(pane) {
  const groups = D.nodes.map((n, i) => i).filter(i => D.nodes[i].kind === 'group'), conversions = D.nodes.filter(n => n.kind === 'convert');
  pane.append(element('h2', { textContent: 'Nothing is selected' }), element('p', { className: 'muted', textContent: 'Click a node, a buffer or a step, or search. What is selected here is selected in all views.' }),
    element('h3', { textContent: 'backends, in the order of the list' }));
  for (const b of D.backends) {
    const mine = groups.filter(i => D.nodes[i].backend === b.name), nodes = mine.reduce((sum, i) => sum + D.nodes[i].nodes.length, 0), spent = mine.reduce((sum, i) => sum + measured(i), 0);
    pane.append(element('p', {}, chip(b.name), ' ' + b.name + ': ' + counted(mine.length, 'group') + ', ' + counted(nodes, 'node') + (spent ? ', measured ' + time(spent) : '')));
    if (b.version || b.processor) pane.append(element('p', { className: 'muted', textContent: [/^\d/.test(b.version) ? 'version ' + b.version : b.version, b.processor].filter(Boolean).join(' · ') }));
  }
  const host = D.nodes.filter(n => n.kind === 'host').length;
  if (host) pane.append(element('p', {}, chip('host'), ' host scheduler: ' + counted(host, 'node')));
  pane.append(element('h3', { textContent: 'the rest' }), element('p', { textContent: counted(conversions.length, 'conversion') + ' in a run, ' + bytes(conversions.reduce((sum, n) => sum + (n.bytes || 0), 0)) }),
    element('p', { textContent: counted(D.folded.length, 'node') + ' of the model that nobody runs: computed, merged or left out when the model was compiled' }));
  if (groups.length) pane.append(element('h3', { textContent: counted(groups.length, 'group') }));
  for (const i of groups.slice(0, 100)) pane.append(element('p', {}, chip(D.nodes[i].backend), ' ', link(i, D.nodes[i].label), ' ' + caption(i)[1]));
}

function chip(backend) {
  const e = element('span', { className: 'chip' });
  e.style.borderColor = color(backend);
  e.style.backgroundColor = color(backend) + '40';
  return e;
}

// show changes the view.
function show(name) {
  tab = name;
  for (const v of Object.keys(views)) {
    $('view-' + v).hidden = v !== name;
    $('tab-' + v).setAttribute('aria-selected', v === name);
    $('tab-' + v).tabIndex = v === name ? 0 : -1;
  }
  views[name].surface && views[name].surface.resize();
  if (name === 'graph' && selection.node >= 0) graph.center(selection.node);
  views[name].draw();
  remember();
}

function remember() {
  const parts = ['view=' + tab];
  if (selection.node >= 0) parts.push('node=' + selection.node);
  if (selection.buffer >= 0) parts.push('arena=' + selection.arena, 'buffer=' + selection.buffer);
  if (selection.span >= 0) parts.push('span=' + selection.span);
  history.replaceState(null, '', '#' + parts.join('&'));
}

// recall takes the state from the address. What does not exist is left out.
function recall() {
  const get = new URLSearchParams(location.hash.slice(1)), number = (name, below) => {
    const x = Number(get.get(name) ?? -1);
    return Number.isInteger(x) && x >= 0 && x < below ? x : -1;
  };
  const arena = number('arena', D.arenas.length), buffer = arena < 0 ? -1 : number('buffer', D.arenas[arena].buffers.length);
  const name = get.get('view');
  tab = Object.hasOwn(views, name) ? name : 'graph';
  select(number('node', D.nodes.length), { arena, buffer, span: D.run ? number('span', D.run.spans.length) : -1 });
  show(tab);
}

function paintTheme(name) {
  theme = name;
  document.documentElement.dataset.theme = name;
  ink = { bg: css('--bg'), fg: css('--fg'), muted: css('--muted'), mark: css('--mark') };
  $('legend').replaceChildren(...D.backends.map(b => element('li', {}, chip(b.name), b.name)), ...(D.nodes.some(n => n.kind === 'host') ? [element('li', {}, chip('host'), 'host scheduler')] : []));
  describe();
  for (const v of Object.values(views)) v.surface && v.surface.draw();
}

// Search: over nodes, operators, values, properties and what nobody runs.
const found = { index: null, list: [], at: 0 };
function indexed() {
  if (!found.index) found.index = D.nodes.map((n, i) => [i, [n.label, n.name, n.property, n.backend, ...(n.kind === 'group' ? [] : [...n.nodes || [], ...(n.outputs || []).map(v => v.name)])].join('\n').toLowerCase()])
    .filter(([i]) => !['input', 'output'].includes(D.nodes[i].kind) || D.nodes[i].scope === 0);
  return found.index;
}
function search(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean), hits = $('hits');
  table.words = text;
  if (tab === 'nodes') table.apply();
  found.list = words.length ? indexed().filter(([, t]) => words.every(w => t.includes(w))).map(([i]) => i) : [];
  found.at = 0;
  const gone = words.length ? D.folded.filter(f => words.every(w => f.node.toLowerCase().includes(w))) : [];
  hits.replaceChildren(...found.list.slice(0, 50).map((i, k) => {
    const n = D.nodes[i], li = element('li', { id: 'hit' + k, dir: 'auto', onclick: () => take(k) }, n.label + ' ', element('span', { className: 'muted', textContent: n.kind === 'group' ? n.backend : n.name }));
    li.setAttribute('role', 'option');
    return li;
  }), element('li', { className: 'muted', textContent: counted(found.list.length, 'hit') + (found.list.length > 50 ? ', of which 50 are listed' : '') }),
  ...gone.slice(0, 10).map(f => element('li', { className: 'muted', dir: 'auto', textContent: f.node + ': nobody runs it (' + f.kind + ')' })));
  hits.hidden = !words.length || tab === 'nodes';
  $('search').setAttribute('aria-expanded', !hits.hidden);
  mark();
}
function mark() {
  [...$('hits').querySelectorAll('[role=option]')].forEach((li, k) => {
    li.setAttribute('aria-selected', k === found.at);
    if (k === found.at) { $('search').setAttribute('aria-activedescendant', li.id); li.scrollIntoView({ block: 'nearest' }); }
  });
}
function take(k) {
  if (k < found.list.length) go(found.list[k]);
  $('hits').hidden = true;
  $('search').setAttribute('aria-expanded', false);
}

function startSearch() {
  const s = $('search');
  s.oninput = () => search(s.value);
  s.onkeydown = e => {
    if (e.key === 'ArrowDown' || e.key === 'ArrowUp') {
      found.at = Math.max(0, Math.min(Math.min(found.list.length, 50) - 1, found.at + (e.key === 'ArrowDown' ? 1 : -1)));
      mark();
    } else if (e.key === 'Enter') take(found.at);
    else if (e.key === 'Escape') { s.value = ''; search(''); s.blur(); }
    else return;
    e.preventDefault();
  };
  document.addEventListener('pointerdown', e => { if (!$('finder').contains(e.target)) $('hits').hidden = true; });
}

function start() {
  document.title = D.model + ' · carve';
  $('model').textContent = D.model;
  $('facts').append(...D.facts.map(f => element('div', {}, element('dt', { textContent: f.name }), element('dd', { textContent: f.value }))));
  const dark = matchMedia('(prefers-color-scheme: dark)');
  paintTheme(dark.matches ? 'dark' : 'light');
  dark.onchange = () => paintTheme(dark.matches ? 'dark' : 'light');
  $('theme').onclick = () => paintTheme(theme === 'dark' ? 'light' : 'dark');
  startGraph();
  startMemory();
  startTimeline();
  startTable();
  startSearch();
  const names = Object.keys(views);
  for (const v of names) $('tab-' + v).onclick = () => show(v);
  document.querySelector('[role=tablist]').onkeydown = e => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[e.key];
    if (!by) return;
    show(names[(names.indexOf(tab) + by + names.length) % names.length]);
    $('tab-' + tab).focus();
  };
  document.addEventListener('keydown', e => {
    if (e.target.matches('input, select') || e.ctrlKey || e.metaKey || e.altKey) return;
    if (e.key === '/') { $('search').focus(); $('search').select(); }
    else if (e.key >= '1' && e.key <= '4') show(names[e.key - 1]);
    else if (e.key === 'Escape') select(-1);
    else if (e.target === document.body && views[tab].surface) return views[tab].surface.key(e);
    else return;
    e.preventDefault();
  });
  addEventListener('hashchange', recall);
  recall();
  performance.mark('drawn');
}
start();
