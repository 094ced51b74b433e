package cpu

import (
	"context"
	"math"
	"slices"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/microsoft"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/internal/pool"
	"github.com/carve-dev/carve/property"
)

// Operators whose results have a shape that only the data tells, such as those that choose elements: nothing can be planned behind
// them. Each is a group of its own, whose results are allocated in the run.

// choosers has what runs such an operator, by its name.
var choosers = map[string]func(c *choice) error{
	"NonZero":           chooseNonZero,
	"Compress":          chooseCompress,
	"TopK":              chooseTopK,
	"NonMaxSuppression": suppress,
	"ConstantOfShape":   fillShape,
	"Concat":            concatRun,
	"Range":             rangeRun,
	"Slice":             sliceRun,
	"Unique":            chooseUnique,
	operators.Of(microsoft.Domain, "GroupQueryAttention"): chooseGroupQuery,
}

// chooses reports whether a node is run by a chooser: it has one, and the shape of a result depends on data.
func chooses(n *graph.Node) bool {
	return findsAxes(n) || chooserOf(n) != nil && place.Unfounded(n) != nil
}

// textChoosers are those of strings.
var textChoosers = map[string]func(c *choice) error{"Compress": compressTexts, "Unique": uniqueTexts, "StringSplit": splitStrings}

// chooserOf returns what runs a node's operator so, nil for none.
func chooserOf(n *graph.Node) func(c *choice) error {
	if n.Op.Domain == "" {
		if findsAxes(n) {
			return reduceRun
		}
		if hasTexts(n) {
			return textChoosers[n.Op.Name]
		}
		return choosers[n.Op.Name]
	}
	return choosers[operators.Of(n.Op.Domain, n.Op.Name)]
}

// alone keeps such nodes out of the groups of others.
func alone() property.SubgraphProperty {
	return property.WithKind(property.Bounding, property.Limit(property.Nodes("data-dependent", func(n *graph.Node) *property.Reason {
		if !chooses(n) && !place.ReadsContents(n) {
			return property.Because(property.NotSelected, "shapes tell the results of %v", n.Op)
		}
		return nil
	}), property.Bounds{Max: 1}))
}

// choosing is an instance of such a group, for any shapes.
type choosing struct {
	n        *graph.Node
	run      func(c *choice) error
	operands []func(a *backend.RunArgs) *tensor.Tensor
	results  []int // for each result of the node, the group's output, -1 for what nobody reads
	reqs     backend.Requirements
	threads  int
	e        *executable
}

// specializeChoosing returns the instance of a group of one node that chooses.
func (e *executable) specializeChoosing(b graph.Bindings) (backend.Instance, error) {
	n := e.order[0]
	in := &choosing{n: n, run: chooserOf(n), threads: e.threads, e: e}
	data := map[*graph.Value]func(a *backend.RunArgs) *tensor.Tensor{}
	for i, v := range e.sub.Inputs {
		data[v] = func(a *backend.RunArgs) *tensor.Tensor { return a.Inputs[i] }
		bytes := int64(-1)
		if dims, err := v.Type.Shape.Eval(b, nil); err == nil {
			bytes = int64(v.Type.DType.Bytes(product(dims)))
		}
		in.reqs.Inputs = append(in.reqs.Inputs, backend.PortUse{Bytes: bytes})
	}
	at := 0
	for v := range e.sub.Constants() {
		i := at
		at++
		data[v] = func(a *backend.RunArgs) *tensor.Tensor { return a.Constants[i] }
		if v.IsDims() {
			t, err := v.EvalDims(b)
			if err != nil {
				return nil, err
			}
			data[v] = func(*backend.RunArgs) *tensor.Tensor { return t }
		}
	}
	for _, v := range n.Inputs {
		if v == nil {
			in.operands = append(in.operands, func(*backend.RunArgs) *tensor.Tensor { return nil })
		} else {
			in.operands = append(in.operands, data[v])
		}
	}
	for _, v := range n.Outputs {
		in.results = append(in.results, slices.Index(e.sub.Outputs, v))
	}
	in.reqs.Outputs = make([]backend.PortUse, len(e.sub.Outputs))
	for i, v := range e.sub.Outputs {
		if dims, err := v.Type.Shape.Eval(b, nil); err == nil && findsAxes(n) && v.Type.Shape.Known() { // the model says more than the operands tell
			in.reqs.Outputs[i].Bytes = int64(v.Type.DType.Bytes(product(dims)))
		}
	}
	in.reqs.Steps = 1
	in.reqs.Labels = []backend.StepInfo{{Name: n.Name, Op: n.Op.String(), Origins: n.Provenance()}}
	return in, nil
}

// Requirements implements backend.Instance.
func (in *choosing) Requirements() backend.Requirements { return in.reqs }

