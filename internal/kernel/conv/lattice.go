package conv

// axis is one dimension of a lattice of output positions. Position i lies above source position i*step + taps[k].at for
// each of its taps, where that is inside [0, size).
type axis struct {
	n    int // positions
	step int
	size int // of the source
	taps []axisTap
}

// axisTap is kernel position k and the source position under it for output position 0.
type axisTap struct{ k, at int }

// reach returns which of the positions [from, from+n) have a source position under tap t, as an interval from from.
func (a *axis) reach(t axisTap, from, n int) span {
	// 0 <= (from+p)*step + at < size
	lo := ceilDiv(-t.at, a.step) - from
	hi := ceilDiv(a.size-t.at, a.step) - from
	lo, hi = max(lo, 0), min(hi, n)
	if lo >= hi {
		return span{}
	}
	return span{lo, hi}
}

func ceilDiv(a, b int) int {
	q := a / b
	if a%b != 0 && a > 0 {
		q++
	}
	return q
}

// span is a half-open interval.
type span struct{ lo, hi int }

func (s span) empty() bool { return s.lo >= s.hi }

// convAxis is the axis of a convolution or pool.
func convAxis(size, out, kernel, stride, dilate, pad int) axis {
	a := axis{n: out, step: stride, size: size}
	for k := range kernel {
		a.taps = append(a.taps, axisTap{k, k*dilate - pad})
	}
	return a
}

// phaseAxis is the axis of those outputs of a transposed convolution whose position is phase modulo stride.
func phaseAxis(size, out, kernel, stride, dilate, pad, phase int) axis {
	a := axis{n: max(0, (out-phase+stride-1)/stride), step: 1, size: size}
	// Source positions ascend with falling k; the order of k is kept, so that sums have the order of a convolution.
	for k := range kernel {
		if d := phase + pad - k*dilate; mod(d, stride) == 0 {
			a.taps = append(a.taps, axisTap{k, floorDiv(d, stride)})
		}
	}
	return a
}

func mod(a, b int) int { return ((a % b) + b) % b }

func floorDiv(a, b int) int { return (a - mod(a, b)) / b }

// lattice is a set of output pixels with a common set of taps: all of them for a convolution, every stride-th in both
// directions for a transposed one.
type lattice struct {
	y, x         axis
	dst          int // offset of position (0, 0) in pixels
	dstRow       int // pixels between rows
	dstCol       int // pixels between columns
	sourceRow    int // source pixels in a row
	sourcePixel  int // bytes of a source pixel
	kernelWidth  int
	pieces       []piece // of a full block
	tail         []piece // of the last block, nil: none
	merge        int     // source pixels between neighbouring taps of a row that become steps of one tap, 0: never
	down         int     // source pixels between neighbouring taps of a column whose rows become one tap, where there is code for rows
	padded       *Map    // not nil: average pooling that counts padding
	countsPixels bool    // average pooling
}

// piece is a part of the source channels, whose taps follow each other in a list. The places are bytes from those of a tap.
type piece struct {
	src, w   int
	tapBytes int // of weights of a tap
	steps    int // channels of a tap, 0: not dense
}

// table is the tiles of an output plane for one kernel. Tiles of unit u are tiles[unit[u]:unit[u+1]].
type table struct {
	tileKernel
	taps     []tap
	tiles    []tile
	unit     []int32
	scales   []float32
	pairs    bool  // tiles cover two rows
	single   bool  // but those of the last unit, of which group B is in the same row as group A
	width    int   // pixels of a tile that is in one row, at most
	steps    int64 // multiply-adds of 16 lanes for one output block in the whole plane, channel blocks not counted
	lists    map[listKey]listAt
	rowClass map[string]int
	colClass map[string]int
	cols     []span // scratch of add
	key      []byte
}

type listKey struct{ lattice, row, col int }

// listAt is where a tap list was put: byte offsets of the full and the tail version, and its steps.
type listAt struct {
	taps, tail int64
	steps      int64
	single     int64 // see tile
}

