package mxnet

import (
	"context"
	"math"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// Expand replaces the operators of Domain in g, and in the bodies within it, by standard ones that compute the same: for whoever writes
// the graph as ONNX. To run it is slower than the operators themselves are: where one result needs the one before, it is a Loop. A
// matrix that is singular, or not positive definite, gives results that are no numbers in place of an error.
//
// Types must have been inferred; ranks have to be known, and every operator's name, place in the order and results' names stay. An error
// is an *Error that names the node; the graph is of no use then. Cost: O(nodes).
func Expand(ctx context.Context, g *graph.Graph) error {
	if ctx == nil {
		ctx = context.Background()
	}
	t := &translator{ctx: ctx, o: Options{MaxNodes: mostNodes}, budget: mostNodes, labels: map[string]int{}}
	if err := t.expand(g); err != nil {
		return err
	}
	delete(g.Opsets, Domain)
	return nil
}

func (t *translator) expand(g *graph.Graph) error {
	var list []*graph.Node
	for n := range g.Nodes() {
		for _, r := range n.Regions {
			if err := t.expand(r.Graph); err != nil {
				return err
			}
		}
		if n.Op.Domain == Domain {
			list = append(list, n)
		}
	}
	for _, n := range list {
		if err := t.ctx.Err(); err != nil {
			return err
		}
		if err := t.expandNode(g, n); err != nil {
			return &Error{Op: "expand", Node: n.Name, Offset: -1, Err: err}
		}
	}
	if len(list) == 0 {
		return nil
	}
	g.Compact()
	return g.Sort()
}

func (t *translator) expandNode(g *graph.Graph, n *graph.Node) (err error) {
	defer func() {
		if r := recover(); r != nil {
			f, ok := r.(fault)
			if !ok {
				panic(r)
			}
			err = f.err
		}
	}()
	o := &op{scope: t.scope(g, &Symbol{}, ""), n: &Node{Op: n.Op.Name, Name: n.Name}, label: n.Name, in: n.Inputs}
	for _, x := range ownOperators {
		if x.name == n.Op.Name {
			if old := n.Output(0); old != nil {
				y := x.expand(o, n)
				y.Name = old.Name
				g.ReplaceUses(old, y)
			}
			g.Remove(n)
			return nil
		}
	}
	return ErrOperator
}

// loop adds a Loop of so many steps, whose body f adds. It carries one value, where there is one, and returns that of the last step,
// and what f gives in each, stacked, where it gives something. outer makes a value of the graph around known in the body.
func (o *op) loop(count extent, carried *graph.Value, f func(b *op, outer func(*graph.Value) *graph.Value, step, v *graph.Value) (next, each *graph.Value)) (last, all *graph.Value) {
	b := o.region(&Symbol{}, "body")
	step := b.g.AddInput("step", graph.TensorType(tensor.Int64, graph.Shape{}))
	b.g.AddInput("go", graph.TensorType(tensor.Bool, graph.Shape{}))
	ins := []*graph.Value{o.countOf(count), o.scalar(tensor.Bool, 1)}
	var v *graph.Value
	if carried != nil {
		ins, v = append(ins, carried), b.g.AddInput("state", carried.Type)
	}
	inner := &op{scope: b.scope, n: o.n, label: o.label + "/body"}
	next, each := f(inner, b.outer, step, v)
	results := []*graph.Value{inner.scalar(tensor.Bool, 1)}
	for _, x := range []*graph.Value{next, each} {
		if x != nil {
			results = append(results, x)
		}
	}
	o.t.depth--
	n := o.add(graph.NodeSpec{Op: graph.Op{Name: "Loop"}, Inputs: ins, Captures: b.captures, Outputs: make([]string, len(results)-1),
		Regions: []graph.Region{{Name: "body", Graph: b.seal(results)}}})
	out := n.Outputs
	if next != nil {
		last, out = out[0], out[1:]
	}
	if each != nil {
		all = out[0]
	}
	return last, all
}

// countOf returns an extent as a scalar.
func (o *op) countOf(e extent) *graph.Value {
	if e.v != nil {
		return o.squeeze(e.v, 0)
	}
	return o.scalar(tensor.Int64, float64(e.n))
}

// inDouble applies f to a value as float64, and gives the result the value's type.
func (o *op) inDouble(x *graph.Value, f func(*graph.Value) *graph.Value) *graph.Value {
	return o.cast(f(o.cast(x, tensor.Float64)), o.typeOf(x))
}

// polynomial evaluates a polynomial, the lowest coefficient first.
func (o *op) polynomial(x *graph.Value, c ...float64) *graph.Value {
	y := o.like(x, c[len(c)-1])
	for i := len(c) - 2; i >= 0; i-- {
		y = o.plus(o.call("Mul", nil, y, x), c[i])
	}
	return y
}

func (o *op) minus(a, b *graph.Value) *graph.Value { return o.call("Sub", nil, a, b) }

// whole splits numbers into what is whole, and the rest, of [0, 1).
func (o *op) whole(x *graph.Value) (whole, rest *graph.Value) {
	whole = o.call("Floor", nil, x)
	return whole, o.minus(x, whole)
}

// reflected is 1-x where x is below 1/2, else x.
func (o *op) reflected(x *graph.Value) (y, below *graph.Value) {
	below = o.call("Less", nil, x, o.like(x, 0.5))
	return o.call("Where", nil, below, o.minus(o.like(x, 1), x), x), below
}

// logGamma is the logarithm of gamma for numbers from 1/2 on, by Lanczos's approximation with g = 7 and nine terms.
func (o *op) logGamma(x *graph.Value) *graph.Value {
	c := [...]float64{676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059, 12.507343278686905,
		-0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7}
	sum := o.like(x, 0.99999999999980993)
	for i, k := range c {
		sum = o.call("Add", nil, sum, o.call("Div", nil, o.like(x, k), o.plus(x, float64(i))))
	}
	t := o.plus(x, 6.5)
	y := o.minus(o.call("Mul", nil, o.plus(x, -0.5), o.call("Log", nil, t)), t)
	return o.call("Add", nil, o.plus(y, math.Log(2*math.Pi)/2), o.call("Log", nil, sum))
}

func expandLogGamma(o *op, _ *graph.Node) *graph.Value {
	return o.inDouble(o.input(0), func(x *graph.Value) *graph.Value {
		at, below := o.reflected(x)
		y := o.logGamma(at)
		_, rest := o.whole(x)
		sine := o.call("Sin", nil, o.times(rest, math.Pi))
		mirrored := o.minus(o.minus(o.like(x, math.Log(math.Pi)), o.call("Log", nil, sine)), y)
		return o.call("Where", nil, below, mirrored, y)
	})
}

func expandGamma(o *op, _ *graph.Node) *graph.Value {
	return o.inDouble(o.input(0), func(x *graph.Value) *graph.Value {
		at, below := o.reflected(x)
		y := o.call("Exp", nil, o.logGamma(at))
		whole, rest := o.whole(x)
		odd := o.call("Equal", nil, o.call("Mod", attrs(graph.IntAttr("fmod", 1)), o.call("Abs", nil, whole), o.like(x, 2)), o.like(x, 1))
		sine := o.call("Sin", nil, o.times(rest, math.Pi))
		sine = o.call("Where", nil, odd, o.call("Neg", nil, sine), sine)
		pole := o.call("And", nil, o.call("Less", nil, x, o.like(x, 0)), o.call("Equal", nil, rest, o.like(x, 0)))
		mirrored := o.call("Div", nil, o.like(x, math.Pi), o.call("Mul", nil, sine, y))
		mirrored = o.call("Where", nil, pole, o.like(x, math.NaN()), mirrored)
		return o.call("Where", nil, below, mirrored, y)
	})
}

// expandDigamma is the asymptotic series of the function digamma, six to the right.
func expandDigamma(o *op, _ *graph.Node) *graph.Value {
	return o.inDouble(o.input(0), func(x *graph.Value) *graph.Value {
		one := o.like(x, 1)
		below := o.call("Less", nil, x, o.like(x, 0))
		at := o.call("Where", nil, below, o.minus(one, x), x)
		y := o.plus(at, 6)
		q := o.call("Div", nil, one, o.call("Mul", nil, y, y))
		series := o.call("Mul", nil, q, o.polynomial(q, 1.0/12, -1.0/120, 1.0/252, -1.0/240, 1.0/132))
		sum := o.minus(o.minus(o.call("Log", nil, y), o.call("Div", nil, o.like(x, 0.5), y)), series)
		for i := range 6 {
			sum = o.minus(sum, o.call("Div", nil, one, o.plus(at, float64(i))))
		}
		_, rest := o.whole(x)
		angle := o.times(rest, math.Pi)
		cosine := o.call("Sin", nil, o.plus(angle, math.Pi/2))
		mirrored := o.minus(sum, o.times(o.call("Div", nil, cosine, o.call("Sin", nil, angle)), math.Pi))
		pole := o.call("And", nil, o.call("LessOrEqual", nil, x, o.like(x, 0)), o.call("Equal", nil, rest, o.like(x, 0)))
		return o.call("Where", nil, pole, o.like(x, math.NaN()), o.call("Where", nil, below, mirrored, sum))
	})
}

// expandErfInv is the quantile of the normal distribution by rational functions (Wichura, algorithm AS 241, 10.2307/2347330), at
// (x+1)/2, divided by the square root of 2.
func expandErfInv(o *op, _ *graph.Node) *graph.Value {
	return o.inDouble(o.input(0), func(x *graph.Value) *graph.Value {
		one := o.like(x, 1)
		size := o.call("Abs", nil, x)
		ratio := func(r *graph.Value, up, down []float64) *graph.Value {
			return o.call("Div", nil, o.polynomial(r, up...), o.polynomial(r, down...))
		}
		q := o.times(x, 0.5)
		middle := o.call("Mul", nil, q, ratio(o.minus(o.like(x, 0.180625), o.call("Mul", nil, q, q)),
			[]float64{3.3871328727963666080, 133.14166789178437745, 1971.5909503065514427, 13731.693765509461125, 45921.953931549871457,
				67265.770927008700853, 33430.575583588128105, 2509.0809287301226727},
			[]float64{1, 42.313330701600911252, 687.18700749205790830, 5394.1960214247511077, 21213.794301586595867, 39307.895800092710610,
				28729.085735721942674, 5226.4952788528545610}))
		tail := o.call("Sqrt", nil, o.call("Neg", nil, o.call("Log", nil, o.times(o.minus(one, size), 0.5))))
		near := ratio(o.plus(tail, -1.6),
			[]float64{1.42343711074968357734, 4.63033784615654529590, 5.76949722146069140550, 3.64784832476320460504, 1.27045825245236838258,
				0.241780725177450611770, 0.0227238449892691845833, 7.74545014278341407640e-4},
			[]float64{1, 2.05319162663775882187, 1.67638483018380384940, 0.689767334985100004550, 0.148103976427480074590,
				0.0151986665636164571966, 5.47593808499534494600e-4, 1.05075007164441684324e-9})
		far := ratio(o.plus(tail, -5),
			[]float64{6.65790464350110377720, 5.46378491116411436990, 1.78482653991729133580, 0.296560571828504891230,
				0.0265321895265761230930, 1.24266094738807843860e-3, 2.71155556874348757815e-5, 2.01033439929228813265e-7},
			[]float64{1, 0.599832206555887937690, 0.136929880922735805310, 0.0148753612908506148525, 7.86869131145613259100e-4,
				1.84631831751005468180e-5, 1.42151175831644588870e-7, 2.04426310338993978564e-15})
		outer := o.call("Where", nil, o.call("LessOrEqual", nil, tail, o.like(x, 5)), near, far)
		outer = o.call("Where", nil, o.call("Equal", nil, size, one), o.like(x, math.Inf(1)), outer)
		outer = o.call("Where", nil, o.call("Less", nil, x, o.like(x, 0)), o.call("Neg", nil, outer), outer)
		return o.times(o.call("Where", nil, o.call("LessOrEqual", nil, size, o.like(x, 0.85)), middle, outer), math.Sqrt2/2)
	})
}

// rowsOf returns the numbers 0, 1, … of the rows of matrices.
func (o *op) rowsOf(x *graph.Value) (rows *graph.Value, n extent) {
	n = o.dim(x, o.rank(x)-2)
	return o.positions(n), n
}

// expandCholesky makes the triangle column by column.
func expandCholesky(o *op, _ *graph.Node) *graph.Value {
	return o.inDouble(o.input(0), func(a *graph.Value) *graph.Value {
		rows, n := o.rowsOf(a)
		zero := o.call("Expand", nil, o.like(a, 0), o.call("Shape", nil, a))
		l, _ := o.loop(n, zero, func(b *op, outer func(*graph.Value) *graph.Value, step, l *graph.Value) (*graph.Value, *graph.Value) {
			at, last := b.unsqueeze(step, 0), o.rank(a)-1
			column := b.call("Gather", attrs(graph.IntAttr("axis", int64(last))), outer(a), at)
			row := b.call("Gather", attrs(graph.IntAttr("axis", int64(last-1))), l, at)
			left := b.minus(column, b.reduce("ReduceSum", b.call("Mul", nil, l, row), true, last))
			top := b.call("Gather", attrs(graph.IntAttr("axis", int64(last-1))), left, at)
			left = b.call("Div", nil, left, b.call("Sqrt", nil, top))
			here := outer(rows)
			below := b.unsqueeze(b.call("GreaterOrEqual", nil, here, step), 1)
			left = b.call("Where", nil, below, left, b.like(left, 0))
			return b.call("Where", nil, b.call("Equal", nil, here, step), left, l), nil
		})
		return l
	})
}

// expandSolve eliminates column by column, with the largest pivots, in matrices that have the right sides beside them.
func expandSolve(o *op, _ *graph.Node) *graph.Value {
	a, dt := o.cast(o.input(0), tensor.Float64), o.typeOf(o.input(1))
	right := o.cast(o.input(1), tensor.Float64)
	last := o.rank(a) - 1
	rows, n := o.rowsOf(a)
	both, _ := o.loop(n, o.concat(last, a, right), func(b *op, outer func(*graph.Value) *graph.Value, step, m *graph.Value) (*graph.Value, *graph.Value) {
		at, here := b.unsqueeze(step, 0), outer(rows)
		along := func(x *graph.Value, axis int) *graph.Value {
			return b.call("Gather", attrs(graph.IntAttr("axis", int64(axis))), x, at)
		}
		size := b.squeeze(b.call("Abs", nil, along(m, last)), last)
		size = b.call("Where", nil, b.call("GreaterOrEqual", nil, here, step), size, b.like(size, -1))
		pivot := b.call("ArgMax", attrs(graph.IntAttr("axis", int64(last-1)), graph.IntAttr("keepdims", 1)), size)
		from := b.call("Where", nil, b.call("Equal", nil, here, pivot), step, here)
		from = b.call("Where", nil, b.call("Equal", nil, here, step), pivot, from)
		from = b.call("Expand", nil, b.unsqueeze(from, last), b.call("Shape", nil, m))
		m = b.call("GatherElements", attrs(graph.IntAttr("axis", int64(last-1))), m, from)
		top := along(m, last-1)
		top = b.call("Div", nil, top, along(top, last))
		left := b.minus(m, b.call("Mul", nil, along(m, last), top))
		return b.call("Where", nil, b.unsqueeze(b.call("Equal", nil, here, step), 1), top, left), nil
	})
	size := o.dim(a, last)
	return o.cast(o.call("Slice", nil, both, o.one(size), o.ints(math.MaxInt64), o.ints(int64(last))), dt)
}
