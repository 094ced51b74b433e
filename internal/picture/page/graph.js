// The graph: canvas, layers from Go, folding and level of detail here.

// What is unfolded: everything, unless that is very much, or many groups.
const open = new Set(D.nodes.length <= 15000 && D.nodes.filter(n => n.kind === 'group').length <= 40 ? [...D.nodes.keys()].filter(i => D.nodes[i].inside >= 0) : []);
const HEAD = 30, PAD = 18, ROOM = 34;

// measure places the nodes of a scope, those that are unfolded with their insides. Where a node is larger than Go counted with, what
// shares its layer moves aside and what is below moves down; the order stays.
function measure(s) {
  const scope = D.scopes[s], drawn = D.drawn[s], n = scope.nodes.length;
  const m = { s, x: Float64Array.from(drawn.x), y: new Float64Array(n), w: new Float64Array(n), h: new Float64Array(n), inner: new Map(),
    top: new Float64Array(drawn.layers), tall: new Float64Array(drawn.layers), grown: new Map(), width: 0, height: 0, left: Infinity };
  for (let i = 0; i < n; i++) {
    const at = scope.nodes[i], node = D.nodes[at], l = drawn.layer[i];
    [m.w[i], m.h[i]] = D.sizes[node.kind];
    if (node.inside >= 0 && open.has(at)) {
      const inner = measure(node.inside);
      m.inner.set(i, inner);
      const w = Math.max(m.w[i], inner.width + 2 * PAD);
      push(m.grown, l, [drawn.x[i], (w - m.w[i]) / 2]);
      m.w[i] = w;
      m.h[i] = inner.height + HEAD + PAD;
    }
    m.tall[l] = Math.max(m.tall[l], m.h[i]);
  }
  for (let l = 0; l < drawn.layers; l++) {
    m.top[l] = m.height;
    m.height += m.tall[l] + (l + 1 < drawn.layers ? ROOM : 0);
  }
  for (let i = 0; i < n; i++) {
    const l = drawn.layer[i];
    m.x[i] = aside(m, l, m.x[i]);
    m.y[i] = m.top[l] + (m.tall[l] - m.h[i]) / 2;
    m.left = Math.min(m.left, m.x[i] - m.w[i] / 2);
    m.width = Math.max(m.width, m.x[i] + m.w[i] / 2);
  }
  for (const [i, line] of Object.entries(drawn.lines || {})) line.forEach((x, k) => {
    const at = aside(m, drawn.layer[i] + 1 + k, x);
    m.left = Math.min(m.left, at);
    m.width = Math.max(m.width, at);
  });
  if (!n) m.left = 0;
  m.width -= m.left;
  return m;
}

// aside is where a place of a layer is, once nodes in the layer have grown.
function aside(m, layer, x) {
  const list = m.grown.get(layer);
  if (!list) return x;
  let by = 0;
  for (const [at, half] of list) by += x > at ? half : x < at ? -half : 0;
  return x + by;
}