// class returns the number of a key, a new one for a new key. Keys of rows begin with the number of their lattice.
func class(m map[string]int, key []byte) int {
	if c, ok := m[string(key)]; ok {
		return c
	}
	c := len(m)
	m[string(key)] = c
	return c
}

func newTable(k tileKernel) *table {
	return &table{tileKernel: k, width: k.pixels, lists: map[listKey]listAt{}, rowClass: map[string]int{}, colClass: map[string]int{}}
}

// overflows reports whether the lists are too long; they are not complete then.
func (t *table) overflows() bool { return len(t.taps) > mostListed }

// done drops what only building needs. Kernels look at the tile behind the one that they compute, so that there is one more.
func (t *table) done() {
	if n := len(t.tiles); n > 0 {
		t.tiles = append(t.tiles, t.tiles[n-1])
	}
	t.lists, t.rowClass, t.colClass, t.cols, t.key = nil, nil, nil, nil, nil
}

// cut splits n pixels into the fewest pieces of at most limit, as equal as possible, and calls f with each.
func cut(n, limit int, f func(from, n int)) {
	pieces := (n + limit - 1) / limit
	from := 0
	for i := range pieces {
		w := n / pieces
		if i < n%pieces {
			w++
		}
		f(from, w)
		from += w
	}
}

// addRow appends the tiles of one row of columns [from, from+n) of lattice l.
func (t *table) addRow(id int, l *lattice, row, from, n int) {
	rows := t.rows(l, row, 1)
	cut(n, t.width, func(at, w int) { t.add(id, l, row, rows, from+at, w, min(w, t.group), w-min(w, t.group)) })
}

// addPair appends the tiles of rows row and row+1 (where that exists).
func (t *table) addPair(id int, l *lattice, row int) {
	if row+1 == l.y.n {
		t.single = l.x.n > t.group
		t.addRow(id, l, row, 0, l.x.n)
		return
	}
	rows := t.rows(l, row, 2)
	cut(l.x.n, t.group, func(at, w int) { t.add(id, l, row, rows, at, w, w, w) })
}

// rows tells for each tap of the column which of n rows it reaches, as bits.
func (t *table) rows(l *lattice, row, n int) []byte {
	bits := make([]byte, len(l.y.taps))
	for i, ty := range l.y.taps {
		for r := range n {
			if !l.y.reach(ty, row+r, 1).empty() {
				bits[i] |= 1 << r
			}
		}
	}
	return bits
}

func (t *table) add(id int, l *lattice, row int, rows []byte, col, width, n0, n1 int) {
	if t.overflows() {
		return
	}
	cols, key := t.cols[:0], append(t.key[:0], byte(n0), byte(n1))
	for _, tx := range l.x.taps {
		s := l.x.reach(tx, col, width)
		cols, key = append(cols, s), append(key, byte(s.lo), byte(s.hi))
	}
	t.cols, t.key = cols, key
	k := listKey{id, class(t.rowClass, rows), class(t.colClass, key)}
	at, ok := t.lists[k]
	if !ok {
		at = t.listFor(l, rows, cols, col, n0, n1)
		if l.tail != nil {
			at.tail, _ = t.list(l, rows, cols, l.tail)
		}
		t.lists[k] = at
	}
	one := tile{
		taps: at.taps, tail: at.tail, n0: int64(n0), n1: int64(n1), single: at.single,
		src: int64((row*l.y.step*l.sourceRow + col*l.x.step) * l.sourcePixel),
		dst: int64(l.dst+row*l.dstRow+col*l.dstCol) * 64,
	}
	if l.countsPixels {
		one.scale = t.addScales(l, row, col, n0, n1)
	}
	t.steps += at.steps
	t.tiles = append(t.tiles, one)
}

