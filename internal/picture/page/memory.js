// Memory: an arena over the steps of the schedule, every buffer a rectangle of bytes and of the steps that it is alive in.

const memory = views.memory = {
  arena: 0,
  get a() { return D.arenas[this.arena]; },
  limits() { const k = this.surface.w / Math.max(this.a ? this.a.steps : 1, 1); return [k * 0.9, k * 4000]; },
  // The origin is above the arena: offsets grow upwards.
  fit() {
    const s = this.surface, a = this.a;
    if (!a) return;
    s.kx = (s.w - 80) / Math.max(a.steps, 1);
    s.ky = (s.h - 50) / Math.max(a.bytes, 1);
    s.x = -66 / s.kx;
    s.y = -20 / s.ky;
  },
  // keep holds both axes at the zoom of the first.
  keep() {
    const s = this.surface, a = this.a;
    if (!a) return;
    s.x = Math.max(-66 / s.kx, Math.min(a.steps - s.w * 0.1 / s.kx, s.x));
    s.y = Math.max(-s.h * 0.5 / s.ky, Math.min(a.bytes - s.h * 0.1 / s.ky, s.y));
  },
  top(b) { return this.a.bytes - b.offset - b.bytes; },
  hit(x, y) {
    if (!this.a) return -1;
    const at = this.a.bytes - y;
    return this.a.buffers.findLastIndex(b => x >= b.first && x < b.end && at >= b.offset && at < b.offset + b.bytes);
  },
  tip(x, y) {
    const i = this.hit(x, y);
    if (i < 0) return this.during(x);
    const b = this.a.buffers[i];
    return isolated(b.name) + '\n' + bytes(b.bytes) + ' at ' + b.offset.toLocaleString() + '\nalive in steps ' + b.first + ' to ' + (b.end - 1) +
      (b.node >= 0 ? '\nmade by ' + isolated(D.nodes[b.node].label) + ' on ' + D.nodes[b.node].backend : '');
  },
  // during says what runs in a step.
  during(x) {
    const a = this.a;
    if (!a || x < 0 || x >= a.steps) return '';
    const i = a.starts.findLastIndex(s => s <= x), at = i < 0 ? -1 : a.who[i];
    return 'step ' + Math.floor(x) + (at >= 0 ? ': ' + isolated(D.nodes[at].label) + '\n' + isolated(D.nodes[at].name) : '');
  },
  click(x, y) { this.pick(this.hit(x, y)); },
  pick(i) { i < 0 ? select(-1) : select(this.a.buffers[i].node, { arena: this.arena, buffer: i }); },
  step(by) {
    if (!this.a || !this.a.buffers.length) return;
    const list = this.a.buffers.map((b, i) => i).sort((i, j) => this.a.buffers[i].first - this.a.buffers[j].first || i - j);
    const at = selection.arena === this.arena ? list.indexOf(selection.buffer) : -1;
    this.pick(list[Math.max(0, Math.min(list.length - 1, (at < 0 ? (by > 0 ? -1 : list.length) : at) + by))]);
  },
  show(arena) {
    this.arena = arena;
    const a = this.a;
    $('arena').value = arena;
    $('arena-facts').textContent = a ? bytes(a.bytes) + ' · no plan needs less than ' + bytes(a.lower_bound_bytes) + ' · a buffer of its own for everything: ' +
      bytes(a.naive_bytes) + ' · ' + counted(a.buffers.length, 'buffer') + (a.method ? ' · found by ' + a.method : '') : 'nothing is planned';
    if (this.surface) { this.fit(); this.draw(); }
  },
  // selected changes to the arena that has the selected buffer, or one of the selected node.
  selected() {
    const of = selection.buffer >= 0 ? [[selection.arena]] : selection.node >= 0 && buffersOf.get(selection.node);
    if (of && of.length && !of.some(([k]) => k === this.arena)) this.show(of[0][0]);
  },
  draw() { this.surface.draw(); },

  paint(c, s) {
    const a = this.a;
    c.font = '12px system-ui, sans-serif';
    c.textBaseline = 'middle';
    if (!a) {
      c.fillStyle = ink.muted;
      return c.fillText('The program plans no memory.', 20, 30);
    }
    const X = x => (x - s.x) * s.kx, Y = y => (a.bytes - y - s.y) * s.ky;
    const mine = selection.node;
    a.buffers.forEach((b, i) => {
      const x = X(b.first), y = Y(b.offset + b.bytes), w = X(b.end) - x, h = Y(b.offset) - y;
      if (x > s.w || x + w < 0 || y > s.h || y + h < 0) return;
      const chosen = selection.buffer >= 0 ? selection.arena === this.arena && selection.buffer === i : mine >= 0 && b.node === mine;
      c.fillStyle = color(b.node >= 0 ? D.nodes[b.node].backend : '');
      c.globalAlpha = chosen ? 0.9 : theme === 'dark' ? 0.45 : 0.35;
      c.fillRect(x, y, Math.max(w, 1), Math.max(h, 1));
      c.globalAlpha = 1;
      c.strokeStyle = chosen ? ink.mark : ink.bg;
      c.lineWidth = chosen ? 3 : 1;
      if (w > 3 && h > 3 || chosen) c.strokeRect(x + 0.5, y + 0.5, Math.max(w - 1, 1), Math.max(h - 1, 1));
      if (w > 60 && h > 14) {
        c.fillStyle = chosen ? ink.bg : ink.fg;
        c.fillText(tail(c, spoken(b.name), w - 8 - Math.max(0, 64 - x)), Math.max(x, 64) + 4, y + h / 2);
      }
    });
    this.axes(c, s, X, Y);
  },
  axes(c, s, X, Y) {
    const a = this.a;
    c.fillStyle = ink.bg;
    c.fillRect(0, 0, 62, s.h);
    c.fillRect(0, s.h - 24, s.w, 24);
    c.strokeStyle = ink.muted;
    c.lineWidth = 1;
    c.beginPath();
    c.moveTo(62.5, 0);
    c.lineTo(62.5, s.h - 23.5);
    c.lineTo(s.w, s.h - 23.5);
    c.stroke();
    c.fillStyle = ink.muted;
    c.textAlign = 'right';
    const unit = ticks((s.h - 40) / s.ky, 6, true);
    for (let v = 0; v <= a.bytes * 1.0001; v += unit) if (Y(v) > 8 && Y(v) < s.h - 24) c.fillText(bytes(v), 58, Y(v));
    c.textAlign = 'center';
    const step = Math.max(1, ticks(s.w / s.kx, 10));
    for (let v = Math.max(0, Math.ceil(s.x / step) * step); v <= a.steps && X(v) < s.w; v += step) if (X(v) > 60) c.fillText(v, X(v), s.h - 11);
    c.textAlign = 'left';
    for (const [v, text] of [[a.bytes, 'arena'], [a.lower_bound_bytes, 'least']]) {
      if (text === 'least' && v === a.bytes) continue;
      const y = Y(v);
      c.setLineDash(text === 'least' ? [4, 4] : []);
      c.strokeStyle = ink.fg;
      c.beginPath();
      c.moveTo(63, y);
      c.lineTo(s.w, y);
      c.stroke();
      c.setLineDash([]);
      c.fillStyle = ink.fg;
      c.fillText(text + ' ' + bytes(v) + (v === a.lower_bound_bytes && text === 'arena' ? ', the least that there can be' : ''), 70, y - 9);
    }
  },
};

// ticks returns a round distance between marks, so that about so many are in a span; of bytes a power of two.
function ticks(span, marks, binary) {
  const least = span / marks;
  if (binary) return 2 ** Math.ceil(Math.log2(Math.max(least, 1)));
  const ten = 10 ** Math.floor(Math.log10(Math.max(least, 1e-9)));
  return [1, 2, 5, 10].map(f => f * ten).find(x => x >= least);
}

function startMemory() {
  D.arenas.forEach((a, i) => {
    const owner = D.scopes[a.scope].owner;
    $('arena').append(element('option', { value: i, textContent: a.device + (owner >= 0 ? ', in ' + D.nodes[owner].label + ' of ' + place(owner) : '') }));
  });
  memory.show(0);
  $('arena').onchange = e => { memory.show(+e.target.value); remember(); };
  memory.surface = new Surface($('memory'), memory, 'both');
}

// place names what a region belongs to.
function place(at) {
  const owner = D.scopes[D.nodes[at].scope].owner;
  return owner >= 0 ? D.nodes[owner].name : 'the model';
}
