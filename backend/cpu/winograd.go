package cpu

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/fuse"
	"github.com/carve-dev/carve/internal/kernel/conv"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/kernel/pairs"
	"github.com/carve-dev/carve/internal/kernel/winograd"
	"github.com/carve-dev/carve/internal/place"
)

// Weights of convolutions that run by Winograd's algorithms F(2) and F(4) are transformed once. Their format is an opaque layout,
// named by the number.
const winogradPrefix = "cpu@" + Version + ":winograd-"

// winogradWeights returns the format of weights for F(m).
func winogradWeights(m int) graph.Format { return mustFormat(winogradPrefix + strconv.Itoa(m)) }

// winogradOf returns the m of a layout of weights for F(m), 0 for other layouts.
func winogradOf(l graph.Layout) int {
	number, ok := strings.CutPrefix(l.String(), winogradPrefix)
	if !ok {
		return 0
	}
	m, _ := strconv.Atoi(number)
	return m
}

// withWinograd returns the signatures of a node: of a convolution with constant weights that runs faster by Winograd's algorithms,
// fused with others or not, those that take weights for them; of others the ones given.
func (b cpu) withWinograd(n *graph.Node, list []graph.Signature) []graph.Signature {
	head, in := n, n.Inputs
	switch {
	case b.direct || len(list) == 0:
		return list
	case n.IsCarve(graph.OpFused) && n.Str("pattern", "") == convTail.Name:
		l, err := convTail.Parse(n)
		if err != nil {
			return list
		}
		head, in = l.Head, fuse.Outers(n, l.Head.Inputs)
	}
	if !head.Is("Conv") || !is4D(in[0]) && !is5D(in[0]) || !in[1].IsConst() || in[1] == in[0] {
		return list
	}
	if kind, why := convKindOf(head); why != nil || kind != convDense {
		return list
	}
	spec, ok := staticSpec(head, in)
	if !ok {
		return list
	}
	if !is5D(in[0]) {
		spec.Pairs = b.pairs
	}
	m := b.best.of(b.target, spec)
	if m == 0 {
		return list
	}
	out := slices.Clone(list)
	for i := range out {
		out[i].Name += "-winograd" + strconv.Itoa(m)
		out[i].Inputs = slices.Clone(out[i].Inputs)
		for k, v := range n.Inputs {
			if v == in[1] {
				out[i].Inputs[k] = graph.Fixed(winogradWeights(m))
			}
		}
	}
	return out
}

// winogradChoices remembers which F(m) suits convolutions best: models repeat them, and nodes are looked at alone and in every set of
// nodes. It is safe for concurrent use.
type winogradChoices struct {
	mu   sync.Mutex
	made map[winogradShape]int
}

// winogradShape is what the choice depends on.
type winogradShape struct {
	n, c, oc, groups int
	pairs            pairs.Type
	window           conv.Map
}

// mostChoices bounds the memory that a backend takes which lives on.
const mostChoices = 1 << 12

// of returns what winograd.Best does for a spec without distances.
func (w *winogradChoices) of(t isa.Target, s conv.Spec) int {
	k := winogradShape{s.N, s.C, s.OC, s.Groups, s.Pairs, s.Map}
	w.mu.Lock()
	defer w.mu.Unlock()
	m, known := w.made[k]
	if !known {
		if w.made == nil || len(w.made) == mostChoices {
			w.made = map[winogradShape]int{}
		}
		m = winograd.Best(t, s)
		w.made[k] = m
	}
	return m
}

// staticSpec returns a convolution whose images have sizes that are known, as it is for one image where their number is not. Of one over three axes it is that of the
// slices of the result that a slice of the kernel meets, at most.
func staticSpec(head *graph.Node, in []*graph.Value) (s conv.Spec, ok bool) {
	var dims [3][]int
	for i, v := range []*graph.Value{in[0], in[1], head.Outputs[0]} {
		shape := slices.Clone(v.Type.Shape)
		if len(shape) != 4 && len(shape) != 5 {
			return s, false
		}
		if _, known := shape[0].Const(); !known {
			shape[0] = graph.D(1)
		}
		if dims[i], ok = shape.Static(); !ok || product(dims[i]) == 0 {
			return s, false
		}
	}
	x, w, y := dims[0], dims[1], dims[2]
	s = conv.Spec{N: x[0], C: x[1], OC: y[1], Groups: int(head.Int("group", 1))}
	if len(x) == 5 {
		s.N = min(x[2], y[2])
	}
	var err error
	s.Map, err = convWindow(head, x[2:], w[2:], y[2:])
	return s, err == nil
}

// winograd emits a convolution by F(m).
func (p *planner) winograd(m int, spec conv.Spec, c *convCall, w, bias, residual, out *graph.Value) error {
	plan, err := winograd.NewPlan(p.target, m, spec, p.e.threads)
	if err != nil {
		return err
	}
	c.weights = p.ConstantIn(w, w.Format, 4*plan.WeightFloats())
	if err := p.convBias(c, bias, plan.BiasFloats()); err != nil {
		return err
	}
	if residual != nil {
		c.residual = p.In(residual)
	}
	c.dst = p.Out(out)
	p.emitWinograd(plan, c)
	return nil
}