// listFor appends the tap list of a tile of full blocks: of whole rows of the kernel where there is code for them.
func (t *table) listFor(l *lattice, rows []byte, cols []span, col, n0, n1 int) (at listAt) {
	var ok bool
	if at.taps, at.steps, ok = t.planarList(l, rows, cols, col, n0+n1); ok {
		at.single = 1
		return at
	}
	if at.taps, at.steps, ok = t.rowList(l, rows, cols, col, n0, n1); !ok {
		at.taps, at.steps = t.list(l, rows, cols, l.pieces)
	} else if !t.pairs && int64(len(t.taps))*tapSize == at.taps+2*tapSize {
		at.single = 1
	}
	return at
}

// list appends a tap list, of one piece after the other, and returns its offset and the multiply-adds that it takes for one output block.
func (t *table) list(l *lattice, rows []byte, cols []span, pieces []piece) (offset, steps int64) {
	offset = int64(len(t.taps)) * tapSize
	for i := range pieces {
		for iy, bits := range rows {
			if t.overflows() {
				return offset, steps
			}
			steps += t.rowTaps(l, l.y.taps[iy], bits, cols, &pieces[i])
		}
	}
	t.taps = append(t.taps, tap{body: t.bodies[t.places.end]})
	return offset, steps
}

// rowTaps appends the taps of one row of the kernel, which reaches those rows of a tile that bits name.
func (t *table) rowTaps(l *lattice, ty axisTap, bits byte, cols []span, of *piece) (steps int64) {
	if bits == 0 {
		return 0
	}
	for ix := 0; ix < len(l.x.taps); ix++ {
		s, tx := cols[ix], l.x.taps[ix]
		if s.empty() {
			continue
		}
		run := 1
		for l.merge > 0 && ix+run < len(cols) && cols[ix+run] == s && l.x.taps[ix+run] == (axisTap{tx.k + run, tx.at + run*l.merge}) {
			run++
		}
		ix += run - 1
		n, reached, pair := s.hi-s.lo, s, false
		switch {
		case bits == 1:
		case bits == 2:
			reached = span{t.group + s.lo, t.group + s.hi}
		case s == span{0, t.group}:
			n, reached = 2*n, span{0, t.pixels}
		default:
			n, pair = 2*n, true
		}
		for !reached.empty() {
			one := tap{
				src:   int64((ty.at*l.sourceRow+tx.at)*l.sourcePixel + of.src),
				w:     int64((ty.k*l.kernelWidth+tx.k)*of.tapBytes + of.w),
				count: int64(max(1, of.steps)*run) * 64,
			}
			var place int
			place, reached = t.places.of(reached, pair)
			one.body = t.bodies[place]
			t.taps = append(t.taps, one)
		}
		steps += int64(max(1, of.steps) * run * n)
	}
	return steps
}

// addScales appends the reciprocal counts of a tile's pixels and returns their offset in bytes.
func (t *table) addScales(l *lattice, row, col, n0, n1 int) int64 {
	offset := int64(len(t.scales)) * 4
	scales := make([]float32, t.pixels)
	one := func(p, r, c int) {
		if n := l.count(r, c); n > 0 {
			scales[p] = 1 / float32(n)
		}
	}
	if t.pairs {
		for c := range n0 {
			one(c, row, col+c)
		}
		for c := range n1 {
			one(t.group+c, row+1, col+c)
		}
	} else {
		for c := range n0 + n1 {
			one(c, row, col+c)
		}
	}
	// Neighbouring tiles often have the same scales.
	if n := len(t.scales); n >= t.pixels && equalScales(t.scales[n-t.pixels:], scales) {
		return int64(n-t.pixels) * 4
	}
	t.scales = append(t.scales, scales...)
	return offset
}

func equalScales(a, b []float32) bool {
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// count is the divisor of an average.
func (l *lattice) count(row, col int) int {
	in := func(a *axis, i, before, after int) (n int) {
		for _, t := range a.taps {
			if p := i*a.step + t.at; p >= -before && p < a.size+max(0, after) {
				n++
			}
		}
		return n
	}
	if l.padded == nil {
		return in(&l.y, row, 0, 0) * in(&l.x, col, 0, 0)
	}
	p := l.padded.Pad
	return in(&l.y, row, p[0], p[2]) * in(&l.x, col, p[1], p[3])
}
