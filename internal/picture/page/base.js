// What all views share: the data, what is selected, colours, numbers in words, and canvases that pan and zoom.

const D = JSON.parse(document.getElementById('data').textContent);
const $ = id => document.getElementById(id);

// element makes an element. Text of the model comes in as text alone, never as markup.
function element(tag, properties, ...children) {
  const e = document.createElement(tag);
  Object.assign(e, properties);
  e.append(...children);
  return e;
}

// Colours that people with any colour vision tell apart (Okabe and Ito, 2008), darker or lighter where the background needs that.
// What nobody has is gray. Boxes say their backend in words too.
const palettes = {
  light: ['#0072b2', '#b87700', '#00805d', '#b0508a', '#2a8fc7', '#c65400', '#857a00'],
  dark: ['#58b0e8', '#f0a920', '#35cfa2', '#e79bc6', '#a6dcff', '#ff8f47', '#f0e442'],
};
let theme = 'light';
const order = new Map(D.backends.map((b, i) => [b.name, i]));
function color(backend) {
  const i = order.get(backend);
  return i === undefined ? (theme === 'dark' ? '#9aa3b0' : '#667080') : palettes[theme][i % palettes[theme].length];
}
const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
let ink = {};

const bytes = n => {
  for (const unit of ['B', 'KiB', 'MiB', 'GiB']) {
    if (n < 1024 || unit === 'GiB') return (unit === 'B' ? n : n.toFixed(1)) + ' ' + unit;
    n /= 1024;
  }
};
const time = ns => ns < 1e3 ? ns.toFixed(0) + ' ns' : ns < 1e6 ? (ns / 1e3).toFixed(1) + ' µs' : ns < 1e9 ? (ns / 1e6).toFixed(2) + ' ms' : (ns / 1e9).toFixed(2) + ' s';
const counted = (n, what) => n + ' ' + what + (n === 1 ? '' : 's');

// isolated keeps text that is written from right to left from turning what stands around it.
const isolated = s => '\u2068' + s + '\u2069';

// Links between the views: what nodes have elsewhere, and who makes a value.
const spansOf = new Map(), buffersOf = new Map(), makers = new Map(), timeOf = new Map();
const push = (map, key, x) => map.has(key) ? map.get(key).push(x) : map.set(key, [x]);
(D.run ? D.run.spans : []).forEach((s, i) => { push(spansOf, s.node, i); timeOf.set(s.node, (timeOf.get(s.node) || 0) + s.time); });
D.arenas.forEach((a, k) => a.buffers.forEach((b, i) => push(buffersOf, b.node, [k, i])));
D.nodes.forEach((n, i) => {
  if (n.kind === 'op' || n.kind === 'host' || n.kind === 'input' && n.scope === 0)
    for (const v of n.outputs || []) if (v.name && !makers.has(v.name)) makers.set(v.name, i);
});

// measured is the time of a node in the measured run, of a group that of all in it.
function measured(i) {
  if (!D.run) return 0;
  const n = D.nodes[i];
  let sum = timeOf.get(i) || 0;
  if (n.kind === 'group' && n.inside >= 0) for (const m of D.scopes[n.inside].nodes) sum += timeOf.get(m) || 0;
  return sum;
}

// The selection: a node, and in memory and timeline a buffer or a span. Views tell and are told by change.
const selection = { node: -1, arena: -1, buffer: -1, span: -1 };
const views = {};
let tab = 'graph';
function select(node, more) {
  Object.assign(selection, { node, arena: -1, buffer: -1, span: -1 }, more);
  describe();
  remember();
  for (const v of Object.values(views)) v.selected && v.selected();
  views[tab].draw();
}

