package exec

import (
	"context"
	"fmt"
	"slices"

	"github.com/carve-dev/carve/graph/tensor"
)

// loopRun runs a Loop or Scan of a frame. What it needs is made with the frame: an iteration allocates nothing, but for values
// that become larger than those before or are no tensors, and for results that grow.
type loopRun struct {
	f                *frame
	i                int // the step
	l                *loopSpec
	g                *frame // of the body
	iter, cond       *tensor.Tensor
	cur, next        []tensor.Tensor // carried values of one shape
	loose, looseNext []carried       // the other ones
	scratch          []tensor.Tensor
	spare            []*tensor.Tensor  // per home: for storage that is not as somebody wants it
	pools            [][]tensor.Tensor // buffers of this run
	used             [][]bool          // in this iteration
	first            int               // where pools are looked through from
	needs            []int64           // per home: the alignment that its makers and readers want
	slices           []sliceRun
	stacks           []stackRun

	state, collected tally
	progress         loopProgress
}

// sliceRun is an input that is read slice by slice, in a run.
type sliceRun struct {
	whole *tensor.Tensor
	slice tensor.Tensor // what the body reads
	axis  int
	view  bool // in place
}

// newLoopRun prepares step i. Its regions have frames.
func (f *frame) newLoopRun(i int) *loopRun {
	l := f.s.loops[i]
	if l == nil {
		return nil
	}
	r := &loopRun{f: f, i: i, l: l, g: f.inner[i][0], iter: tensor.Scalar(int64(0)), cond: tensor.Scalar(true),
		cur: make([]tensor.Tensor, len(l.carried)), next: make([]tensor.Tensor, len(l.carried)), loose: make([]carried, len(l.carried)), looseNext: make([]carried, len(l.carried)),
		spare: make([]*tensor.Tensor, len(l.homes)), pools: make([][]tensor.Tensor, len(l.pools)), used: make([][]bool, len(l.pools)),
		needs: make([]int64, len(l.homes)), slices: make([]sliceRun, len(l.slices)), stacks: make([]stackRun, len(l.stacked))}
	for k, x := range l.scratch {
		v := r.g.s.block.Slots[x.slot].Value
		t := tensor.Tensor{DType: v.Type.DType, Shape: x.dims, Device: v.Format.Device}
		f.place(&t, f.s.plan.Buffers[i][len(f.s.rooms[i])+k], x.bytes)
		r.scratch = append(r.scratch, t)
	}
	for p, members := range l.pools {
		r.pools[p] = make([]tensor.Tensor, 0, 2*len(members))
		r.used[p] = make([]bool, 2*len(members))
	}
	return r
}

// runLoop is ONNX's Loop: inputs M, cond, carried…; the body takes (iteration, cond, carried…) and gives (cond, carried…,
// scan outputs…); and its Scan: N state variables and M scan inputs, of which the body takes and gives slices.
func (f *frame) runLoop(ctx context.Context, i int) error {
	r := f.loops[i]
	if r == nil {
		return fmt.Errorf("%w: the body does not have the ports of the loop", ErrRun)
	}
	r.state, r.collected = tally{s: f.session}, tally{s: f.session}
	defer r.end()
	trips, err := r.trips()
	if err != nil {
		return err
	}
	if err := r.begin(ctx, trips); err != nil {
		return err
	}
	r.progress = f.session.beginLoop(&f.s.block.Steps[i], trips)
	defer r.progress.end()
	var it int64
	for goes := trips != 0; goes; it++ {
		r.progress.step(it)
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := r.enter(it, trips); err != nil {
			return err
		}
		err := r.g.run(ctx)
		r.g.detach()
		if err != nil {
			return err
		}
		if goes, err = r.leave(ctx, it, trips); err != nil {
			return err
		}
	}
	return r.finish(ctx, it)
}

// trips returns how often the body is run at most: -1 where nothing but its own condition ends it.
func (r *loopRun) trips() (int64, error) {
	st := &r.f.s.block.Steps[r.i]
	if r.l.scan {
		return r.scanned()
	}
	trips := int64(-1)
	v, err := r.f.value(st.in[0])
	if err != nil {
		return 0, err
	}
	if v != nil {
		if trips, err = count(v); err != nil {
			return 0, err
		}
		trips = max(trips, 0)
	}
	if v, err = r.f.value(st.in[1]); err != nil {
		return 0, err
	}
	if v != nil {
		goes, err := truth(v)
		if err != nil {
			return 0, err
		}
		if !goes {
			return 0, nil
		}
	}
	return trips, nil
}