const graph = views.graph = {
  boxes: [], lines: [], at: new Map(), width: 0, height: 0,

  // place computes where everything is that is not folded away.
  place() {
    this.boxes = [];
    this.lines = [];
    this.at.clear();
    const m = measure(0);
    this.put(m, 0, 0);
    this.width = m.width;
    this.height = m.height;
    this.whole = null;
  },
  put(m, ox, oy) {
    const scope = D.scopes[m.s], drawn = D.drawn[m.s], where = new Map();
    ox -= m.left;
    scope.nodes.forEach((at, i) => {
      where.set(at, i);
      const box = { at, x: ox + m.x[i] - m.w[i] / 2, y: oy + m.y[i], w: m.w[i], h: m.h[i], open: m.inner.has(i) };
      this.at.set(at, box);
      this.boxes.push(box);
    });
    for (const e of scope.edges) {
      const a = where.get(e.from), b = where.get(e.to), line = (drawn.lines || {})[a] || [];
      const p = [ox + m.x[a], oy + m.y[a] + m.h[a]];
      const between = drawn.layer[b] - drawn.layer[a] - 1;
      for (let k = 0; k < between && line.length >= between; k++) {
        const l = drawn.layer[a] + 1 + k, x = ox + aside(m, l, line[k]);
        p.push(x, oy + m.top[l], x, oy + m.top[l] + m.tall[l]);
      }
      p.push(ox + m.x[b], oy + m.y[b]);
      let left = Infinity, right = -Infinity;
      for (let k = 0; k < p.length; k += 2) { left = Math.min(left, p[k]); right = Math.max(right, p[k]); }
      this.lines.push({ e, p, left, right, top: p[1], bottom: p[p.length - 1], far: between > 0 && line.length < between });
    }
    scope.nodes.forEach((at, i) => {
      const inner = m.inner.get(i);
      if (inner) this.put(inner, ox + m.x[i] - inner.width / 2, oy + m.y[i] + HEAD);
    });
  },

  limits() { return [Math.min(0.01, 0.5 * this.surface.h / this.height), 3]; },
  fit(first) {
    const s = this.surface, wide = (s.w - 150) / (this.width + 40), k = Math.min(wide, (s.h - 20) / (this.height + 40), 1.2);
    s.kx = s.ky = first ? Math.max(k, Math.min(0.9, Math.max(wide, 0.7))) : k;
    s.y = this.height * s.ky < s.h ? this.height / 2 - s.h / 2 / s.ky : -20 / s.ky;
    let middle = this.width / 2;
    if (this.width * s.kx > s.w && this.boxes.length) { // begin where the graph does
      const top = this.boxes.filter(b => D.nodes[b.at].scope === 0).reduce((a, b) => (b.y < a.y ? b : a));
      middle = top.x + top.w / 2;
    }
    s.x = middle - (s.w - 120) / 2 / s.kx;
    if (first && selection.node >= 0) this.center(selection.node);
  },
  keep() {
    const s = this.surface;
    s.ky = s.kx;
    s.x = Math.max(-s.w * 0.8 / s.kx, Math.min(this.width - s.w * 0.2 / s.kx, s.x));
    s.y = Math.max(-s.h * 0.8 / s.ky, Math.min(this.height - s.h * 0.2 / s.ky, s.y));
  },
  hit(x, y) {
    for (let i = this.boxes.length - 1; i >= 0; i--) {
      const b = this.boxes[i];
      if (x >= b.x && x <= b.x + b.w && y >= b.y && y <= b.y + b.h) return b;
    }
    return null;
  },
  tip(x, y) {
    const b = this.hit(x, y);
    if (!b || b.open && y > b.y + HEAD) return '';
    return summary(b.at);
  },
  click(x, y, e) {
    const b = this.hit(x, y);
    if (!b) return select(-1);
    const knob = D.nodes[b.at].inside >= 0 && x < b.x + 26 && y < b.y + HEAD;
    select(b.at);
    if (knob || e.shiftKey && D.nodes[b.at].inside >= 0) this.toggle(b.at);
  },
  twice(x, y) {
    const b = this.hit(x, y);
    if (b && (!b.open || y <= b.y + HEAD) && x >= b.x + 26) this.toggle(b.at);
  },
  // toggle folds or unfolds a node, which stays where it is on the screen.
  toggle(at) {
    if (D.nodes[at].inside < 0) return;
    const s = this.surface, before = this.at.get(at);
    open.has(at) ? open.delete(at) : open.add(at);
    this.place();
    const now = this.at.get(at);
    s.x += now.x + now.w / 2 - before.x - before.w / 2;
    s.y += now.y - before.y;
    this.keep();
    this.draw();
    describe();
  },
  all(unfold) {
    open.clear();
    if (unfold) D.nodes.forEach((n, i) => n.inside >= 0 && open.add(i));
    this.place();
    this.fit(true);
    this.draw();
    describe();
  },
  enter() { if (selection.node >= 0) this.toggle(selection.node); },
  // step selects the next node that is to be seen, in the order of execution.
  step(by) {
    const list = this.boxes.map(b => b.at).sort((a, b) => a - b);
    if (!list.length) return;
    const i = list.indexOf(selection.node);
    select(list[Math.max(0, Math.min(list.length - 1, (i < 0 ? (by > 0 ? -1 : list.length) : i) + by))]);
    this.center(selection.node);
  },
  // reveal unfolds what a node is in.
  reveal(at) {
    let changed = false;
    for (let s = D.nodes[at].scope; D.scopes[s].owner >= 0; s = D.nodes[D.scopes[s].owner].scope)
      if (!open.has(D.scopes[s].owner)) { open.add(D.scopes[s].owner); changed = true; }
    if (changed) this.place();
  },
  center(at) {
    this.reveal(at);
    const b = this.at.get(at), s = this.surface;
    if (!s.w) return;
    if (s.kx < 0.5) s.kx = s.ky = 0.8;
    s.x = b.x + b.w / 2 - (s.w - 120) / 2 / s.kx;
    s.y = b.y + Math.min(b.h / 2, s.h / 3 / s.ky) - s.h / 2 / s.ky;
    this.draw();
  },
  selected() { if (selection.node >= 0) this.reveal(selection.node); },
  draw() { this.surface.draw(); },

  paint(c, s) {
    const left = s.x, top = s.y, right = s.x + s.w / s.kx, bottom = s.y + s.h / s.ky, k = s.kx;
    c.save();
    c.scale(k, k);
    c.translate(-s.x, -s.y);
    const seen = b => b.x < right && b.x + b.w > left && b.y < bottom && b.y + b.h > top;
    for (const b of this.boxes) if (b.open && seen(b)) this.box(c, b, k);
    this.edges(c, k, left, top, right, bottom);
    if (k < 0.18) this.specks(c, seen);
    else for (const b of this.boxes) if (!b.open && seen(b)) this.box(c, b, k);
    const mine = this.at.get(selection.node);
    if (mine) {
      c.strokeStyle = ink.mark;
      c.lineWidth = 3 / Math.min(k, 1);
      c.strokeRect(mine.x - 3, mine.y - 3, mine.w + 6, mine.h + 6);
    }
    c.restore();
    this.map();
  },
  edges(c, k, left, top, right, bottom) {
    const near = selection.node;
    for (const pass of [false, true]) { // those of the selected node come last
      c.beginPath();
      for (const l of this.lines) {
        if (l.bottom < top || l.top > bottom || l.right < left || l.left > right) continue;
        if ((l.e.from === near || l.e.to === near) !== pass) continue;
        const p = l.p;
        c.moveTo(p[0], p[1]);
        for (let i = 2; i < p.length; i += 2) {
          const x0 = p[i - 2], y0 = p[i - 1], x1 = p[i], y1 = p[i + 1];
          if (k < 0.25 || x0 === x1) c.lineTo(x1, y1);
          else {
            const mid = (y0 + y1) / 2;
            c.bezierCurveTo(x0, mid, x1, mid, x1, y1);
          }
        }
        if (k > 0.4) {
          const x = p[p.length - 2], y = p[p.length - 1];
          c.moveTo(x - 4, y - 7);
          c.lineTo(x, y);
          c.lineTo(x + 4, y - 7);
        }
      }
      c.strokeStyle = pass ? ink.mark : ink.muted;
      c.lineWidth = pass ? 2.5 / Math.min(k, 1) : 1.2 * Math.max(0.3, Math.min(1, 3 * k)) / Math.min(k, 1); // thin ones from far away
      c.globalAlpha = pass ? 1 : k < 0.2 ? 0.5 : 0.75;
      c.stroke();
      c.globalAlpha = 1;
    }
  },
  // specks are boxes too small for text, one fill for each colour.
  specks(c, seen) {
    const by = new Map();
    for (const b of this.boxes) if (!b.open && seen(b)) push(by, hue(D.nodes[b.at]), b);
    for (const [fill, list] of by) {
      c.fillStyle = fill;
      for (const b of list) c.fillRect(b.x, b.y, b.w, b.h);
    }
  },
  box(c, b, k) {
    const n = D.nodes[b.at], stroke = hue(n), round = n.kind === 'input' || n.kind === 'output' ? 12 : n.kind === 'convert' ? 2 : 7;
    c.beginPath();
    c.roundRect(b.x, b.y, b.w, b.h, round);
    c.fillStyle = ink.bg;
    c.globalAlpha = b.open ? 0.6 : 1;
    c.fill();
    c.globalAlpha = b.open ? 0.05 : theme === 'dark' ? 0.22 : 0.13;
    c.fillStyle = stroke;
    c.fill();
    c.globalAlpha = 1;
    c.strokeStyle = stroke;
    c.lineWidth = (n.kind === 'group' ? 2 : 1.3) / Math.min(Math.max(k, 0.4), 1);
    c.setLineDash(n.kind === 'convert' ? [6, 4] : []);
    c.stroke();
    c.setLineDash([]);
    if (k < 0.28) return;
    c.textBaseline = 'middle';
    c.fillStyle = ink.fg;
    const fold = n.inside >= 0 ? 18 : 0;
    if (fold) {
      c.font = '13px system-ui, sans-serif';
      c.fillText(b.open ? '▾' : '▸', b.x + 9, b.y + 15);
    }
    let [first, second, corner] = caption(b.at);
    if (b.open && n.kind === 'group') {
      c.font = '11px system-ui, sans-serif';
      const long = second + ' · ' + corner;
      if (c.measureText(long).width + 90 < b.w) corner = long;
    }
    c.font = (n.kind === 'input' || n.kind === 'output' ? '' : '600 ') + '12px system-ui, sans-serif';
    let room = b.w - 16 - fold;
    if (corner) {
      c.textAlign = 'right';
      c.font = '11px system-ui, sans-serif';
      c.fillStyle = ink.muted;
      const w = c.measureText(corner).width;
      c.fillText(corner, b.x + b.w - 8, b.y + (second || b.open ? 14 : b.h / 2));
      c.textAlign = 'left';
      room -= w + 8;
      c.fillStyle = ink.fg;
      c.font = '600 12px system-ui, sans-serif';
    }
    c.fillText(clipped(c, first, room), b.x + 8 + fold, b.y + (second || b.open ? 14 : b.h / 2));
    if (!second || b.open) return;
    c.font = '11px system-ui, sans-serif';
    c.fillStyle = ink.muted;
    c.fillText(tail(c, second, b.w - 16), b.x + 8, b.y + (n.kind === 'group' ? 40 : 29));
  },
  // map draws all of it, and what part of it is in view. The first is kept until something changes.
  map() {
    const canvas = $('map'), d = devicePixelRatio || 1, w = canvas.clientWidth, h = canvas.clientHeight;
    if (!w) return;
    // Both ways it fills the map, however long or wide it is.
    const s = this.surface, [kx, ky] = this.scale = [Math.min((w - 8) / this.width, 0.5), Math.min((h - 8) / this.height, 0.5)];
    const left = (w - this.width * kx) / 2, top = (h - this.height * ky) / 2;
    if (!this.whole || this.whole.w !== w || this.whole.h !== h || this.whole.theme !== theme) {
      const image = document.createElement('canvas');
      image.width = w * d;
      image.height = h * d;
      const c = image.getContext('2d');
      c.scale(d, d);
      c.translate(left, top);
      for (const b of this.boxes) {
        c.fillStyle = hue(D.nodes[b.at]);
        c.globalAlpha = b.open ? 0.12 : 0.9;
        c.fillRect(b.x * kx, b.y * ky, Math.max(b.w * kx, 1), Math.max(b.h * ky, 1));
      }
      this.whole = { image, w, h, theme };
    }
    canvas.width = w * d;
    canvas.height = h * d;
    const c = canvas.getContext('2d');
    c.drawImage(this.whole.image, 0, 0);
    c.scale(d, d);
    c.translate(left, top);
    c.strokeStyle = ink.mark;
    c.lineWidth = 1.5;
    const x0 = Math.max(s.x * kx, 2 - left), y0 = Math.max(s.y * ky, 2 - top), x1 = Math.min((s.x + s.w / s.kx) * kx, w - left - 2), y1 = Math.min((s.y + s.h / s.ky) * ky, h - top - 2);
    c.strokeRect(x0, y0, Math.max(x1 - x0, 3), Math.max(y1 - y0, 3));
  },
};

