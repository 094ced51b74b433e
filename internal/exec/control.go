package exec

import (
	"context"
	"fmt"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// runHost executes a node of the host scheduler: control flow, whose results go where they stay, and operators on sequences,
// optionals and maps by the reference kernels.
func (f *frame) runHost(ctx context.Context, i int, st *Step) error {
	switch {
	case st.Node.Is("If"):
		return f.runIf(ctx, i, st)
	case st.loops:
		return f.runLoop(ctx, i)
	}
	if done, err := f.runSequence(ctx, i, st); done || err != nil {
		return err
	}
	n := st.Node
	in := make([]tensor.Value, len(n.Inputs))
	for k := range n.Inputs {
		v, err := f.value(st.in[k])
		if err != nil {
			return err
		}
		in[k] = v
	}
	var out []tensor.Value
	var err error
	switch n.Op.Name {
	case "Scan":
		out, err = f.runScan8(ctx, i, st, in)
	case "SequenceMap":
		out, err = f.runSequenceMap(ctx, i, st, in)
	default:
		copies := tally{s: f.session}
		defer copies.end()
		for k, v := range in {
			if t, ok := v.(*tensor.Tensor); ok { // results may refer to operands, whose arena is used again
				if err = copies.add(f.session.counted(t)); err != nil {
					return err
				}
				if in[k], err = t.Clone(); err != nil {
					return err
				}
			}
		}
		out, err = f.session.m.env.Evaluate(ctx, n, in, f.session.claim)
	}
	if err != nil {
		return err
	}
	for k, slot := range st.out {
		if slot < 0 {
			continue
		}
		if k >= len(out) || out[k] == nil {
			return fmt.Errorf("%w: output %d was not made", ErrRun, k)
		}
		if err := f.deliver(ctx, i, slot, out[k], true); err != nil {
			return err
		}
	}
	return nil
}

// setValue makes v the value of a dynamic slot or input.
func (f *frame) setValue(slot int, v tensor.Value) {
	if t, ok := v.(*tensor.Tensor); ok {
		f.tensors[slot] = *t
		f.values[slot] = &f.tensors[slot]
		return
	}
	f.values[slot] = v
}

// truth returns the value of a boolean of one element.
func truth(v tensor.Value) (bool, error) {
	t, ok := v.(*tensor.Tensor)
	if !ok || t.DType != tensor.Bool || t.Len() != 1 {
		return false, fmt.Errorf("%w: condition is no single bool", ErrRun)
	}
	return t.Bytes()[0] != 0, nil
}

// count returns the value of an int64 of one element.
func count(v tensor.Value) (int64, error) {
	t, ok := v.(*tensor.Tensor)
	if !ok || t.DType != tensor.Int64 || t.Len() != 1 {
		return 0, fmt.Errorf("%w: trip count is no single int64", ErrRun)
	}
	return tensor.Elements[int64](t)[0], nil
}

// stack joins tensors of equal type along a new axis. Of none it makes an empty tensor, its unknown dims 0.
func stack(list []*tensor.Tensor, axis int, t graph.Type) (*tensor.Tensor, error) {
	if len(list) == 0 {
		shape := []int{0}
		for _, d := range t.Shape {
			n, ok := d.Const()
			if !ok {
				n = 0
			}
			shape = append(shape, int(n))
		}
		return tensor.New(t.DType, shape...)
	}
	first := list[0]
	if axis < 0 {
		axis += len(first.Shape) + 1
	}
	if axis < 0 || axis > len(first.Shape) {
		return nil, fmt.Errorf("%w: axis %d of rank %d", ErrRun, axis, len(first.Shape)+1)
	}
	shape := append([]int{}, first.Shape[:axis]...)
	shape = append(append(shape, len(list)), first.Shape[axis:]...)
	out, err := tensor.New(first.DType, shape...)
	if err != nil {
		return nil, err
	}
	outer, inner := 1, 1
	for _, d := range first.Shape[:axis] {
		outer *= d
	}
	for _, d := range first.Shape[axis:] {
		inner *= d
	}
	for k, s := range list {
		if s.DType != first.DType || fmt.Sprint(s.Shape) != fmt.Sprint(first.Shape) {
			return nil, fmt.Errorf("%w: iteration %d gives %v, iteration 0 %v", ErrRun, k, s, first)
		}
		for o := range outer {
			if s.DType == tensor.String {
				copy(out.Strings[(o*len(list)+k)*inner:], s.Strings[o*inner:(o+1)*inner])
				continue
			}
			n := inner * s.DType.Size()
			copy(out.Data[(o*len(list)+k)*n:], s.Bytes()[o*n:(o+1)*n])
		}
	}
	return out, nil
}

// scanSpec holds axes and directions of a Scan.
type scanSpec struct {
	inAxes, inDirs   []int64
	outAxes, outDirs []int64
}

func scanAttrs(n *graph.Node) scanSpec {
	var s scanSpec
	s.inAxes, _ = n.Ints("scan_input_axes")
	s.inDirs, _ = n.Ints("scan_input_directions")
	s.outAxes, _ = n.Ints("scan_output_axes")
	s.outDirs, _ = n.Ints("scan_output_directions")
	return s
}

func at(list []int64, i int) int {
	if i < len(list) {
		return int(list[i])
	}
	return 0
}

// scan is Scan over values: what Scan of operator set 8 does for each of a batch.
func (f *frame) scan(ctx context.Context, i int, state, seqs []tensor.Value, s scanSpec) ([]tensor.Value, error) {
	body := f.inner[i][0].s.block
	src, length, err := scanned(seqs, s)
	if err != nil {
		return nil, err
	}
	carried := make([]tensor.Value, len(state))
	for k, v := range state {
		c, err := copyValue(v)
		if err != nil {
			return nil, err
		}
		carried[k] = c
	}
	outs := make([][]*tensor.Tensor, len(body.Outputs)-len(carried))
	held, collected := tally{s: f.session}, tally{s: f.session}
	defer held.end()
	defer collected.end()
	if err := held.replace(carried); err != nil {
		return nil, err
	}
	progress := f.session.beginLoop(&f.s.block.Steps[i], int64(length))
	defer progress.end()
	for it := range length {
		progress.step(int64(it))
		args := append([]tensor.Value{}, carried...)
		args, err := s.appendSlices(args, src, it, length)
		if err != nil {
			return nil, err
		}
		res, err := f.call(ctx, i, 0, args)
		if err != nil {
			return nil, err
		}
		copy(carried, res)
		if err := held.replace(carried); err != nil {
			return nil, err
		}
		for k := range outs {
			t, ok := res[len(carried)+k].(*tensor.Tensor)
			if !ok {
				return nil, fmt.Errorf("%w: scan output %d is no tensor", ErrRun, k)
			}
			if err := collected.add(f.session.counted(t)); err != nil {
				return nil, err
			}
			outs[k] = append(outs[k], t)
		}
	}
	if err := collected.add(collected.n); err != nil { // what is stacked is there twice
		return nil, err
	}
	for k, list := range outs {
		if at(s.outDirs, k) != 0 {
			for a, b := 0, len(list)-1; a < b; a, b = a+1, b-1 {
				list[a], list[b] = list[b], list[a]
			}
		}
		t, err := stack(list, at(s.outAxes, k), body.Slots[body.Outputs[len(state)+k]].Value.Type)
		if err != nil {
			return nil, err
		}
		carried = append(carried, t)
	}
	return carried, nil
}

// appendSlices appends what iteration it of length reads of the scanned tensors.
func (s scanSpec) appendSlices(args []tensor.Value, src []*tensor.Tensor, it, length int) ([]tensor.Value, error) {
	for k, t := range src {
		axis, pos := at(s.inAxes, k), it
		if axis < 0 {
			axis += len(t.Shape)
		}
		if at(s.inDirs, k) != 0 {
			pos = length - 1 - it
		}
		piece, err := takeSlice(t, axis, pos)
		if err != nil {
			return nil, err
		}
		args = append(args, piece)
	}
	return args, nil
}

// scanned returns the inputs of a Scan that are read slice by slice, and how many slices they have: -1 where there is none.
func scanned(seqs []tensor.Value, s scanSpec) (src []*tensor.Tensor, length int, err error) {
	length = -1
	src = make([]*tensor.Tensor, len(seqs))
	for k, v := range seqs {
		t, ok := v.(*tensor.Tensor)
		if !ok || len(t.Shape) == 0 {
			return nil, 0, fmt.Errorf("%w: scan input %d has no axis", ErrRun, k)
		}
		axis := at(s.inAxes, k)
		if axis < 0 {
			axis += len(t.Shape)
		}
		if axis < 0 || axis >= len(t.Shape) {
			return nil, 0, fmt.Errorf("%w: scan input %d has no axis %d", ErrRun, k, at(s.inAxes, k))
		}
		if length >= 0 && t.Shape[axis] != length {
			return nil, 0, fmt.Errorf("%w: scan inputs of %d and %d steps", ErrRun, length, t.Shape[axis])
		}
		length = t.Shape[axis]
		src[k] = t
	}
	return src, length, nil
}

// takeSlice returns a compact copy of index pos of an axis, without that axis.
func takeSlice(t *tensor.Tensor, axis, pos int) (*tensor.Tensor, error) {
	shape := append(append([]int{}, t.Shape[:axis]...), t.Shape[axis+1:]...)
	out, err := tensor.New(t.DType, shape...)
	if err != nil {
		return nil, err
	}
	return out, sliceInto(out, t, axis, pos)
}

// sliceInto copies index pos of an axis of t to out.
func sliceInto(out, t *tensor.Tensor, axis, pos int) error {
	if t.DType != tensor.String && t.DType.Size() == 0 {
		return fmt.Errorf("%w: slices of %v", tensor.ErrUnsupported, t.DType)
	}
	inner := product(t.Shape[axis+1:])
	for o := range product(t.Shape[:axis]) {
		from := (o*t.Shape[axis] + pos) * inner
		if t.DType == tensor.String {
			copy(out.Strings[o*inner:(o+1)*inner], t.Strings[from:])
			continue
		}
		size := t.DType.Size()
		copy(out.Data[out.Offset+o*inner*size:][:inner*size], t.Bytes()[from*size:])
	}
	return nil
}

// runScan8 is Scan of operator set 8: a batch axis in front, sequence lengths as the first input, directions only.
func (f *frame) runScan8(ctx context.Context, i int, st *Step, in []tensor.Value) ([]tensor.Value, error) {
	n := st.Node
	scans := int(n.Int("num_scan_inputs", 0))
	if scans < 1 || scans > len(in)-1 {
		return nil, fmt.Errorf("%w: num_scan_inputs is %d of %d inputs", ErrRun, scans, len(in)-1)
	}
	dirs, _ := n.Ints("directions")
	var lens []int64
	if t, ok := in[0].(*tensor.Tensor); ok && t != nil {
		lens = tensor.Elements[int64](t)
	}
	rest := in[1:]
	first, ok := rest[len(rest)-1].(*tensor.Tensor)
	if !ok || len(first.Shape) < 2 {
		return nil, fmt.Errorf("%w: scan input has no batch and sequence axes", ErrRun)
	}
	batches := make([][]*tensor.Tensor, 0)
	for b := range first.Shape[0] {
		var args []tensor.Value
		for k, v := range rest {
			t, ok := v.(*tensor.Tensor)
			if !ok || len(t.Shape) == 0 || b >= t.Shape[0] {
				return nil, fmt.Errorf("%w: input %d has no batch %d", ErrRun, k+1, b)
			}
			piece, err := takeSlice(t, 0, b)
			if err != nil {
				return nil, err
			}
			if k >= len(rest)-scans && b < len(lens) {
				cut, err := piece.Slice(0, 0, int(min(lens[b], int64(piece.Shape[0]))))
				if err != nil {
					return nil, err
				}
				if piece, err = cut.Clone(); err != nil {
					return nil, err
				}
			}
			args = append(args, piece)
		}
		out, err := f.scan(ctx, i, args[:len(args)-scans], args[len(args)-scans:], scanSpec{inDirs: dirs})
		if err != nil {
			return nil, err
		}
		row := make([]*tensor.Tensor, len(out))
		for k, v := range out {
			row[k] = v.(*tensor.Tensor)
			if k >= len(args)-scans && len(row[k].Shape) > 0 && row[k].Shape[0] < first.Shape[1] {
				if row[k], err = padRows(row[k], first.Shape[1]); err != nil {
					return nil, err
				}
			}
		}
		batches = append(batches, row)
	}
	out := make([]tensor.Value, len(n.Outputs))
	for k := range out {
		var list []*tensor.Tensor
		for _, row := range batches {
			list = append(list, row[k])
		}
		t, err := stack(list, 0, graph.Type{Kind: graph.KindTensor, DType: first.DType})
		if err != nil {
			return nil, err
		}
		out[k] = t
	}
	return out, nil
}

// padRows returns t with zero rows up to n.
func padRows(t *tensor.Tensor, n int) (*tensor.Tensor, error) {
	out, err := tensor.New(t.DType, append([]int{n}, t.Shape[1:]...)...)
	if err != nil {
		return nil, err
	}
	copy(out.Data, t.Bytes())
	copy(out.Strings, t.Strings)
	return out, nil
}

// runSequenceMap calls the body for each item of the first input; further sequences are read item by item, tensors whole.
func (f *frame) runSequenceMap(ctx context.Context, i int, st *Step, in []tensor.Value) ([]tensor.Value, error) {
	seq, ok := in[0].(*tensor.Sequence)
	if !ok {
		return nil, fmt.Errorf("%w: the first input is no sequence", ErrRun)
	}
	out := make([]tensor.Value, len(st.Node.Outputs))
	for k := range out {
		s := &tensor.Sequence{}
		if v := st.Node.Outputs[k]; v != nil && v.Type.Elem != nil {
			s.DType = v.Type.Elem.DType
		}
		out[k] = s
	}
	collected := tally{s: f.session}
	defer collected.end()
	progress := f.session.beginLoop(st, int64(len(seq.Items)))
	defer progress.end()
	for it := range seq.Items {
		progress.step(int64(it))
		args := make([]tensor.Value, len(in))
		for k, v := range in {
			if s, ok := v.(*tensor.Sequence); ok {
				if it >= len(s.Items) {
					return nil, fmt.Errorf("%w: input %d has %d items of %d", ErrRun, k, len(s.Items), len(seq.Items))
				}
				v = s.Items[it]
			}
			args[k] = v
		}
		res, err := f.call(ctx, i, 0, args)
		if err != nil {
			return nil, err
		}
		for k := range out {
			if err := collected.add(f.session.counted(res[k])); err != nil {
				return nil, err
			}
			s := out[k].(*tensor.Sequence)
			s.Items = append(s.Items, res[k])
			if t, ok := res[k].(*tensor.Tensor); ok {
				s.DType = t.DType
			}
		}
	}
	return out, nil
}