// scanned finds the inputs that are read slice by slice, and returns how many slices they have.
func (r *loopRun) scanned() (int64, error) {
	st, length := &r.f.s.block.Steps[r.i], -1
	for k := range r.l.slices {
		c := &r.l.slices[k]
		v, err := r.f.value(st.in[c.operand])
		if err != nil {
			return 0, err
		}
		t, ok := v.(*tensor.Tensor)
		if !ok || len(t.Shape) == 0 {
			return 0, fmt.Errorf("%w: scan input %d has no axis", ErrRun, k)
		}
		axis := c.axis
		if axis < 0 {
			axis += len(t.Shape)
		}
		if axis < 0 || axis >= len(t.Shape) {
			return 0, fmt.Errorf("%w: scan input %d has no axis %d", ErrRun, k, c.axis)
		}
		if length >= 0 && t.Shape[axis] != length {
			return 0, fmt.Errorf("%w: scan inputs of %d and %d steps", ErrRun, length, t.Shape[axis])
		}
		length = t.Shape[axis]
		r.slices[k].whole, r.slices[k].axis = t, axis
	}
	return int64(length), nil
}

// counted reports whether the number of iterations is known.
func (r *loopRun) counted(trips int64) bool {
	return trips >= 0 && (r.l.scan || r.l.counted) || trips == 0
}

// begin takes the first values, and makes room for results.
func (r *loopRun) begin(ctx context.Context, trips int64) error {
	f, b := r.f, r.g.s.block
	st := &f.s.block.Steps[r.i]
	if err := f.capture(r.g, st); err != nil {
		return err
	}
	if !r.l.scan {
		r.g.setValue(b.Inputs[0], r.iter)
		r.g.setValue(b.Inputs[1], r.cond)
		tensor.Of[bool](r.cond)[0] = true
	}
	for k := range r.l.homes {
		r.needs[k] = r.need(&r.l.homes[k])
	}
	r.fillPools(trips)
	for k := range r.l.carried {
		if err := r.take(ctx, k, st); err != nil {
			return err
		}
	}
	if err := r.countLoose(); err != nil {
		return err
	}
	for k := range r.l.slices {
		if err := r.openSlice(k); err != nil {
			return err
		}
	}
	for k := range r.l.stacked {
		if err := r.openStack(k, trips); err != nil {
			return err
		}
	}
	return nil
}

// fillPools lists the buffers of carried values: the results' own memory among them, where the body can write it.
func (r *loopRun) fillPools(trips int64) {
	for p, members := range r.l.pools {
		list := r.pools[p][:0]
		for _, k := range members {
			c := &r.l.carried[k]
			if len(members) == 1 && c.out >= 0 && r.f.s.block.Slots[c.out].Kind == SlotPlanned && alignedTo(&r.f.tensors[c.out], tensor.Alignment) {
				list = append(list, r.f.tensors[c.out])
			} else if c.buffers[1] >= 0 {
				list = append(list, r.scratch[c.buffers[1]])
			}
			list = append(list, r.scratch[c.buffers[0]])
		}
		r.pools[p] = list
		clear(r.used[p])
	}
	r.first = 0
	if r.counted(trips) && trips%2 == 0 { // so that the last iteration writes the result's memory
		r.first = 1
	}
}

// take takes the first value of carried value k. The caller's storage is not the loop's to change, and need not be copied:
// nothing is written where it lies.
func (r *loopRun) take(ctx context.Context, k int, st *Step) error {
	c := &r.l.carried[k]
	v, err := r.f.value(st.in[c.operand])
	if err != nil {
		return err
	}
	if !c.fixed {
		r.loose[k] = carried{loaned: true}
		r.loose[k].set(v)
		return nil
	}
	t, ok := v.(*tensor.Tensor)
	want := &r.g.tensors[c.param]
	if !ok || t.DType != r.g.s.block.Slots[c.param].Value.Type.DType || !slices.Equal(t.Shape, r.g.s.dims[c.param]) {
		return fmt.Errorf("%w: carried value %d is %v, and the body takes %v of %v", ErrRun, k, v, r.g.s.dims[c.param], want.DType)
	}
	r.cur[k] = *t
	if need := r.g.s.strictest(c.param); need > 1 && !alignedTo(t, need) {
		return r.moved(ctx, k, t, &r.cur[k])
	}
	return nil
}

// moved copies t to memory of carried value k's own.
func (r *loopRun) moved(ctx context.Context, k int, t, to *tensor.Tensor) error {
	c := &r.l.carried[k]
	var b *tensor.Tensor
	var err error
	if c.pool >= 0 {
		b, err = r.pick(c.pool)
	} else {
		b, err = tensor.New(t.DType, t.Shape...)
	}
	if err != nil {
		return err
	}
	*to = *b
	return r.f.copyStep(ctx, r.i, to, t, r.g.s.block.Slots[c.param].Value.Format)
}

