// Timeline: the steps of the measured run on the tracks of their devices. Steps in a step, such as those of a loop's body, stand below it.

const timeline = views.timeline = {
  rows: [], // first row of each track
  depth: [], // of each span, below its track's first row
  within: [], // the span that each lies in, -1 for none
  limits() { const k = this.surface.w / Math.max(D.run ? D.run.nanoseconds : 1, 1); return [k * 0.9, Math.max(k * 1e5, 0.2)]; },
  fit() {
    const s = this.surface;
    if (!D.run) return;
    s.kx = (s.w - 130) / Math.max(D.run.nanoseconds, 1);
    s.ky = 1;
    s.x = -120 / s.kx;
    s.y = 0;
  },
  keep() {
    const s = this.surface;
    if (!D.run) return;
    s.x = Math.max(-120 / s.kx, Math.min(D.run.nanoseconds - s.w * 0.1 / s.kx, s.x));
  },
  arrange() {
    const stacks = D.run.tracks.map(() => []), deepest = D.run.tracks.map(() => 1);
    const byStart = D.run.spans.map((x, i) => i).sort((i, j) => D.run.spans[i].start - D.run.spans[j].start || D.run.spans[j].time - D.run.spans[i].time);
    for (const i of byStart) {
      const x = D.run.spans[i], stack = stacks[x.track];
      while (stack.length && D.run.spans[stack[stack.length - 1]].start + D.run.spans[stack[stack.length - 1]].time < x.start + x.time) stack.pop();
      this.depth[i] = stack.length;
      this.within[i] = stack.length ? stack[stack.length - 1] : -1;
      stack.push(i);
      deepest[x.track] = Math.max(deepest[x.track], stack.length);
    }
    let row = 0;
    D.run.tracks.forEach((t, i) => { this.rows[i] = row; row += deepest[i] + 0.5; });
    document.querySelector('#view-timeline .stage').style.flex = '0 1 ' + Math.max(row * 30 + 60, 140) + 'px';
  },
  y(i) { return 40 + (this.rows[D.run.spans[i].track] + this.depth[i]) * 30; },
  hit(x, y) {
    if (!D.run) return -1;
    const slack = 2 / this.surface.kx;
    return D.run.spans.findIndex((t, i) => x >= t.start - (t.time < slack ? slack : 0) && x < t.start + Math.max(t.time, slack) && y >= this.y(i) && y < this.y(i) + 26);
  },
  tip(x, y) {
    const i = this.hit(x, y);
    if (i < 0) return '';
    const t = D.run.spans[i];
    return isolated(named(t)) + '\n' + isolated(t.name) + '\n' + time(t.time) + ' of ' + time(D.run.nanoseconds) + ', from ' + time(t.start) +
      (t.flops ? '\n' + (t.flops / t.time).toFixed(1) + ' GFLOP/s' : '') + '\non ' + t.backend;
  },
  click(x, y) { this.pick(this.hit(x, y)); },
  pick(i) { i < 0 ? select(-1) : select(D.run.spans[i].node, { span: i }); },
  step(by) {
    if (!D.run || !D.run.spans.length) return;
    const n = D.run.spans.length, at = selection.span;
    this.pick(Math.max(0, Math.min(n - 1, (at < 0 ? (by > 0 ? -1 : n) : at) + by)));
  },
  draw() { this.surface.draw(); },
  paint(c, s) {
    c.font = '12px system-ui, sans-serif';
    c.textBaseline = 'middle';
    if (!D.run) {
      c.fillStyle = ink.fg;
      return c.fillText('No run was measured. carve report --profile measures one.', 20, 30);
    }
    const X = x => (x - s.x) * s.kx, sums = new Map();
    let count = 0, longest = [];
    D.run.spans.forEach((t, i) => {
      const x = X(t.start), w = t.time * s.kx;
      if (x + w < 120 || x > s.w) return;
      const part = Math.max(0, Math.min(t.start + t.time, s.x + s.w / s.kx) - Math.max(t.start, s.x)), add = (to, by) => sums.set(to, (sums.get(to) || 0) + by);
      add(t.backend, part);
      if (this.within[i] >= 0) add(D.run.spans[this.within[i]].backend, -part); // what runs in a step counts once
      count++;
      const chosen = selection.span >= 0 ? selection.span === i : selection.node >= 0 && within(t.node, selection.node);
      c.fillStyle = color(t.backend === 'convert' ? '' : t.backend);
      c.globalAlpha = chosen ? 1 : theme === 'dark' ? 0.55 : 0.45;
      c.fillRect(x, this.y(i), Math.max(w - (w > 3 ? 1 : 0), 0.7), 26);
      c.globalAlpha = 1;
      if (chosen) longest.push([x, this.y(i), Math.max(w, 2)]);
      if (w > 40) {
        c.fillStyle = chosen ? ink.bg : ink.fg;
        const from = Math.max(x, 120) + 4;
        if (x + w - from > 30) c.fillText(clipped(c, named(t), x + w - from - 6), from, this.y(i) + 13);
      }
    });
    c.strokeStyle = ink.mark;
    c.lineWidth = 2.5;
    for (const [x, y, w] of longest) c.strokeRect(x, y - 1, w, 28);
    c.fillStyle = ink.bg;
    c.fillRect(0, 0, 118, s.h);
    c.fillStyle = ink.muted;
    D.run.tracks.forEach((t, i) => c.fillText(clipped(c, t.name, 104), 10, 40 + this.rows[i] * 30 + 13));
    const step = ticks(s.w / s.kx, 8);
    c.textAlign = 'center';
    for (let v = Math.max(0, Math.ceil(s.x / step) * step); X(v) < s.w && v <= D.run.nanoseconds; v += step) {
      if (X(v) < 120) continue;
      c.fillText(time(v), X(v), 14);
      c.fillRect(X(v), 24, 1, 6);
    }
    c.textAlign = 'left';
    const text = [...sums].filter(([, t]) => t > 0).sort((a, b) => b[1] - a[1]).map(([b, t]) => b + ' ' + time(t)).join(', ');
    $('range').textContent = 'total ' + time(D.run.nanoseconds) + ' · in view: ' + counted(count, 'step') + (text ? ': ' + text : '');
  },
};

