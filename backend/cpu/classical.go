package cpu

import (
	"math"
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/kernel/cast"
	"github.com/carve-dev/carve/internal/kernel/element"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/kernel/pairwise"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// Operators of domain ai.onnx.ml on rows of numbers: a row is read as float64, whatever type it has, and computed in float64.

// rowSignatures refuses operands that are no rows of numbers, labels that are strings, and attributes that make does not take.
func rowSignatures[T any](make func(n *graph.Node) (T, *property.Reason)) func(n *graph.Node) ([]graph.Signature, *property.Reason) {
	return func(n *graph.Node) ([]graph.Signature, *property.Reason) {
		x := n.Inputs[0]
		switch x.Type.DType {
		case tensor.Float32, tensor.Float64, tensor.Int64, tensor.Int32:
		default:
			return nil, property.Because(property.DTypeReason, "%v has element type %v", x, x.Type.DType)
		}
		if r := len(x.Type.Shape); r != 1 && r != 2 {
			return nil, property.Because(property.ShapeReason, "rows of numbers are expected, %v has %v", x, x.Type)
		}
		if y := n.Outputs[0]; y != nil && y.Type.DType == tensor.String {
			return nil, property.Because(property.DTypeReason, "%v has element type %v", y, y.Type.DType)
		}
		if _, why := make(n); why != nil {
			return nil, why
		}
		return operators.RowMajor(n), nil
	}
}

// numberRows are the rows [N, C] of an operand; [C] counts as [1, C].
type numberRows struct {
	rows, columns int
	together      int // how many are handed out at once, at most
	src           place.Memory
	from          tensor.DType
	wide          scratch // rows as float64
	kernels       pairwise.Kernels
	set           isa.Set
}

const (
	// rowsTogether is how many rows are computed side by side, at most.
	rowsTogether = 64
	// numbersTogether is how many numbers of work those rows may take that stay in the second cache.
	numbersTogether = 1 << 16
	// nearNumbers is how many stay in the nearest cache, for what goes through rows more than once.
	nearNumbers = 1 << 12
)

// newNumberRows returns the rows of x, of which each takes that many numbers of work besides.
func newNumberRows(p *planner, x *graph.Value, work int) *numberRows {
	d := p.Dims[x.ID]
	r := &numberRows{rows: 1, columns: d[len(d)-1], src: p.In(x), from: x.Type.DType, kernels: pairwise.For(p.target), set: p.target.Set}
	if len(d) > 1 {
		r.rows = d[0]
	}
	r.together = min(max(numbersTogether/(r.columns+work+1), 1), rowsTogether, r.rows)
	if r.together > pairwise.Lanes {
		r.together -= r.together % pairwise.Lanes
	}
	r.wide = p.scratch(r.together * r.columns * 8)
	return r
}

// each emits a step that hands rows to body, some at a time, in memory that is the worker's: x holds rows [lo, lo+n). nanos is what a
// row takes, about.
func (r *numberRows) each(p *planner, nanos float64, writes []place.Memory, body func(st *state, worker int, x []float64, lo, n int)) {
	r.some(p, nanos+float64(r.columns)/4, append(writes, r.wide.at), func(st *state, worker, lo, n int) {
		x := r.wide.doubles(st, worker)[:n*r.columns]
		if r.from == tensor.Float32 {
			r.kernels.Widen(x, of[float32](st, r.src)[lo*r.columns:][:len(x)])
		} else {
			fromElements(r.set, st, x, r.src, r.from, lo*r.columns)
		}
		body(st, worker, x, lo, n)
	})
}

// some emits a step that hands out rows [lo, lo+n).
func (r *numberRows) some(p *planner, nanos float64, writes []place.Memory, body func(st *state, worker, lo, n int)) {
	p.emit(step{chunks: r.rows, grain: grainFor(nanos), body: func(st *state, worker, lo, hi int) {
		for ; lo < hi; lo += r.together {
			body(st, worker, lo, min(r.together, hi-lo))
		}
	}}, []place.Memory{r.src}, writes)
}

// doubles returns a worker's part as float64.
func (s scratch) doubles(st *state, worker int) []float64 {
	return place.Elements[float64](st.Bytes(s.at.Part(worker*s.size, s.size)))
}

// fromElements reads len(x) elements of a type, from element i on.
func fromElements[T float32 | float64](set isa.Set, st *state, x []T, src place.Memory, from tensor.DType, i int) {
	to, size := cast.Float64, from.Size()
	if width[T]() == 4 {
		to = cast.Float32
	}
	cast.Elements(set, asBytes(x), to, st.Bytes(src)[i*size:], castKinds[from], len(x))
}

// put stores numbers as elements of a type, from element i on.
func put(k pairwise.Kernels, st *state, dst place.Memory, to tensor.DType, i int, v []float64) {
	switch to {
	case tensor.Float64:
		copy(of[float64](st, dst)[i:], v)
	case tensor.Int64:
		convertRow(of[int64](st, dst)[i:][:len(v)], v)
	case tensor.Int32:
		convertRow(of[int32](st, dst)[i:][:len(v)], v)
	default:
		k.Narrow(of[float32](st, dst)[i:][:len(v)], v)
	}
}

// perColumn spreads a list of one number for each column, or of one for all; a list of another length is refused.
func perColumn(n *graph.Node, name string, columns int, absent float64) ([]float64, error) {
	list := n.Floats(name)
	out := make([]float64, columns)
	for i := range out {
		switch {
		case list == nil:
			out[i] = absent
		case len(list) == 1:
			out[i] = float64(list[0])
		case len(list) == columns:
			out[i] = float64(list[i])
		default:
			return nil, property.Because(property.Attribute, "%s has %d numbers for %d columns", name, len(list), columns)
		}
	}
	return out, nil
}

// mapped emits an operator that changes rows by fn, in place.
func mapped(p *planner, n *graph.Node, r *numberRows, nanos float64, fn func(row []float64)) error {
	y, to := p.Out(n.Outputs[0]), n.Outputs[0].Type.DType
	r.together = min(r.together, max(1, nearNumbers/max(r.columns, 1)))
	r.each(p, nanos, []place.Memory{y}, func(st *state, _ int, x []float64, lo, count int) {
		for i := range count {
			fn(x[i*r.columns:][:r.columns])
		}
		put(r.kernels, st, y, to, lo*r.columns, x)
	})
	return nil
}

func planScaler(p *planner, n *graph.Node) error {
	r := newNumberRows(p, n.Inputs[0], 0)
	offset, err := perColumn(n, "offset", r.columns, 0)
	if err != nil {
		return err
	}
	scale, err := perColumn(n, "scale", r.columns, 1)
	if err != nil {
		return err
	}
	if x, y := n.Inputs[0].Type.DType, n.Outputs[0].Type.DType; x == tensor.Float32 && y == x {
		standardize(p, n, r, offset, scale)
		return nil
	}
	return mapped(p, n, r, float64(r.columns), func(row []float64) {
		for i := range row {
			row[i] = (row[i] - offset[i]) * scale[i]
		}
	})
}

// standardize emits a Scaler of float32. Its lists are repeated for as many rows as a kernel is worth calling for.
func standardize(p *planner, n *graph.Node, r *numberRows, offset, scale []float64) {
	const worth = 512 // numbers
	together := min(max(worth/max(r.columns, 1), 1), r.rows)
	offset, scale = slices.Repeat(offset, together), slices.Repeat(scale, together)
	y := p.Out(n.Outputs[0])
	p.emit(step{chunks: ceilDiv(r.rows, together), grain: grainFor(float64(len(scale)) / 4), body: func(st *state, _, lo, hi int) {
		dst, src := of[float32](st, y), of[float32](st, r.src)
		end := min(hi*together, r.rows) * r.columns
		for i := lo * len(scale); i < end; i += len(scale) {
			n := min(len(scale), end-i)
			r.kernels.Standardize(dst[i:][:n], src[i:][:n], offset, scale)
		}
	}}, []place.Memory{r.src}, []place.Memory{y})
}

func planBinarizer(p *planner, n *graph.Node) error {
	r, threshold := newNumberRows(p, n.Inputs[0], 0), float64(n.Float("threshold", 0))
	return mapped(p, n, r, float64(r.columns), func(row []float64) {
		for i, x := range row {
			above := 0 // not the number: data would mislead a branch
			if x > threshold {
				above = 1
			}
			row[i] = float64(above)
		}
	})
}

// anything is for operators whose attributes are looked at when the number of columns is known.
func anything(*graph.Node) (struct{}, *property.Reason) { return struct{}{}, nil }

// imputed refuses Imputer on types that have no values to put in.
func imputed(n *graph.Node) (struct{}, *property.Reason) {
	name := "imputed_value_floats"
	if n.Inputs[0].Type.DType.IsInt() {
		name = "imputed_value_int64s"
	}
	if n.Attrs.Lookup(name) == nil || n.Inputs[0].Type.DType == tensor.Int32 {
		return struct{}{}, property.Because(property.Attribute, "%s is missing", name)
	}
	return struct{}{}, nil
}

func planImputer(p *planner, n *graph.Node) error {
	r := newNumberRows(p, n.Inputs[0], 0)
	if r.from == tensor.Int64 {
		return imputeIntegers(p, n, r)
	}
	fresh, err := perColumn(n, "imputed_value_floats", r.columns, 0)
	if err != nil {
		return err
	}
	if x, y := n.Inputs[0].Type.DType, n.Outputs[0].Type.DType; x == tensor.Float32 && y == x {
		imputeFloats(p, n, r, fresh)
		return nil
	}
	old := float64(n.Float("replaced_value_float", 0))
	return mapped(p, n, r, float64(r.columns), func(row []float64) {
		for i, x := range row {
			if x == old || x != x && old != old {
				row[i] = fresh[i]
			}
		}
	})
}

// imputeFloats emits an Imputer of float32, which may be a part of a concatenation.
func imputeFloats(p *planner, n *graph.Node, r *numberRows, list []float64) {
	if len(list) == 0 {
		return
	}
	old, fresh := n.Float("replaced_value_float", 0), make([]uint32, 0, max(imputedTogether, r.columns))
	for len(fresh) == 0 || len(fresh)+r.columns <= imputedTogether { // as often as rows are looked at together
		for _, x := range list {
			fresh = append(fresh, math.Float32bits(float32(x)))
		}
	}
	y, set := p.Out(n.Outputs[0]), p.target.Set
	to, _ := y.Runs(4 * r.columns)
	p.emit(step{chunks: r.rows, grain: grainFor(float64(r.columns)), body: func(st *state, _, lo, hi int) {
		dst, src, bits := of[uint32](st, y), of[float32](st, r.src), of[uint32](st, r.src)
		for lo < hi {
			at, n := to.At(lo, hi-lo)
			rows := 1
			if to.Near == 4*r.columns {
				rows = len(fresh) / r.columns
			}
			for i := 0; i < n; i += rows {
				size, first := min(rows, n-i)*r.columns, (lo+i)*r.columns
				impute(set, dst[(at+i*to.Near)/4:][:size], bits[first:], src[first:], fresh, old)
			}
			lo += n
		}
	}}, []place.Memory{r.src}, []place.Memory{y})
}

// imputedTogether is about how many numbers impute looks at together.
const imputedTogether = 256

// impute sets dst to the bits of src, or to those of fresh where src is old.
func impute(set isa.Set, dst, bits []uint32, src []float32, fresh []uint32, old float32) {
	var room [imputedTogether]bool
	for at := 0; at < len(dst); at += len(room) {
		d := dst[at:min(at+len(room), len(dst))]
		same, x, keep, put := room[:len(d)], src[at:][:len(d)], bits[at:][:len(d)], fresh[at:][:len(d)]
		if old != old { // NaN differs from itself
			element.Compare(set, element.Equal, same, x, x)
			element.Choose(set, d, asBytes(same), keep, put)
		} else {
			element.Compare(set, element.Equal, same, x, []float32{old})
			element.Choose(set, d, asBytes(same), put, keep)
		}
	}
}

// imputeStrided is the Strided of Imputer: of results of float32.
func imputeStrided(p *planner, n *graph.Node, v *graph.Value, m place.Memory) bool {
	return v == n.Outputs[0] && v.Type.DType == tensor.Float32 && n.Inputs[0].Type.DType == tensor.Float32 && operators.WholeDims(p, n, v, m)
}

// imputeIntegers keeps all 64 bits.
func imputeIntegers(p *planner, n *graph.Node, r *numberRows) error {
	fresh, _ := n.Ints("imputed_value_int64s")
	if len(fresh) != 1 && len(fresh) != r.columns || len(fresh) == 0 {
		return property.Because(property.Attribute, "imputed_value_int64s has %d numbers for %d columns", len(fresh), r.columns)
	}
	imputeWords(p, n, r, fresh, n.Int("replaced_value_int64", 0))
	return nil
}

// imputeWords emits an Imputer of int64, by some rows at a time.
func imputeWords(p *planner, n *graph.Node, r *numberRows, list []int64, old int64) {
	if r.columns == 0 {
		return
	}
	fresh := make([]uint64, 0, max(imputedTogether, r.columns))
	for len(fresh) == 0 || len(fresh)+r.columns <= imputedTogether {
		for i := range r.columns {
			fresh = append(fresh, uint64(list[i%len(list)]))
		}
	}
	y, set, total := p.Out(n.Outputs[0]), p.target.Set, r.rows*r.columns
	p.emit(step{chunks: ceilDiv(total, len(fresh)), grain: grainFor(float64(len(fresh))), body: func(st *state, _, lo, hi int) {
		dst, src, bits := of[uint64](st, y), of[int64](st, r.src), of[uint64](st, r.src)
		var room [imputedTogether]bool
		for i := lo; i < hi; i++ {
			first := i * len(fresh)
			for at, end := first, min(first+len(fresh), total); at < end; at += len(room) {
				n := min(len(room), end-at)
				element.Compare(set, element.Equal, room[:n], src[at:][:n], []int64{old})
				element.Choose(set, dst[at:][:n], asBytes(room[:n]), fresh[at-first:][:n], bits[at:][:n])
			}
		}
	}}, []place.Memory{r.src}, []place.Memory{y})
}

func init() {
	ml := func(name string, op operator) { table.Register(operators.Of("ai.onnx.ml", name), op) }
	ml("Scaler", operator{Signatures: rowSignatures(anything), Plan: planScaler})
	ml("Normalizer", operator{Signatures: rowSignatures(normalizerOf), Plan: planNormalizer})
	ml("Binarizer", operator{Signatures: rowSignatures(anything), Plan: planBinarizer})
	ml("Imputer", operator{Signatures: rowSignatures(imputed), Plan: planImputer, Strided: imputeStrided})
	ml("LinearRegressor", operator{Signatures: rowSignatures(newLinear), Plan: planLinearRegressor})
	ml("LinearClassifier", operator{Signatures: rowSignatures(newLinear), Plan: planLinearClassifier})
	ml("SVMRegressor", operator{Signatures: rowSignatures(newMachine), Plan: planSVMRegressor})
	ml("SVMClassifier", operator{Signatures: rowSignatures(newMachine), Plan: planSVMClassifier})
	ml("ArrayFeatureExtractor", operator{Signatures: extractSignatures, Plan: planArrayFeatureExtractor})
	ml("LabelEncoder", operator{Signatures: labelSignatures, Plan: planLabelEncoder})
	ml("OneHotEncoder", operator{Signatures: oneHotSignatures, Plan: planOneHotEncoder, Strided: oneHotStrided})
}
