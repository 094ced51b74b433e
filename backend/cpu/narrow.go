package cpu

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"sync"
	"weak"

	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/fuse"
	"github.com/carve-dev/carve/internal/kernel/gemm"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/kernel/pairs"
	"github.com/carve-dev/carve/internal/kernel/reorder"
	"github.com/carve-dev/carve/internal/place"
)

// The second operand of a product may be kept in 16 bits: as bfloat16 or float16, in pairs (the option precision), or as float16, which is multiplied as
// float32 (the option weights, or where float16 has the numbers as they are, as in models of that type). Its panels are an opaque layout, named by type and order in the model.

// narrowLayout is what such a layout says.
type narrowLayout struct {
	pairs            pairs.Type // that is multiplied
	half, transposed bool       // half: float16 that is multiplied as float32
	gates            bool       // matrices of a recurrent operator, [directions, gates, inputs]
}

// narrowLayouts are those there are.
var narrowLayouts = map[string]narrowLayout{
	"cpu@" + Version + ":bf16-kn": {pairs: pairs.BFloat16}, "cpu@" + Version + ":bf16-nk": {pairs: pairs.BFloat16, transposed: true},
	"cpu@" + Version + ":f16-pairs-kn": {pairs: pairs.Float16}, "cpu@" + Version + ":f16-pairs-nk": {pairs: pairs.Float16, transposed: true},
	"cpu@" + Version + ":f16-kn": {half: true}, "cpu@" + Version + ":f16-nk": {half: true, transposed: true},
	"cpu@" + Version + ":bf16-gates": {pairs: pairs.BFloat16, transposed: true, gates: true}, "cpu@" + Version + ":f16-pairs-gates": {pairs: pairs.Float16, transposed: true, gates: true},
	"cpu@" + Version + ":f16-gates": {half: true, transposed: true, gates: true},
}

// narrowLayoutOf returns what a layout says; ok is false for others.
func narrowLayoutOf(l graph.Layout) (n narrowLayout, ok bool) {
	if !l.IsOpaque() {
		return n, false
	}
	n, ok = narrowLayouts[l.String()]
	return n, ok
}

// narrowOf returns the format of a type of 16 bits for one of a product's second operand in float32; ok is false for others.
func narrowOf(f graph.Format, want narrowLayout) (g graph.Format, ok bool) {
	want.transposed, want.gates = f != packedKN, f == packedGates
	if f != packedKN && f != packedNK && f != packedGates {
		return f, false
	}
	for name, l := range narrowLayouts {
		if l == want {
			g = mustFormat(name)
		}
	}
	return g, true
}

// inHalf reports whether the second operand of a product is float16 that is multiplied as float32.
func inHalf(f graph.Format) bool {
	n, ok := narrowLayoutOf(f.Layout)
	return ok && n.half
}

// narrowOperand are second operands of products, [k, n], or in the model [n, k] where they are transposed, in panels: one, but of a recurrent
// operator one for each direction.
type narrowOperand struct {
	narrowLayout
	target      isa.Target
	count, k, n int
}

func (l narrowLayout) operand(t isa.Target, dims []int) (o narrowOperand, err error) {
	if len(dims) != l.rank() {
		return o, tensor.ErrShape
	}
	if _, err := tensor.NumElements(dims); err != nil {
		return o, err
	}
	o = narrowOperand{l, t, 1, dims[len(dims)-2], dims[len(dims)-1]}
	if l.gates {
		o.count = dims[0]
	}
	if l.transposed {
		o.k, o.n = o.n, o.k
	}
	if float64(o.count)*float64(o.k+1)*float64(o.n+gemm.Panel)*2 > 1<<44 {
		return o, fmt.Errorf("%w: %v in 16 bits", tensor.ErrTooLarge, dims)
	}
	return o, nil
}

// rank is that of the value in the model.
func (l narrowLayout) rank() int {
	if l.gates {
		return 3
	}
	return 2
}

// matrix is the number of packed words of a matrix, of two numbers each.
func (o narrowOperand) matrix() int {
	if o.half {
		return gemm.PackedLen(o.k, o.n) / 2
	}
	return gemm.PackedLen(pairs.Words(o.k), o.n)
}

// words is the number of packed words.
func (o narrowOperand) words() int { return o.count * o.matrix() }

// chunks is how many parts conversions have, at least one.
func (o narrowOperand) chunks() int { return max(o.count*gemm.Panels(o.n), 1) }

// each calls do for panels [lo, hi) of all matrices with those, their matrix as packed and as row-major elements, and their number in it.
func (o narrowOperand) each(packed, plain []byte, lo, hi int, do func(packed []uint32, plain []float32, panel int)) error {
	if len(packed) < 4*o.words() || len(plain) < 4*o.count*o.k*o.n {
		return place.ErrShort
	}
	words, floats, panels := place.Elements[uint32](packed), place.Elements[float32](plain), gemm.Panels(o.n)
	for i := lo; i < min(hi, o.count*panels); i++ {
		m := i / panels
		do(words[m*o.matrix():][:o.matrix()], floats[m*o.k*o.n:], i%panels)
	}
	return nil
}