// named is the operator of a span, in the words of the graph.
const named = t => t.node >= 0 && ['op', 'convert'].includes(D.nodes[t.node].kind) ? D.nodes[t.node].label : t.op;

// within reports whether a node is another, or in it.
function within(at, owner) {
  for (; at >= 0; at = D.scopes[D.nodes[at].scope].owner) if (at === owner) return true;
  return false;
}

function startTimeline() {
  if (D.run) {
    timeline.arrange();
    const holds = new Set(timeline.within), list = D.run.spans.map((t, i) => i).sort((i, j) => D.run.spans[j].time - D.run.spans[i].time).slice(0, 100);
    const rows = list.map(i => {
      const t = D.run.spans[i];
      return element('tr', {}, element('td', { className: 'num', textContent: time(t.time) }),
        element('td', { className: 'num', textContent: (100 * t.time / Math.max(D.run.nanoseconds, 1)).toFixed(1) + '%' }),
        element('td', { className: 'num', textContent: t.flops ? (t.flops / t.time).toFixed(1) : '' }), element('td', { textContent: t.backend }), element('td', { textContent: named(t) + (holds.has(i) ? ', with the steps in it' : '') }),
        element('td', {}, element('button', { className: 'link', type: 'button', textContent: t.name || '(no name)', onclick: () => timeline.pick(i) })));
    });
    const head = ['time', 'share', 'GFLOP/s', 'backend', 'operator', 'slowest steps'].map((text, i) => element('th', { textContent: text, className: i < 3 ? 'num' : '' }));
    $('slowest').append(element('table', {}, element('thead', {}, element('tr', {}, ...head)), element('tbody', {}, ...rows)));
  } else $('slowest').hidden = true;
  timeline.surface = new Surface($('timeline'), timeline, 'x');
}
