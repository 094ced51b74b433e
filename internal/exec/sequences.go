package exec

import (
	"context"
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// Lists that a loop fills or reads item by item are worked on here: a SequenceInsert at the end costs an item, and not a copy of the list,
// and SequenceAt gives the item itself. So is ZipMap, whose maps go to the caller as they are made. Everything else about sequences, and what is at fault, is the reference kernels'.

// filling is the sequence that a SequenceInsert has made last. Sequences are changed by nobody: what stands behind the end of the list belongs
// to this step alone, and only where it goes on with that very sequence.
type filling struct {
	last  *tensor.Sequence
	items []tensor.Value // of last, with room behind them
}

// runSequence runs step i where it is one of those, and reports whether it has.
func (f *frame) runSequence(ctx context.Context, i int, st *Step) (bool, error) {
	if len(st.in) == 0 || st.result(0) < 0 {
		return false, nil
	}
	var v tensor.Value
	switch op := st.Node.Op; {
	case op.Domain == "ai.onnx.ml" && op.Name == "ZipMap":
		if f.zipped = f.zip(st); f.zipped != nil {
			v = f.zipped
		}
	case op.Domain != "":
	case op.Name == "SequenceInsert":
		var err error
		if v, err = f.insert(i, st); err != nil {
			return false, err
		}
	case op.Name == "SequenceAt":
		v = f.item(st)
	case op.Name == "SequenceLength":
		if s := f.sequence(st); s != nil {
			v = tensor.Scalar(int64(len(s.Items)))
		}
	}
	if v == nil {
		return false, nil
	}
	return true, f.deliver(ctx, i, st.out[0], v, true)
}

// sequence returns the first operand of a step, nil where it is no sequence.
func (f *frame) sequence(st *Step) *tensor.Sequence {
	v, _ := f.value(st.in[0])
	s, _ := v.(*tensor.Sequence)
	return s
}

// hostTensor returns operand k of a step, nil where it is no tensor that lies on the host, row-major and compact.
func (f *frame) hostTensor(st *Step, k int) *tensor.Tensor {
	if k >= len(st.in) || st.in[k] < 0 || f.s.block.Slots[st.in[k]].Value.Format != graph.HostFormat {
		return nil
	}
	t, ok := f.values[st.in[k]].(*tensor.Tensor)
	if !ok || t == nil || !t.Device.IsHost() || !t.IsCompact() {
		return nil
	}
	return t
}

// position returns operand k of a step, a place in a sequence of n; ok is false where it is none.
func (f *frame) position(st *Step, k, n int) (at int, ok bool) {
	t := f.hostTensor(st, k)
	if t == nil || t.Len() != 1 {
		return 0, false
	}
	var p int64
	switch t.DType {
	case tensor.Int64:
		p = tensor.Elements[int64](t)[0]
	case tensor.Int32:
		p = int64(tensor.Elements[int32](t)[0])
	default:
		return 0, false
	}
	if p < 0 {
		p += int64(n)
	}
	return int(p), p >= 0 && p < int64(n)
}

// insert appends a tensor to a sequence; nil where the step does something else.
func (f *frame) insert(i int, st *Step) (tensor.Value, error) {
	s, t := f.sequence(st), f.hostTensor(st, 1)
	if s == nil || t == nil || len(st.in) > 2 && st.in[2] >= 0 || s.DType != tensor.Invalid && s.DType != t.DType {
		return nil, nil
	}
	item, err := f.kept(st, 1, t)
	if err != nil {
		return nil, err
	}
	if f.filled == nil {
		f.filled = make([]filling, len(f.s.block.Steps))
	}
	g := &f.filled[i]
	if g.last != s {
		g.items = slices.Clip(s.Items)
	}
	g.items = append(g.items, item)
	g.last = &tensor.Sequence{DType: s.DType, Items: slices.Clip(g.items)}
	return g.last, nil
}

// kept returns t, operand k of a step, as nobody writes it again: a copy, but for what a group has made outside of the plan, where it makes
// something new in each run.
func (f *frame) kept(st *Step, k int, t *tensor.Tensor) (*tensor.Tensor, error) {
	sl, slot := &f.s.block.Slots[st.in[k]], st.in[k]
	if n := sl.Value.Producer; sl.Kind != SlotDynamic || n == nil || !n.IsCarve(graph.OpSubgraph) || t != &f.tensors[slot] || slices.Contains(f.s.block.Outputs, slot) {
		return t.Clone()
	}
	own := *t
	own.Shape = slices.Clone(t.Shape)
	f.release(slot)
	return &own, nil
}

// item returns a tensor of a sequence, which nobody changes; nil where the reference kernel has to find it.
func (f *frame) item(st *Step) tensor.Value {
	s := f.sequence(st)
	if s == nil || slices.Contains(f.s.block.Outputs, st.out[0]) || f.s.block.Slots[st.out[0]].Value.Format != graph.HostFormat {
		return nil
	}
	at, ok := f.position(st, 1, len(s.Items))
	if !ok {
		return nil
	}
	t, ok := s.Items[at].(*tensor.Tensor)
	if !ok || t == nil || !t.Device.IsHost() || !t.IsCompact() {
		return nil
	}
	if t.DType != tensor.String && !alignedTo(t, tensor.Alignment) { // a part of something, as SplitToSequence makes them
		if t, err := t.Clone(); err == nil {
			return t
		}
		return nil
	}
	return t
}

// zip returns a map from labels to scores for each row of scores, [N, C] or [C], with memory of its own, which is the caller's where it gets it;
// nil where the reference kernel has to say what is wrong. All maps are one piece of memory, all keys another, all scores a third.
func (f *frame) zip(st *Step) *tensor.Sequence {
	t := f.hostTensor(st, 0)
	if t == nil || t.DType != tensor.Float32 || len(t.Shape) < 1 || len(t.Shape) > 2 {
		return nil
	}
	numbers, _ := st.Node.Ints("classlabels_int64s")
	words := st.Node.Strs("classlabels_strings")
	columns := t.Shape[len(t.Shape)-1]
	if len(numbers)+len(words) != columns || len(numbers) > 0 && len(words) > 0 || columns == 0 {
		return nil
	}
	type row struct {
		m     tensor.Map
		t     tensor.Tensor
		shape [1]int
	}
	n := t.Len() / columns
	rows, out := make([]row, n), &tensor.Sequence{Items: make([]tensor.Value, n)}
	scores, numbers, words := slices.Clone(t.Bytes()), slices.Repeat(numbers, n), slices.Repeat(words, n)
	for i := range rows {
		r := &rows[i]
		r.shape[0] = columns
		r.t = tensor.Tensor{DType: tensor.Float32, Shape: r.shape[:], Data: cut(&scores, 4*columns)}
		r.m.Values = &r.t
		if len(words) > 0 {
			r.m.StringKeys = cut(&words, columns)
		} else {
			r.m.IntKeys = cut(&numbers, columns)
		}
		out.Items[i] = &r.m
	}
	return out
}