// pack packs panels [lo, hi) of row-major operands.
func (o narrowOperand) pack(dst, src []byte, lo, hi int) error {
	ld := o.n
	if o.transposed {
		ld = o.k
	}
	return o.each(dst, src, lo, hi, func(packed []uint32, plain []float32, panel int) {
		switch {
		case o.half:
			gemm.PackHalfPanels(o.target, pairs.Halves(packed), plain, o.k, o.n, ld, o.transposed, panel, panel+1)
		case o.transposed:
			gemm.PackPairsTPanels(o.target, o.pairs, packed, plain, o.k, o.n, ld, panel, panel+1)
		default:
			gemm.PackPairsPanels(o.target, o.pairs, packed, plain, o.k, o.n, ld, panel, panel+1)
		}
	})
}

// unpack writes the rounded numbers of panels [lo, hi) to row-major operands.
func (o narrowOperand) unpack(dst, src []byte, lo, hi int) error {
	row, column := o.n, 1
	if o.transposed {
		row, column = 1, o.k
	}
	return o.each(src, dst, lo, hi, func(packed []uint32, plain []float32, panel int) {
		part := packed[panel*(o.matrix()/gemm.Panels(o.n)):]
		for j := range min(gemm.Panel, o.n-panel*gemm.Panel) {
			for i := range o.k {
				to := &plain[i*row+(panel*gemm.Panel+j)*column]
				if o.half {
					*to = tensor.Float16ToFloat32(pairs.Halves(part)[i*gemm.Panel+j])
				} else {
					*to = o.pairs.At(part, i, j)
				}
			}
		}
	})
}

// narrowConverters are those between a row-major second operand of a product and one in panels of 16 bits.
func (b cpu) narrowConverters(layout graph.Layout, l narrowLayout) []convert.Converter {
	size := func(_ graph.Format, _ tensor.DType, dims []int) (int64, error) {
		o, err := l.operand(b.target, dims)
		return 4 * int64(o.words()), err
	}
	one := func(name string, from, to graph.Format, move func(o narrowOperand, dst, src []byte, lo, hi int) error) convert.Converter {
		return convert.Converter{Name: name, From: from, To: to, Cost: convert.HostCost, Rounds: true, Spreads: true, Size: size,
			Supports: func(dt tensor.DType, rank int) bool { return dt == tensor.Float32 && rank == l.rank() },
			Plan: func(_ tensor.DType, dims []int) (convert.Move, error) {
				o, err := l.operand(b.target, dims)
				if err != nil {
					return nil, err
				}
				return spread(o.chunks(), func(dst, src []byte, lo, hi int) error { return move(o, dst, src, lo, hi) }), nil
			}}
	}
	return []convert.Converter{one("cpu-pack-narrow", graph.HostFormat, graph.On(layout), narrowOperand.pack),
		one("cpu-unpack-narrow", graph.On(layout), graph.HostFormat, narrowOperand.unpack)}
}

// halfValues remembers of constants whether float16 has their numbers, as long as they live. It is safe for concurrent use.
type halfValues struct {
	mu sync.Mutex
	m  map[halfQuestion]bool
}

// halfQuestion is whether all numbers of a constant are the same in float16, or else in its range.
type halfQuestion struct {
	of   weak.Pointer[tensor.Tensor]
	same bool
}

// fit reports whether all numbers of a constant but infinities are in the range of float16.
func (h *halfValues) fit(t *tensor.Tensor) bool {
	return h.answer(t, false, func(x []float32) bool {
		const least = 65520 // that becomes infinity
		return !slices.ContainsFunc(x, func(x float32) bool { return (x >= least || x <= -least) && !math.IsInf(float64(x), 0) })
	})
}

// same reports whether rounding to float16 changes no number of a constant.
func (h *halfValues) same(t *tensor.Tensor, target isa.Target) bool {
	return h.answer(t, true, func(x []float32) bool {
		var half [512]uint16
		var back [512]float32
		for part := range slices.Chunk(x, len(half)) {
			n := len(part)
			reorder.ToHalf(target, half[:n], part, reorder.Float16)
			reorder.FromHalf(target, back[:n], half[:n], reorder.Float16)
			if !bytes.Equal(asBytes(part), asBytes(back[:n])) {
				return false
			}
		}
		return true
	})
}

// answer returns what is known of a constant, or asks.
func (h *halfValues) answer(t *tensor.Tensor, same bool, ask func(x []float32) bool) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	key := halfQuestion{weak.Make(t), same}
	ok, known := h.m[key]
	if !known {
		ok = ask(fuse.Floats(t))
		if h.m == nil || len(h.m) >= mostChoices {
			h.m = map[halfQuestion]bool{}
		}
		h.m[key] = ok
	}
	return ok
}