// choice is such an instance bound to a session's memory. Its scratch memory grows to what the largest run needed, and stays.
type choice struct {
	in   *choosing
	ctx  context.Context
	args *backend.RunArgs
	x    []*tensor.Tensor // operands, nil for omitted ones

	at       []int     // elements that were found
	rows     rows      // of TopK
	classes  classes   // of NonMaxSuppression
	uniques  uniques   // of Unique
	slicing  slicing   // of Slice
	axes     []int64   // of a reduction
	scores   []float32 // of attention, and what else its workers work in
	reserved int64

	reductions []*lateReduction
	room       *tensor.Tensor // of their buffers
}

// reserve counts scratch memory, of which the run tells before it takes it.
func (c *choice) reserve(bytes int) error {
	if c.args.Reserve == nil {
		return nil
	}
	if err := c.args.Reserve(int64(bytes)); err != nil {
		return err
	}
	c.reserved += int64(bytes)
	return nil
}

// Enqueue implements backend.Instance: it runs the node and returns when it is done.
func (in *choosing) Enqueue(ctx context.Context, a *backend.RunArgs) (event device.Event, err error) {
	defer func() {
		if r := recover(); r != nil {
			if err = outOfRange(r); err == nil {
				panic(r)
			}
		}
	}()
	c, ok := a.Local.(*choice)
	if !ok || c.in != in {
		c = &choice{in: in, x: make([]*tensor.Tensor, len(in.operands))}
		a.Local = c
	}
	c.ctx, c.args, c.reserved = ctx, a, 0
	defer func() {
		if c.reserved > 0 {
			_ = a.Reserve(-c.reserved) // giving back does not fail
		}
	}()
	for i, operand := range in.operands {
		c.x[i] = operand(a)
	}
	if err := in.run(c); err != nil {
		return nil, err
	}
	if a.Trace != nil {
		a.Trace(0)
	}
	return nil, ctx.Err()
}

// operand returns an operand, nil for an omitted one.
func (c *choice) operand(i int) *tensor.Tensor {
	if i >= len(c.x) {
		return nil
	}
	return c.x[i]
}

// result returns the bytes of a result of the shape, nil for one that nobody reads.
func (c *choice) result(i int, dt tensor.DType, shape []int) ([]byte, error) {
	t, err := c.allocate(i, dt, shape)
	if t == nil {
		return nil, err
	}
	return t.Bytes(), nil
}

// texts is result for strings.
func (c *choice) texts(i int, shape []int) ([]string, error) {
	t, err := c.allocate(i, tensor.String, shape)
	if t == nil {
		return nil, err
	}
	return t.Strings, nil
}

// allocate returns a result of the shape, nil for one that nobody reads.
func (c *choice) allocate(i int, dt tensor.DType, shape []int) (*tensor.Tensor, error) {
	if i >= len(c.in.results) || c.in.results[i] < 0 {
		return nil, nil
	}
	k := c.in.results[i]
	t := c.args.Outputs[k]
	if t == nil {
		var err error
		if t, err = c.args.Alloc(k, dt, shape); err != nil {
			return nil, err
		}
	} else if !slices.Equal(t.Shape, shape) {
		return nil, property.Because(property.ShapeReason, "%v has a result of %v, and a place for %v", c.in.n, shape, t.Shape)
	}
	return t, nil
}

// workers returns the loop of the run, nil for a serial one.
func (c *choice) workers() *pool.Run {
	if c.args.Workers == nil {
		return nil
	}
	return c.args.Workers.Run
}

// oneInteger returns the integer of one element in an operand.
func oneInteger(t *tensor.Tensor) int64 {
	if t.DType == tensor.Int32 {
		return int64(place.Elements[int32](t.Bytes())[0])
	}
	return place.Elements[int64](t.Bytes())[0]
}

// nonZeroSignatures are those of NonZero, of everything that has a size.
func nonZeroSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	if x := n.Inputs[0]; x.Type.DType.IsComplex() || x.Type.DType.IsFloat() && x.Type.DType.Size() == 1 {
		return nil, property.Because(property.DTypeReason, "%v is %v", x, x.Type.DType)
	}
	return choosingSignatures(n)
}

// choosingSignatures are those of nodes that chooses knows.
func choosingSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	if !chooses(n) {
		return nil, property.Because(property.Unsupported, "the result of %v has a shape that no data decides", n.Op)
	}
	return operators.RowMajor(n), nil
}

// hits appends the places of the elements that are not zero.
func hits[T comparable](at []int, s []T) []int {
	var zero T
	at = slices.Grow(at, len(s))[:len(s)]
	k := 0
	for i, v := range s {
		at[k] = i
		if v != zero {
			k++
		}
	}
	return at[:k]
}

