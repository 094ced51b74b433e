// The table: a row for every node, of which those in view exist.

const table = views.nodes = {
  rows: [], shown: [], sorted: null, words: '', high: 26,

  make() {
    const host = this.rows;
    D.nodes.forEach((n, i) => {
      if (n.kind !== 'op' && n.kind !== 'host' && n.kind !== 'convert') return;
      const bare = r => { const of = (n.nodes || []).find(m => r.startsWith(m + ': ')); return of === undefined ? r : r.slice(of.length + 2); };
      const why = [...new Set((n.candidates || []).flatMap(c => (c.reasons || []).map(r => 'not ' + c.backend + ': ' + bare(r))))].join(' · ');
      host.push({ at: i, name: n.name, op: n.label, backend: n.kind === 'convert' ? 'convert' : n.backend, group: n.group, spent: measured(i), why, costs: (n.candidates || []).map(c => c.nanoseconds || 0),
        model: (n.nodes || []).join(' ') });
    });
    for (const f of D.folded) host.push({ at: -1, name: f.node, op: '', backend: 'nobody', group: -1, spent: 0, costs: [], model: '',
      why: { constant: 'computed when the model was compiled', forwarded: 'it only passes its operand on', dead: 'nothing reads its results', shape: 'its result follows from shapes' }[f.kind] || f.kind });
  },
  columns: [['node', 'name', r => r.name], ['operator', 'op', r => r.op], ['backend', 'of', r => r.backend], ['group', 'num', r => r.group], ['measured', 'num', r => r.spent]]
    .concat(D.backends.map((b, i) => ['on ' + b.name, 'num', r => r.costs[i] || 0]), [['why not elsewhere', 'why', r => r.why]]),

  // apply filters and sorts.
  apply() {
    const only = $('filter').value, words = this.words.toLowerCase().split(/\s+/).filter(Boolean);
    this.shown = this.rows.filter(r => (!only || r.backend === only) &&
      words.every(w => (r.name + ' ' + r.op + ' ' + r.backend + ' ' + r.model + ' ' + r.why).toLowerCase().includes(w)));
    if (this.sorted) {
      const [column, by] = this.sorted, key = this.columns[column][2];
      this.shown.sort((a, b) => { const x = key(a), y = key(b); return (x < y ? -1 : x > y ? 1 : 0) * by; });
    }
    $('count').textContent = this.shown.length === this.rows.length ? counted(this.rows.length, 'row') : this.shown.length + ' of ' + counted(this.rows.length, 'row');
    $('table').setAttribute('aria-rowcount', this.shown.length);
    this.draw();
  },
  draw() {
    const t = $('table');
    if (!t.clientHeight) return;
    const first = Math.max(0, Math.floor(t.scrollTop / this.high) - 5), last = Math.min(this.shown.length, first + Math.ceil(t.clientHeight / this.high) + 12);
    const head = element('div', { className: 'row head' });
    head.setAttribute('role', 'row');
    this.columns.forEach(([name, kind], i) => {
      const mark = this.sorted && this.sorted[0] === i ? (this.sorted[1] > 0 ? ' ▲' : ' ▼') : '';
      head.append(element('button', { type: 'button', className: kind, textContent: name + mark, onclick: () => {
        const by = kind === 'num' ? -1 : 1;
        this.sorted = this.sorted && this.sorted[0] === i ? (this.sorted[1] === by ? [i, -by] : null) : [i, by];
        this.apply();
      } }));
    });
    const rows = [];
    for (let i = first; i < last; i++) {
      const r = this.shown[i], row = element('div', { className: 'row' + (r.at >= 0 && r.at === selection.node ? ' selected' : '') });
      row.style.top = (i + 1) * this.high + 'px';
      row.setAttribute('role', 'row');
      row.setAttribute('aria-rowindex', i + 1);
      this.columns.forEach(([name, kind, of], k) => {
        const x = of(r), timed = name === 'measured' || name.startsWith('on ');
        const text = timed ? (x ? time(x) : '') : name === 'group' ? (x >= 0 ? x : '') : x;
        const cell = element('div', { className: kind }, kind === 'name' ? element('bdi', { textContent: text }) : String(text));
        cell.setAttribute('role', 'gridcell');
        if (kind === 'name' || kind === 'why') cell.title = text;
        row.append(cell);
      });
      row.onclick = () => r.at >= 0 && select(r.at);
      row.ondblclick = () => r.at >= 0 && show('graph');
      rows.push(row);
    }
    const spacer = element('div', { className: 'spacer' });
    spacer.style.height = (this.shown.length + 1) * this.high + 'px';
    t.replaceChildren(head, ...rows, spacer);
  },
  step(by) {
    if (!this.shown.length) return;
    let i = this.shown.findIndex(r => r.at === selection.node && r.at >= 0);
    do i += by; while (i >= 0 && i < this.shown.length && this.shown[i].at < 0);
    if (i < 0 || i >= this.shown.length) return;
    const t = $('table'), top = i * this.high;
    if (top < t.scrollTop) t.scrollTop = top;
    if (top + 3 * this.high > t.scrollTop + t.clientHeight) t.scrollTop = top + 3 * this.high - t.clientHeight;
    select(this.shown[i].at);
  },
};

function startTable() {
  table.make();
  $('filter').append(element('option', { value: '', textContent: 'all' }), ...[...new Set(table.rows.map(r => r.backend))].map(b => element('option', { value: b, textContent: b })));
  $('filter').onchange = () => table.apply();
  $('table').onscroll = () => table.draw();
  $('table').onkeydown = e => {
    const by = { ArrowDown: 1, n: 1, ArrowUp: -1, p: -1 }[e.key];
    if (by) { table.step(by); e.preventDefault(); e.stopPropagation(); }
    if (e.key === 'Enter' && selection.node >= 0 && e.target === $('table')) show('graph');
  };
  new ResizeObserver(() => table.draw()).observe($('table'));
  table.apply();
}
