package gpugroup

import (
	"fmt"
	"strings"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/gpukernel"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// stepsMost is the most steps of a recurrent layer: each is two launches, and four of a GRU that resets first.
const stepsMost = 1 << 12

// recurrent is an LSTM, GRU or RNN of static shapes: one product for the operands of all steps, and in each step a product of the
// state and a rendered cell. A direction that runs backwards reads and writes what is turned around, so that all run forwards.
type recurrent struct {
	n                          *graph.Node
	gates, dirs                int
	steps, batch, width, units int
	batchFirst, reverse        bool
	acts                       [][]string // expressions of $x by direction
	clip                       string     // of arguments of activations, an expression of $x
	resets                     bool       // GRU: the state is reset before it is multiplied
	coupled                    bool       // LSTM: the forget gate is 1 less the input gate
	lens                       bool
	typ                        gpukernel.Type
}

// recurrentGates are the gates of operators, and the activations that they have by default.
var recurrentGates = map[string]struct {
	gates int
	acts  []string
}{"LSTM": {4, []string{"Sigmoid", "Tanh", "Tanh"}}, "GRU": {3, []string{"Sigmoid", "Tanh"}}, "RNN": {1, []string{"Tanh"}}}

// row is the elements of a step's gates, and states those of a step's states: multiples of 4, so that each begins where four can be
// read at once.
func (r *recurrent) row() int    { return (r.gates*r.units + 3) / 4 * 4 }
func (r *recurrent) states() int { return (r.batch*r.units + 3) / 4 * 4 }
func (r *recurrent) marks() int  { return (r.batch + 3) / 4 * 4 }

// recurrentOf returns a layer of static shapes.
func recurrentOf(n *graph.Node) (*recurrent, error) {
	kind := recurrentGates[n.Op.Name]
	r := &recurrent{n: n, gates: kind.gates, dirs: 1, batchFirst: n.Int("layout", 0) != 0, lens: n.Input(4) != nil, clip: "$x", typ: keptAs(n.Inputs[0])}
	if t := n.Inputs[0].Type.DType; t != tensor.Float32 && t != tensor.Float64 {
		return nil, fmt.Errorf("input 0 of type %s", t)
	}
	for i, v := range n.Inputs {
		want := n.Inputs[0].Type.DType
		if i == 4 {
			want = tensor.Int32
		}
		if v != nil && v.Type.DType != want {
			return nil, fmt.Errorf("input %d of type %s", i, v.Type.DType)
		}
	}
	switch direction := n.Str("direction", "forward"); direction {
	case "forward":
	case "reverse":
		r.reverse = true
	case "bidirectional":
		r.dirs = 2
	default:
		return nil, fmt.Errorf("direction %q", direction)
	}
	x, w, rec := dims(n.Inputs[0]), dims(n.Inputs[1]), dims(n.Inputs[2])
	if len(x) != 3 || len(w) != 3 || len(rec) != 3 {
		return nil, fmt.Errorf("operands %v, %v and %v", x, w, rec)
	}
	r.steps, r.batch, r.width, r.units = x[0], x[1], x[2], rec[2]
	if r.batchFirst {
		r.steps, r.batch = r.batch, r.steps
	}
	if rows := r.gates * r.units; w[0] != r.dirs || rec[0] != r.dirs || w[1] != rows || rec[1] != rows || w[2] != r.width || r.steps > stepsMost {
		return nil, fmt.Errorf("%d steps of weights %v and %v for %v", r.steps, w, rec, x)
	}
	for i, size := range map[int]int{3: 2 * r.gates * r.units, 4: r.batch, 5: r.batch * r.units, 6: r.batch * r.units, 7: 3 * r.units} {
		if i != 4 {
			size *= r.dirs
		}
		if v := n.Input(i); v != nil && elementsOf(v) != size {
			return nil, fmt.Errorf("input %d of %v", i, dims(v))
		}
	}
	if n.Attrs.Lookup("clip") != nil {
		c := n.Float("clip", 0)
		r.clip = fmt.Sprintf("clip_f32($x, %s, %s)", gpukernel.FloatLiteral(-c), gpukernel.FloatLiteral(c))
	}
	r.resets = n.Op.Name == "GRU" && n.Int("linear_before_reset", 0) == 0
	r.coupled = n.Op.Name == "LSTM" && n.Int("input_forget", 0) != 0
	return r, r.activations(kind.acts)
}

// activations finds the functions of each direction; those with numbers take them from the lists in their order.
func (r *recurrent) activations(def []string) error {
	names := r.n.Strs("activations")
	if names == nil {
		for range r.dirs {
			names = append(names, def...)
		}
	}
	if len(names) != r.dirs*len(def) {
		return fmt.Errorf("%d activations for %d directions", len(names), r.dirs)
	}
	alphas, betas := r.n.Floats("activation_alpha"), r.n.Floats("activation_beta")
	take := func(list *[]float32, def float32) string {
		if len(*list) > 0 {
			def, *list = (*list)[0], (*list)[1:]
		}
		return gpukernel.FloatLiteral(def)
	}
	for i, name := range names {
		text := map[string]string{"Sigmoid": "sigmoid_f32($x)", "Tanh": "tanh_f32($x)", "Relu": "relu_f32($x)", "Softsign": "($x / (1.0f + fabs_f32($x)))"}[name]
		switch name {
		case "Affine":
			text = "(" + take(&alphas, 1) + " * $x + " + take(&betas, 0) + ")"
		case "ScaledTanh":
			text = take(&alphas, 1) + " * tanh_f32(" + take(&betas, 1) + " * $x)"
		case "HardSigmoid":
			text = "hard_sigmoid_f32($x, " + take(&alphas, 0.2) + ", " + take(&betas, 0.5) + ")"
		case "LeakyRelu":
			text = "leaky_f32($x, " + take(&alphas, 0.01) + ")"
		}
		if text == "" {
			return fmt.Errorf("activation %q", name)
		}
		if i%len(def) == 0 {
			r.acts = append(r.acts, nil)
		}
		r.acts[i/len(def)] = append(r.acts[i/len(def)], text)
	}
	return nil
}

func recurrentSignature(d *Device, n, one *graph.Node) (graph.Signature, *property.Reason) {
	r, err := recurrentOf(one)
	if err == nil {
		err = r.emit(&buffers{d: d.Kernels})
	}
	if err != nil {
		return graph.Signature{}, property.Because(property.Unsupported, "%v", err)
	}
	return graph.UniformSignature("recurrent", n, d.format(graph.RowMajor)), nil
}

func planRecurrent(p *planner, n *graph.Node, _ tail) error {
	r, err := recurrentOf(n)
	if err != nil {
		return err
	}
	return r.emit(&buffers{p: p, d: p.d})
}

// emit adds the launches of all directions, and of what makes the results of their states.
func (r *recurrent) emit(b *buffers) error {
	ends := map[string]place.Memory{"lens": b.in(r.n.Input(4))}
	for d := range r.dirs {
		hidden, cell := r.direction(b, d)
		ends[fmt.Sprintf("hidden%d", d)], ends[fmt.Sprintf("cell%d", d)] = hidden, cell
	}
	for i, v := range r.n.Outputs {
		if v == nil {
			continue
		}
		ends["made"] = b.out(r.n, i)
		b.render("collect", r.collect(i), ends)
	}
	return b.err
}

// backwards reports whether a direction runs from the last step to the first.
func (r *recurrent) backwards(d int) bool { return r.reverse || d == 1 }

// along returns, as an expression of a step $0 and a length $1, the step that a direction reads or writes then.
func (r *recurrent) along(d int) string {
	if r.backwards(d) {
		return "($0 < $1 ? $1 - 1 - $0 : 0)"
	}
	return "$0"
}

// lengths adds the numbers of steps, by element of the batch.
func (r *recurrent) lengths(p *gpukernel.Program) gpukernel.Value {
	if r.lens {
		return p.Input("lens", gpukernel.I32, r.batch)
	}
	return p.Expand(p.Constant(gpukernel.I32, fmt.Sprint(r.steps)), r.batch)
}

// turned picks steps of [steps, batch, elements] in the order of a direction.
func (r *recurrent) turned(p *gpukernel.Program, v gpukernel.Value, d int) gpukernel.Value {
	if !r.backwards(d) {
		return v
	}
	at := p.Scalar(gpukernel.I32, r.along(d), p.Reshape(p.Iota(r.steps), r.steps, 1), r.lengths(p))
	return p.Pick(v, p.Shape(v), gpukernel.Along{Index: p.Reshape(at, r.steps, r.batch, 1), Within: true}, gpukernel.Along{Axis: 1, Index: gpukernel.NoValue},
		gpukernel.Along{Axis: 2, Index: gpukernel.NoValue})
}

// direction emits the steps of a direction, and returns its states [steps + 1, states()] and the last cell's.
func (r *recurrent) direction(b *buffers, d int) (hidden, cell place.Memory) {
	rows, row, size := r.gates*r.units, r.row(), r.typ.Size()
	x := b.in(r.n.Inputs[0])
	if r.batchFirst || r.backwards(d) {
		p := &gpukernel.Program{}
		v := p.Input("x", r.typ, dims(r.n.Inputs[0])...)
		if r.batchFirst {
			v = p.Transpose(v, 1, 0, 2)
		}
		p.Output(r.turned(p, v, d), "made")
		from := map[string]place.Memory{"x": x, "lens": b.in(r.n.Input(4))}
		x = b.temp(size * r.steps * r.batch * r.width)
		from["made"] = x
		b.render("turn", p, from)
	}
	w := r.weights(b, 1, d, 0, rows, r.width)
	product := func(m, k, n, from, stride int) gpukernel.ProductShape {
		return gpukernel.ProductShape{M: m, K: k, N: n, TransposedB: true, A: gpukernel.Matrix{Type: r.typ, Stride: from},
			B: gpukernel.Matrix{Type: r.typ, Stride: k}, C: gpukernel.Matrix{Type: r.typ, Stride: stride}}
	}
	gates := b.temp(size * r.steps * r.batch * row)
	b.product("inputs", product(r.steps*r.batch, r.width, rows, r.width, row), map[string]place.Memory{"a": x, "b": w, "c": gates})

	bytes := size * r.states()
	hidden = b.temp((r.steps + 1) * bytes)
	b.render("start", r.start(5, d), map[string]place.Memory{"given": b.in(r.n.Input(5)), "made": hidden.Part(0, bytes)})
	var cells [2]place.Memory
	if r.gates == 4 {
		cells = [2]place.Memory{b.temp(bytes), b.temp(bytes)}
		b.render("start", r.start(6, d), map[string]place.Memory{"given": b.in(r.n.Input(6)), "made": cells[0]})
	}
	marks := place.Nowhere
	if r.lens {
		marks = b.temp(size * r.steps * r.marks())
		b.render("mark", r.mark(), map[string]place.Memory{"lens": b.in(r.n.Input(4)), "made": marks})
	}
	first := rows
	if r.resets {
		first = 2 * r.units
	}
	u := r.weights(b, 2, d, 0, first, r.units)
	multiply, err := gpukernel.Product("state", b.d, product(r.batch, r.units, first, r.units, row))
	last, lastMultiply := place.Nowhere, (*gpukernel.Plan)(nil)
	if err == nil && r.resets {
		last = r.weights(b, 2, d, 2*r.units, r.units, r.units)
		lastMultiply, err = gpukernel.Product("reset", b.d, product(r.batch, r.units, r.units, r.units, row))
	}
	kernels := make([]*gpukernel.Plan, 2)
	for i, prog := range r.cells(d) {
		if err == nil {
			kernels[i], err = gpukernel.Render("cell", b.d, prog)
		}
	}
	if err != nil {
		b.fail(err)
		return hidden, cells[0]
	}
	recur, reset, update := b.temp(size*r.batch*row), b.temp(bytes), b.temp(bytes)
	for k := range r.steps {
		at := map[string]place.Memory{"gates": gates.Part(size*k*r.batch*row, size*r.batch*row), "recur": recur, "reset": reset, "update": update, "bias": b.in(r.n.Input(3)),
			"peephole": b.in(r.n.Input(7)), "before": hidden.Part(k*bytes, bytes), "after": hidden.Part((k+1)*bytes, bytes), "cell": cells[k%2],
			"next": cells[(k+1)%2], "mark": marks.Part(size*k*r.marks(), size*r.marks())}
		b.emit(1, multiply, nil, map[string]place.Memory{"a": at["before"], "b": u, "c": recur})
		b.emit(0, kernels[0], nil, at)
		if r.resets {
			b.emit(1, lastMultiply, nil, map[string]place.Memory{"a": reset, "b": last, "c": recur})
			b.emit(0, kernels[1], nil, at)
		}
	}
	return hidden, cells[r.steps%2]
}

// weights returns where so many rows of a direction's weights lie, from one on: where they are if that is where four can be read at once.
func (r *recurrent) weights(b *buffers, input, d, from, rows, columns int) place.Memory {
	all := r.gates * r.units
	row := r.typ.Size() * columns
	off, size := (d*all+from)*row, rows*row
	if off%OperandAlign == 0 {
		return b.in(r.n.Inputs[input]).Part(off, size)
	}
	p := &gpukernel.Program{}
	v := p.Input("given", r.typ, r.dirs*all, columns)
	p.Output(p.Slice(v, []int{rows, columns}, []int{d*all + from, 0}, []int{1, 1}), "made")
	at := b.temp(size)
	b.render("part", p, map[string]place.Memory{"given": b.in(r.n.Inputs[input]), "made": at})
	return at
}

// start returns the program of a direction's first state: an operand's, or zeros.
func (r *recurrent) start(input, d int) *gpukernel.Program {
	p := &gpukernel.Program{}
	if r.n.Input(input) == nil {
		p.Output(p.Expand(p.Float(r.typ, 0), r.batch, r.units), "made")
		return p
	}
	shape, starts, steps := []int{1, r.batch, r.units}, []int{d, 0, 0}, []int{1, 1, 1}
	given := []int{r.dirs, r.batch, r.units}
	if r.batchFirst {
		shape, starts, given = []int{r.batch, 1, r.units}, []int{0, d, 0}, []int{r.batch, r.dirs, r.units}
	}
	p.Output(p.Slice(p.Input("given", r.typ, given...), shape, starts, steps), "made")
	return p
}

// mark returns the program that tells by step which elements of the batch are still at it.
func (r *recurrent) mark() *gpukernel.Program {
	p := &gpukernel.Program{}
	lens := r.lengths(p)
	if more := r.marks() - r.batch; more > 0 {
		lens = p.Pad(lens, p.Constant(gpukernel.I32, "0"), []int{0}, []int{more})
	}
	p.Output(p.Scalar(r.typ, "($0 < $1 ? 1.0f : 0.0f)", p.Reshape(p.Iota(r.steps), r.steps, 1), lens), "made")
	return p
}

// collect returns the program of a result: the states of all steps, the last ones, or the last cells'.
func (r *recurrent) collect(output int) *gpukernel.Program {
	p := &gpukernel.Program{}
	parts := make([]gpukernel.Value, r.dirs)
	used := r.batch * r.units
	for d := range parts {
		if output == 2 {
			v := p.Slice(p.Input(fmt.Sprintf("cell%d", d), r.typ, r.states()), []int{used}, []int{0}, []int{1})
			parts[d] = p.Reshape(v, 1, r.batch, r.units)
			continue
		}
		v := p.Input(fmt.Sprintf("hidden%d", d), r.typ, r.steps+1, r.states())
		if output == 1 {
			parts[d] = p.Reshape(p.Slice(v, []int{1, used}, []int{r.steps, 0}, []int{1, 1}), 1, r.batch, r.units)
			continue
		}
		v = p.Reshape(p.Slice(v, []int{r.steps, used}, []int{1, 0}, []int{1, 1}), r.steps, r.batch, r.units)
		v = r.turned(p, v, d)
		if r.lens {
			v = p.Scalar(r.typ, "($1 < $2 ? $0 : 0.0f)", v, p.Reshape(p.Iota(r.steps), r.steps, 1, 1), p.Reshape(r.lengths(p), r.batch, 1))
		}
		parts[d] = p.Reshape(v, r.steps, 1, r.batch, r.units)
	}
	if output == 0 {
		v := p.Concat(1, parts...)
		if r.batchFirst {
			v = p.Transpose(v, 2, 0, 1, 3)
		}
		p.Output(v, "made")
		return p
	}
	v := p.Concat(0, parts...)
	if r.batchFirst {
		v = p.Transpose(v, 1, 0, 2)
	}
	p.Output(v, "made")
	return p
}

// activated writes an activation of a clipped argument.
func (r *recurrent) activated(act, argument string) string {
	return strings.ReplaceAll(act, "$x", strings.ReplaceAll(r.clip, "$x", "("+argument+")"))
}
