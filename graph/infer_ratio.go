package graph

import (
	"math"
	"slices"

	"github.com/carve-dev/carve/graph/tensor"
)

// ratio is num/den, an element of a float tensor that comes from dims.
type ratio struct {
	num Dim
	den int64 // above 0
}

// ratios returns the known elements of a float value of rank 0 or 1 that is computed from integer contents, as exporters
// do for sizes: Cast, Mul, Div, Add, Sub, Floor, Ceil with constants that floats hold exactly.
func ratios(v *Value, depth int) (out []ratio, ok bool) {
	if v == nil || depth == 0 {
		return nil, false
	}
	if v.Dims != nil {
		for _, d := range v.Dims {
			out = append(out, ratio{d, 1})
		}
		return out, true
	}
	if t := constOf(v); t != nil {
		return constRatios(t)
	}
	n := v.Producer
	if n == nil || n.Op.Domain != "" {
		return nil, false
	}
	switch n.Op.Name {
	case "Identity", "Cast", "Squeeze", "Unsqueeze", "Reshape":
		if n.Op.Name == "Cast" && !tensor.DType(n.Int("to", 0)&255).IsFloat() {
			return nil, false
		}
		in := n.Input(0)
		if v.Type.Shape == nil || len(v.Type.Shape) > 1 {
			return nil, false
		}
		return ratios(in, depth-1)
	case "Floor", "Ceil":
		in, ok := ratios(n.Input(0), depth-1)
		for _, r := range in {
			if r.num.Equal(unknown) {
				out = append(out, r)
			} else if n.Op.Name == "Floor" {
				out = append(out, ratio{r.num.FloorDiv(Dim{c: r.den}), 1})
			} else {
				out = append(out, ratio{r.num.CeilDiv(Dim{c: r.den}), 1})
			}
		}
		return out, ok
	case "Concat":
		return joinedRatios(n, depth)
	case "Gather":
		data, ok := ratios(n.Input(0), depth-1)
		i, ok2 := constIndex(n.Input(1), len(data))
		if !ok || !ok2 || n.Input(0).Type.Shape == nil || len(n.Input(0).Type.Shape) != 1 {
			return nil, false
		}
		return data[i : i+1], true
	case "ReduceMax", "ReduceMin", "ReduceSum":
		in, ok := ratios(n.Input(0), depth-1)
		if !ok || len(in) == 0 || n.Input(0).Type.Shape == nil || len(n.Input(0).Type.Shape) != 1 {
			return nil, false
		}
		acc := in[0]
		for _, r := range in[1:] {
			if acc, ok = arithRatios(n.Op.Name[len("Reduce"):], acc, r); !ok {
				return nil, false
			}
		}
		return []ratio{acc}, true
	case "Add", "Sub", "Mul", "Div", "Min", "Max":
		if len(n.Inputs) != 2 {
			return nil, false
		}
		a, ok := ratios(n.Input(0), depth-1)
		b, ok2 := ratios(n.Input(1), depth-1)
		if !ok || !ok2 {
			return nil, false
		}
		return zip(a, b, func(x, y ratio) (ratio, bool) { return arithRatios(n.Op.Name, x, y) })
	}
	return nil, false
}

// joinedRatios returns the elements of a Concat, of which some may be unknown.
func joinedRatios(n *Node, depth int) (out []ratio, ok bool) {
	for _, in := range n.Inputs {
		part, ok := ratios(in, depth-1)
		if !ok {
			n, _ := numElements(in.Type.Shape)
			k, isConst := n.Const()
			if in.Type.Shape == nil || !isConst || k < 0 || k > maxDimsContent {
				return nil, false
			}
			part = slices.Repeat([]ratio{{unknown, 1}}, int(k))
		}
		if out = append(out, part...); len(out) > maxDimsContent {
			return nil, false
		}
	}
	return out, true
}

// constIndex returns the number that an input of one element holds, counted from the end of n elements where negative.
func constIndex(v *Value, n int) (int, bool) {
	if v == nil || len(v.Dims) != 1 {
		return 0, false
	}
	i, ok := v.Dims[0].Const()
	if i < 0 {
		i += int64(n)
	}
	return int(i), ok && i >= 0 && i < int64(n)
}

func constRatios(t *tensor.Tensor) (out []ratio, ok bool) {
	if len(t.Shape) > 1 || t.Len() > maxDimsContent || !t.DType.IsFloat() {
		return nil, false
	}
	vals := make([]float64, t.Len())
	if tensor.Decode(vals, t) != nil {
		return nil, false
	}
	for _, f := range vals {
		r, ok := ratioOf(f)
		if !ok {
			return nil, false
		}
		out = append(out, r)
	}
	return out, true
}

// ratioOf returns f as a fraction with a denominator of at most 4096.
func ratioOf(f float64) (ratio, bool) {
	if math.Abs(f) > 1<<24 || f != f {
		return ratio{}, false
	}
	for den := int64(1); den <= 4096; den *= 2 {
		if p := f * float64(den); p == math.Trunc(p) {
			return ratio{Dim{c: int64(p)}, den}, true
		}
	}
	return ratio{}, false
}

func arithRatios(op string, x, y ratio) (ratio, bool) {
	if x.num.Equal(unknown) || y.num.Equal(unknown) {
		return ratio{unknown, 1}, true
	}
	if x.den > 1<<20 || y.den > 1<<20 {
		return ratio{}, false
	}
	num, ok := Dim{}, true
	den := x.den * y.den
	switch op {
	case "Add", "Sum":
		num = x.num.Scale(y.den).Add(y.num.Scale(x.den))
	case "Max":
		num, ok = maxDims(x.num.Scale(y.den), y.num.Scale(x.den))
	case "Min":
		num = minDims(x.num.Scale(y.den), y.num.Scale(x.den))
	case "Sub":
		num = x.num.Scale(y.den).Sub(y.num.Scale(x.den))
	case "Mul":
		num, ok = mulDims(x.num, y.num)
	default:
		k, isConst := y.num.Const()
		if !isConst || k <= 0 || k > 1<<20 {
			return ratio{}, false
		}
		num, den = x.num.Scale(y.den), x.den*k
	}
	if !ok || num.TooComplex() {
		return ratio{}, false
	}
	// Shorten by what divides the denominator and every coefficient.
	g := gcd(den, num.c)
	for _, t := range num.terms() {
		g = gcd(g, t.coef)
	}
	if g > 1 {
		num, den = num.FloorDiv(Dim{c: g}), den/g
	}
	return ratio{num, den}, true
}

// castToDims sets the contents of an integer output from float contents that were computed from dims.
func (c *Inference) castToDims() {
	if !c.vectorOutput() {
		return
	}
	in, ok := ratios(c.Node.Input(0), followDepth)
	if !ok || len(in) > maxDimsContent {
		return
	}
	out := make([]Dim, len(in))
	for i, r := range in {
		if out[i] = unknown; !r.num.Equal(unknown) && (r.den == 1 || r.num.NonNegative()) { // Cast truncates
			out[i] = r.num.FloorDiv(Dim{c: r.den})
		}
	}
	c.SetDims(0, out)
}