// pick returns a buffer of a pool that holds no carried value, and that this iteration has not picked yet.
func (r *loopRun) pick(p int) (*tensor.Tensor, error) {
	list := r.pools[p]
	for n := range list {
		at := (n + r.first) % len(list)
		if b := &list[at]; !r.used[p][at] && !r.holds(b) {
			r.used[p][at] = true
			return b, nil
		}
	}
	return nil, fmt.Errorf("%w: of %d buffers all hold what the loop carries", ErrRun, len(list)) // no more than half of them do
}

// holds reports whether a carried value lies in a buffer.
func (r *loopRun) holds(b *tensor.Tensor) bool {
	for k := range r.cur {
		if r.l.carried[k].fixed && sameStorage(&r.cur[k], b) {
			return true
		}
	}
	return false
}

// sameStorage reports whether two tensors of one shape and format are one in memory. Without elements they are two.
func sameStorage(a, b *tensor.Tensor) bool {
	if product(a.Shape) == 0 || a.Device.Canonical() != b.Device.Canonical() {
		return false
	}
	if !a.Device.IsHost() {
		return a.Handle == b.Handle && a.Offset == b.Offset
	}
	x, y := a.Data[min(a.Offset, len(a.Data)):], b.Data[min(b.Offset, len(b.Data)):]
	return len(x) > 0 && len(y) > 0 && &x[0] == &y[0]
}

// countLoose counts what carried values take that lie outside of the plan.
func (r *loopRun) countLoose() error {
	var n int64
	for k := range r.loose {
		if v := r.loose[k].value; v != nil {
			n += r.f.session.counted(v)
		}
	}
	return r.state.add(n - r.state.n)
}

// openSlice prepares scan input k: whether its slices are read in place.
func (r *loopRun) openSlice(k int) error {
	c, x := &r.l.slices[k], &r.slices[k]
	t, s := x.whole, &x.slice
	*s = tensor.Tensor{DType: t.DType, Shape: append(append(s.Shape[:0], t.Shape[:x.axis]...), t.Shape[x.axis+1:]...)}
	if x.view = t.DType != tensor.String && t.DType.Size() > 0 && product(t.Shape[:x.axis]) == 1; x.view {
		need := r.g.s.strictest(c.param)
		x.view = need <= 1 || alignedTo(t, need) && int64(t.DType.Bytes(product(s.Shape)))%need == 0
	}
	if x.view {
		return nil
	}
	if c.stage >= 0 && slices.Equal(s.Shape, r.scratch[c.stage].Shape) {
		s.Data = r.scratch[c.stage].Data
		return nil
	}
	n, err := tensor.New(s.DType, s.Shape...)
	if err == nil {
		s.Data, s.Strings = n.Data, n.Strings
	}
	return err
}

// enterSlice gives the body slice it of scan input k.
func (r *loopRun) enterSlice(k int, it, trips int64) error {
	c, x := &r.l.slices[k], &r.slices[k]
	if c.back {
		it = trips - 1 - it
	}
	s, t := &x.slice, x.whole
	if x.view {
		bytes := s.DType.Bytes(product(s.Shape))
		from := t.Offset + int(it)*bytes
		s.Data = t.Data[from : from+bytes]
	} else {
		start := r.f.copyBegins()
		if err := sliceInto(s, t, x.axis, int(it)); err != nil {
			return err
		}
		r.f.noteCopy(r.i, start)
	}
	r.g.setValue(c.param, s)
	return nil
}

// enter gives the body what it reads, and results that have no place in its plan a place.
func (r *loopRun) enter(it, trips int64) error {
	if !r.l.scan {
		tensor.Of[int64](r.iter)[0] = it
	}
	for k := range r.l.carried {
		c := &r.l.carried[k]
		if c.fixed {
			r.g.tensors[c.param] = r.cur[k]
			r.g.values[c.param] = &r.g.tensors[c.param]
		} else {
			r.g.setValue(c.param, r.loose[k].value)
		}
	}
	for k := range r.l.slices {
		if err := r.enterSlice(k, it, trips); err != nil {
			return err
		}
	}
	for _, list := range r.used {
		clear(list)
	}
	for k := range r.l.homes {
		if err := r.settle(k, it, trips); err != nil {
			return err
		}
	}
	return nil
}