// emitWinograd emits a convolution of known places by F(m).
func (p *planner) emitWinograd(plan *winograd.Plan, c *convCall) {
	work, chunks := p.scratch(4*plan.Workspace()), plan.Chunks()
	s := step{work: c.work, chunks: chunks, grain: grainFor(float64(plan.Cost()) / 3 / float64(chunks)), body: func(st *state, worker, lo, hi int) {
		t := c.tensors(st)
		if err := plan.Run(lo, hi, work.floats(st, worker), &t); err != nil {
			panic(err)
		}
	}}
	p.emit(s, []place.Memory{c.src, c.weights, c.biasAt, c.residual}, []place.Memory{c.dst, work.at})
}

// winogradConverters are those between row-major weights and weights for F(m). Of a kernel over three axes each slice is transformed, one behind the other.
func (b cpu) winogradConverters(l graph.Layout, m int) []convert.Converter {
	of := func(dims []int) (w winograd.Weights, depth int, err error) {
		rank := len(dims)
		if rank != 4 && rank != 5 || dims[rank-2] != 3 || dims[rank-1] != 3 {
			return w, 0, tensor.ErrShape
		}
		w, err = winograd.NewWeights(b.target, m, dims[0], dims[1])
		return w, product(dims[2 : rank-2]), err
	}
	size := func(_ graph.Format, _ tensor.DType, dims []int) (int64, error) {
		w, depth, err := of(dims)
		return 4 * int64(w.Floats()) * int64(depth), err
	}
	one := func(name string, from, to graph.Format, move func(w winograd.Weights, dst, src []byte, lo, hi int) error, deep func(w winograd.Weights, filters, depth int) convert.Move) convert.Converter {
		return convert.Converter{Name: name, From: from, To: to, Cost: convert.HostCost, Rounds: true, Spreads: true, Size: size,
			Supports: func(dt tensor.DType, rank int) bool { return dt == tensor.Float32 && (rank == 4 || rank == 5) },
			Plan: func(_ tensor.DType, dims []int) (convert.Move, error) {
				w, depth, err := of(dims)
				if err != nil {
					return nil, err
				}
				if depth != 1 {
					return deep(w, dims[0]*dims[1], depth), nil
				}
				return spread(w.Chunks(), func(dst, src []byte, lo, hi int) error { return move(w, dst, src, lo, hi) }), nil
			}}
	}
	pack := func(w winograd.Weights, dst, src []byte, lo, hi int) error {
		return w.Pack(place.Elements[float32](dst), src, lo, hi)
	}
	unpack := func(w winograd.Weights, dst, src []byte, lo, hi int) error {
		return w.Unpack(dst, place.Elements[float32](src), lo, hi)
	}
	return []convert.Converter{
		one("cpu-winograd", graph.HostFormat, graph.On(l), pack, func(w winograd.Weights, filters, depth int) convert.Move {
			return bySlice(depth, 4*w.Floats(), func(dst, src []byte, k int) error {
				taps := make([]byte, filters*sliceBytes)
				for i := range filters {
					copy(taps[i*sliceBytes:], src[(i*depth+k)*sliceBytes:][:sliceBytes])
				}
				return pack(w, dst, taps, 0, w.Chunks())
			})
		}),
		one("cpu-unwinograd", graph.On(l), graph.HostFormat, unpack, func(w winograd.Weights, filters, depth int) convert.Move {
			return bySlice(depth, 0, func(dst, src []byte, k int) error {
				taps := make([]byte, filters*sliceBytes)
				if err := unpack(w, taps, src[k*4*w.Floats():], 0, w.Chunks()); err != nil {
					return err
				}
				for i := range filters {
					copy(dst[(i*depth+k)*sliceBytes:], taps[i*sliceBytes:][:sliceBytes])
				}
				return nil
			})
		})}
}

// sliceBytes is what a slice of the taps of a filter takes.
const sliceBytes = 9 * 4

// bySlice makes a Move of one that converts a slice of kernels, the result of which begins so many bytes behind that of the one before.
func bySlice(depth, apart int, one func(dst, src []byte, k int) error) convert.Move {
	return func(ctx context.Context, dst, src *tensor.Tensor, x convert.Exec) error {
		to, from := dst.Data[dst.Offset:], src.Data[src.Offset:]
		errs := make([]error, depth)
		x.Workers.Parallel(depth, func(lo, hi int) {
			for k := lo; k < hi && ctx.Err() == nil; k++ {
				if errs[k] = one(to[k*apart:], from, k); x.Progress != nil {
					x.Progress(len(from) / depth)
				}
			}
		})
		if err := errors.Join(errs...); err != nil {
			return err
		}
		return ctx.Err()
	}
}

// spread makes a Move of one that converts chunks, at least one and each of about as many bytes. The errors of part depend on sizes alone.
func spread(chunks int, part func(dst, src []byte, lo, hi int) error) convert.Move {
	return func(ctx context.Context, dst, src *tensor.Tensor, x convert.Exec) error {
		to, from := dst.Data[dst.Offset:], src.Data[src.Offset:]
		if err := part(to, from, 0, 0); err != nil {
			return err
		}
		x.Workers.Parallel(chunks, func(lo, hi int) {
			for ; lo < hi && ctx.Err() == nil; lo++ {
				if err := part(to, from, lo, lo+1); err != nil {
					panic(err)
				}
				if x.Progress != nil {
					x.Progress(len(from) / chunks)
				}
			}
		})
		return ctx.Err()
	}
}