func chooseNonZero(c *choice) error {
	x := c.x[0]
	if err := c.reserve(x.Len() * 8); err != nil {
		return err
	}
	b, at := x.Bytes(), c.at[:0]
	switch {
	case x.DType == tensor.Float32:
		at = hits(at, place.Elements[float32](b))
	case x.DType == tensor.Float64:
		at = hits(at, place.Elements[float64](b))
	case x.DType == tensor.Float16 || x.DType == tensor.BFloat16:
		for i, v := range place.Elements[uint16](b) {
			if v<<1 != 0 { // negative zero is zero
				at = append(at, i)
			}
		}
	case x.DType.Size() == 8:
		at = hits(at, place.Elements[uint64](b))
	case x.DType.Size() == 4:
		at = hits(at, place.Elements[uint32](b))
	case x.DType.Size() == 2:
		at = hits(at, place.Elements[uint16](b))
	default:
		at = hits(at, b)
	}
	c.at = at
	rank, n := len(x.Shape), len(at)
	y, err := c.result(0, tensor.Int64, []int{rank, n})
	if err != nil || len(y) == 0 {
		return err
	}
	out := place.Elements[int64](y)
	inner := 1
	for a := rank - 1; a >= 0; a-- {
		row, dim := out[a*n:(a+1)*n], x.Shape[a]
		switch {
		case a == 0 && inner == 1:
			for k, i := range at {
				row[k] = int64(i)
			}
		case a == 0:
			for k, i := range at {
				row[k] = int64(i / inner)
			}
		default:
			for k, i := range at {
				row[k] = int64(i / inner % dim)
			}
		}
		inner *= dim
	}
	return c.ctx.Err()
}

// A compression keeps the slices of x[outer, length, inner] whose numbers are in choice.at.
type compression struct {
	outer, length, inner int
	shape                []int // of the result
}

// compression finds what a Compress keeps.
func (c *choice) compression() (compression, error) {
	x, n := c.x[0], c.in.n
	k, axis := compression{1, x.Len(), 1, []int{0}}, 0
	if n.Attrs.Lookup("axis") != nil {
		axis = axisOf(n, 0, len(x.Shape))
		k = compression{product(x.Shape[:axis]), x.Shape[axis], product(x.Shape[axis+1:]), slices.Clone(x.Shape)}
	}
	if err := c.reserve(c.x[1].Len() * 8); err != nil {
		return k, err
	}
	c.at = hits(c.at[:0], c.x[1].Bytes())
	if last := len(c.at); last > 0 && c.at[last-1] >= k.length {
		return k, backend.BadIndex(n, 1, int64(c.at[last-1]), k.length)
	}
	k.shape[axis] = len(c.at)
	return k, nil
}

func chooseCompress(c *choice) error {
	k, err := c.compression()
	if err != nil {
		return err
	}
	y, err := c.result(0, c.x[0].DType, k.shape)
	if err != nil {
		return err
	}
	k.inner *= c.x[0].DType.Size()
	return compress(c, &k, y, c.x[0].Bytes())
}

func compressTexts(c *choice) error {
	k, err := c.compression()
	if err != nil {
		return err
	}
	y, err := c.texts(0, k.shape)
	if err != nil {
		return err
	}
	return compress(c, &k, y, c.x[0].Strings)
}

// compress writes what is kept.
func compress[T byte | string](c *choice, k *compression, y, src []T) error {
	for o := range k.outer {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		row := src[o*k.length*k.inner:]
		for _, i := range c.at {
			copy(y[:k.inner], row[i*k.inner:])
			y = y[k.inner:]
		}
	}
	return nil
}

// fillShape is ConstantOfShape of a shape that the run finds.
func fillShape(c *choice) error {
	var shape []int
	for _, d := range place.Elements[int64](c.x[0].Bytes()) {
		if d < 0 || d > math.MaxInt32 {
			return backend.OutOfRange(c.in.n, 0, d, 0, math.MaxInt32)
		}
		shape = append(shape, int(d))
	}
	if _, err := tensor.NumElements(shape); err != nil {
		return err
	}
	y, err := c.result(0, c.in.n.Outputs[0].Type.DType, shape)
	if err == nil {
		repeat(y, fillUnit(c.in.n))
	}
	return err
}

// concatRun is Concat of operands of which nobody knows how long all are together.
func concatRun(c *choice) error {
	shape := slices.Clone(c.x[0].Shape)
	axis := axisOf(c.in.n, 0, len(shape))
	outer, inner := product(shape[:axis]), product(shape[axis+1:])*c.x[0].DType.Size()
	shape[axis] = 0
	for _, x := range c.x {
		if len(x.Shape) != len(shape) || product(x.Shape[:axis]) != outer || product(x.Shape[axis+1:])*x.DType.Size() != inner {
			return property.Because(property.ShapeReason, "%v and %v along axis %d", c.x[0].Shape, x.Shape, axis)
		}
		shape[axis] += x.Shape[axis]
	}
	y, err := c.result(0, c.x[0].DType, shape)
	if err != nil {
		return err
	}
	for o := range outer {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		for _, x := range c.x {
			size := x.Shape[axis] * inner
			copy(y[:size], x.Bytes()[o*size:])
			y = y[size:]
		}
	}
	return nil
}

func init() {
	table.Register("NonZero", operator{Signatures: nonZeroSignatures})
	table.Register("Compress", operator{Signatures: choosingSignatures})
	textTable.Register("Compress", operator{Signatures: choosingSignatures})
}