// Surface is a canvas with a view: world coordinates times k less the origin are pixels. It asks the view what is at a point.
class Surface {
  constructor(canvas, view, axes) {
    Object.assign(this, { canvas, view, axes, x: 0, y: 0, kx: 1, ky: 1, w: 0, h: 0, pending: false });
    canvas.addEventListener('wheel', e => {
      e.preventDefault();
      if (e.shiftKey && axes === 'both') return this.pan(e.deltaY + e.deltaX, 0);
      const r = canvas.getBoundingClientRect();
      this.zoom(Math.exp(-Math.max(-60, Math.min(60, e.deltaY)) / 200), e.clientX - r.left, e.clientY - r.top);
    }, { passive: false });
    let down = null, moved = false;
    canvas.addEventListener('pointerdown', e => { down = e; moved = false; canvas.setPointerCapture(e.pointerId); });
    canvas.addEventListener('pointermove', e => {
      if (down && (moved || Math.abs(e.clientX - down.clientX) + Math.abs(e.clientY - down.clientY) > 4)) {
        this.pan((moved ? moved.clientX : down.clientX) - e.clientX, (moved ? moved.clientY : down.clientY) - e.clientY);
        moved = e;
        tip();
      } else if (!down) tip(e, view.tip(...this.world(e)));
    });
    canvas.addEventListener('pointerup', e => { if (down && !moved) view.click(...this.world(e), e); down = null; });
    canvas.addEventListener('pointercancel', () => { down = null; });
    canvas.addEventListener('pointerleave', () => tip());
    canvas.addEventListener('dblclick', e => view.twice && view.twice(...this.world(e)));
    canvas.addEventListener('keydown', e => this.key(e));
    new ResizeObserver(() => this.resize()).observe(canvas);
  }
  world(e) {
    const r = this.canvas.getBoundingClientRect();
    return [(e.clientX - r.left) / this.kx + this.x, (e.clientY - r.top) / this.ky + this.y];
  }
  resize() {
    const r = this.canvas.getBoundingClientRect(), d = devicePixelRatio || 1;
    if (!r.width) return;
    const first = !this.w;
    this.w = r.width;
    this.h = r.height;
    this.canvas.width = Math.round(r.width * d);
    this.canvas.height = Math.round(r.height * d);
    if (first || this.axes !== 'both') this.view.fit(first);
    this.paint();
  }
  pan(dx, dy) {
    this.x += dx / this.kx;
    if (this.axes !== 'x') this.y += dy / this.ky;
    this.keep();
  }
  zoom(by, px = this.w / 2, py = this.h / 2) {
    const [least, most] = this.view.limits();
    const k = Math.max(least, Math.min(most, this.kx * by));
    by = k / this.kx;
    this.x += px / this.kx * (1 - 1 / by);
    this.kx = k;
    if (this.axes !== 'x') {
      this.y += py / this.ky * (1 - 1 / by);
      this.ky *= by;
    }
    this.keep();
  }
  keep() {
    this.view.keep && this.view.keep();
    this.draw();
  }
  key(e) {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    const step = 60;
    const moves = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step], ArrowDown: [0, step], PageUp: [0, -this.h * 0.9], PageDown: [0, this.h * 0.9] };
    if (moves[e.key]) this.pan(...moves[e.key]);
    else if (e.key === '+' || e.key === '=') this.zoom(1.25);
    else if (e.key === '-') this.zoom(0.8);
    else if (e.key === '0') { this.view.fit(); this.draw(); }
    else if (e.key === 'n') this.view.step(1);
    else if (e.key === 'p') this.view.step(-1);
    else if (e.key === 'Enter' || e.key === ' ') this.view.enter && this.view.enter();
    else if (e.key === 'Home' || e.key === 'End') this.view.step(e.key === 'Home' ? -Infinity : Infinity);
    else return;
    e.preventDefault();
    e.stopPropagation();
  }
  draw() {
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => this.paint());
  }
  paint() {
    this.pending = false;
    if (!this.w) return;
    const c = this.canvas.getContext('2d'), d = devicePixelRatio || 1;
    c.setTransform(d, 0, 0, d, 0, 0);
    c.fillStyle = ink.bg;
    c.fillRect(0, 0, this.w, this.h);
    this.view.paint(c, this);
  }
}

function tip(e, text) {
  const t = $('tip');
  t.hidden = !text;
  if (!text) return;
  t.textContent = text;
  const left = Math.min(e.clientX + 14, innerWidth - t.offsetWidth - 8), below = e.clientY + 16;
  t.style.left = Math.max(4, left) + 'px';
  t.style.top = (below + t.offsetHeight > innerHeight ? e.clientY - t.offsetHeight - 10 : below) + 'px';
}

// clipped returns text that fits a width in pixels, in the context's font.
const widths = new Map();
function clipped(c, text, width) {
  const key = c.font + width + text;
  let out = widths.get(key);
  if (out !== undefined) return out;
  out = text.slice(0, 200);
  if (c.measureText(out).width > width) {
    let low = 0, high = out.length;
    while (low < high) {
      const mid = (low + high + 1) >> 1;
      if (c.measureText(out.slice(0, mid) + '…').width <= width) low = mid;
      else high = mid - 1;
    }
    out = out.slice(0, low) + '…';
  }
  if (widths.size > 60000) widths.clear();
  widths.set(key, out);
  return out;
}
// spoken is a value's name without the ending that exporters give every result, which says nothing where there is little room.
function spoken(name) { return name.replace(/(.)_output_0$/, '$1'); }

// tail is clipped for names whose end says most, such as paths: what is left out is the beginning.
function tail(c, text, width) {
  if (c.measureText(text).width <= width) return text;
  const key = 'tail' + c.font + width + text;
  let out = widths.get(key);
  if (out === undefined) {
    let low = 0, high = Math.min(text.length, 200);
    while (low < high) {
      const mid = (low + high + 1) >> 1;
      if (c.measureText('…' + text.slice(text.length - mid)).width <= width) low = mid;
      else high = mid - 1;
    }
    out = '…' + text.slice(text.length - low);
    widths.set(key, out);
  }
  return out;
}