// settle says where the body writes a result in this iteration.
func (r *loopRun) settle(k int, it, trips int64) error {
	h := &r.l.homes[k]
	t := &r.g.tensors[h.slot]
	t.Strides, t.Data, t.Handle, t.Offset = nil, nil, 0, 0
	if h.stack >= 0 {
		data, err := r.place(h.stack, it, trips)
		if err != nil {
			return err
		}
		if t.Data = data; r.needs[k] <= 1 || alignedTo(t, r.needs[k]) {
			return nil
		}
	}
	var b *tensor.Tensor
	switch {
	case h.pool >= 0:
		var err error
		if b, err = r.pick(h.pool); err != nil {
			return err
		}
	case h.stage >= 0:
		b = &r.scratch[h.stage]
	default:
		if r.spare[k] == nil || h.carried { // what is carried must outlast the next iteration
			n, err := tensor.New(t.DType, r.g.s.dims[h.slot]...)
			if err != nil {
				return err
			}
			r.spare[k] = n
		}
		b = r.spare[k]
	}
	t.Data, t.Handle, t.Offset = b.Data, b.Handle, b.Offset
	if r.f.poison != nil && t.Device.IsHost() {
		fillNaN(b.Data[b.Offset:])
	}
	return nil
}

// need returns the alignment that those ask for who make a result, and read it in this iteration or in the next.
func (r *loopRun) need(h *home) int64 {
	need := r.g.s.strictest(h.slot)
	for k := range r.l.carried {
		if c := &r.l.carried[k]; c.result == h.slot {
			need = max(need, r.g.s.strictest(c.param))
		}
	}
	return need
}

// leave takes what an iteration has made. It reports whether there is another one.
func (r *loopRun) leave(ctx context.Context, it, trips int64) (bool, error) {
	for k := range r.l.stacked {
		if err := r.push(k, it, trips); err != nil {
			return false, err
		}
	}
	changed := false
	for k := range r.l.carried {
		c := &r.l.carried[k]
		v, err := r.g.value(c.result)
		if err != nil {
			return false, err
		}
		if !c.fixed {
			if err := r.leaveLoose(k, v); err != nil {
				return false, err
			}
			changed = true
			continue
		}
		switch c.from {
		case made, still:
			r.next[k] = r.g.tensors[c.result]
		case kept:
			r.next[k] = r.cur[c.other]
		case copied:
			if err := r.moved(ctx, k, &r.g.tensors[c.result], &r.next[k]); err != nil {
				return false, err
			}
		}
	}
	r.cur, r.next = r.next, r.cur
	if changed {
		r.turnLoose()
		if err := r.countLoose(); err != nil {
			return false, err
		}
	}
	if it+1 == trips {
		return false, nil
	}
	if r.l.scan {
		return true, nil
	}
	v, err := r.g.value(r.l.cond)
	if err != nil {
		return false, err
	}
	goes, err := truth(v)
	return goes, err
}

// finish hands the results over, after n iterations.
func (r *loopRun) finish(ctx context.Context, n int64) error {
	for k := range r.l.carried {
		c := &r.l.carried[k]
		if c.out < 0 {
			continue
		}
		var err error
		if c.fixed {
			err = r.f.deliver(ctx, r.i, c.out, &r.cur[k], false)
		} else {
			err = r.finishLoose(ctx, k)
		}
		if err != nil {
			return err
		}
	}
	for k := range r.l.stacked {
		c, s := &r.l.stacked[k], &r.stacks[k]
		switch {
		case c.out < 0 || c.fixed && r.f.s.block.Slots[c.out].Kind == SlotPlanned:
			continue
		case c.fixed || n > 0 && len(s.list) == 0:
			if err := r.finishStack(ctx, k, n); err != nil {
				return err
			}
		default:
			if c.back {
				slices.Reverse(s.list)
			}
			if err := r.collected.add(r.collected.n); err != nil { // what is stacked is there twice
				return err
			}
			t, err := stack(s.list, c.axis, r.g.s.block.Slots[c.result].Value.Type)
			if err != nil {
				return err
			}
			if err := r.f.deliver(ctx, r.i, c.out, t, true); err != nil {
				return err
			}
		}
	}
	return nil
}

// end lets go of what the run held.
func (r *loopRun) end() {
	r.state.end()
	r.collected.end()
	r.endLoose()
	clear(r.cur)
	clear(r.next)
	for p := range r.pools {
		clear(r.pools[p])
	}
	for k := range r.slices {
		r.slices[k].whole, r.slices[k].slice.Data, r.slices[k].slice.Strings = nil, nil, nil
	}
	for k := range r.stacks {
		clear(r.stacks[k].list)
		r.f.letGo(&r.stacks[k].holding)
		r.stacks[k].data, r.stacks[k].first = nil, tensor.Tensor{}
	}
}