// hue is the colour of a node; conversions and what the host scheduler has are gray.
const hue = n => n.kind === 'input' || n.kind === 'output' || n.kind === 'region' || n.kind === 'host' || n.kind === 'convert' && n.group < 0 ? color('') : color(n.backend);

// caption is what is written on a node: two lines, and its corner.
function caption(at) {
  const n = D.nodes[at], spent = measured(at);
  switch (n.kind) {
    case 'group': return [n.label, contents(at) + (spent ? ' · ' + time(spent) : ''), n.backend + (n.device ? ' on ' + n.device : '')];
    case 'convert': return [n.label, bytes(n.bytes || 0) + ' · ' + (spent ? time(spent) : n.nanoseconds ? '~' + time(n.nanoseconds) : n.via), ''];
    case 'input': case 'output': return [n.kind + ': ' + n.name, '', ''];
    case 'region': return [n.label, '', ''];
  }
  return [n.label, n.name, n.kind === 'host' ? 'host' : n.backend];
}

// contents says what is in a group: the operators where they are few, or how many nodes.
function contents(at) {
  const n = D.nodes[at], inside = n.inside < 0 ? [] : D.scopes[n.inside].nodes.filter(m => D.nodes[m].kind === 'op');
  return inside.length && inside.length <= 3 ? inside.map(m => D.nodes[m].label).join(', ') : counted((n.nodes || []).length, 'node');
}

// summary is what a tooltip says of a node.
function summary(at) {
  const n = D.nodes[at], spent = measured(at), lines = [isolated(n.label)];
  if (n.name && n.kind !== 'group') lines.push(isolated(n.name));
  if (n.kind === 'op') lines.push('on ' + n.backend + (n.property ? ', fused by ' + isolated(n.property) : ''));
  if (n.kind === 'host') lines.push('run by the host scheduler');
  if (n.kind === 'convert') lines.push(bytes(n.bytes || 0) + (n.nanoseconds ? ', modelled ' + time(n.nanoseconds) : '') + ', by ' + n.via);
  if (n.kind === 'group') lines.push(counted(n.nodes.length, 'node') + ' on ' + n.backend);
  for (const v of n.outputs || []) if (v.type) lines.push('→ ' + v.type + (v.format ? ' ' + v.format : ''));
  if (spent) lines.push('measured ' + time(spent));
  return lines.slice(0, 8).join('\n');
}

function startGraph() {
  graph.place();
  graph.surface = new Surface($('graph'), graph, 'both');
  $('fold').onclick = () => graph.all(false);
  $('unfold').onclick = () => graph.all(true);
  $('fit').onclick = () => { graph.fit(); graph.draw(); };
  const jump = e => {
    const r = $('map').getBoundingClientRect(), s = graph.surface, [kx, ky] = graph.scale;
    s.x = (e.clientX - r.left - (r.width - graph.width * kx) / 2) / kx - s.w / 2 / s.kx;
    s.y = (e.clientY - r.top - (r.height - graph.height * ky) / 2) / ky - s.h / 2 / s.ky;
    graph.keep();
    graph.draw();
  };
  $('map').onpointerdown = e => { $('map').setPointerCapture(e.pointerId); jump(e); };
  $('map').onpointermove = e => e.buttons && jump(e);
}
