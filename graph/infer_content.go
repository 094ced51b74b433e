package graph

import (
	"slices"

	"github.com/carve-dev/carve/graph/tensor"
)

// followed reports whether contents of that element type are followed as dims.
func followed(dt tensor.DType) bool { return dt == tensor.Int64 || dt == tensor.Int32 }

// elements returns the elements of an integer value of rank 0 or 1, unknown ones as such; ok is false where their number is not known.
func elements(v *Value) (dims []Dim, ok bool) {
	if v == nil {
		return nil, false
	}
	if v.Dims != nil {
		return v.Dims, true
	}
	if v.Type.Kind != KindTensor || !followed(v.Type.DType) || v.Type.Shape == nil || len(v.Type.Shape) > 1 {
		return nil, false
	}
	n, ok := numElements(v.Type.Shape)
	k, isConst := n.Const()
	if !ok || !isConst || k < 0 || k > maxDimsContent {
		return nil, false
	}
	return slices.Repeat([]Dim{unknown}, int(k)), true
}

// zipDims applies f to the known elements of inputs i and j, of which one may be a single element, and sets the contents
// of output 0 that f knows.
func (c *Inference) zipDims(i, j int, f func(a, b Dim) (Dim, bool)) {
	a, ok := elements(c.Node.Input(i))
	b, ok2 := elements(c.Node.Input(j))
	if !ok || !ok2 || !c.vectorOutput() {
		return
	}
	n := len(a)
	switch {
	case len(a) == len(b):
	case len(b) == 1:
	case len(a) == 1:
		n = len(b)
	default:
		return
	}
	out := make([]Dim, n)
	for k := range out {
		x, y := a[min(k, len(a)-1)], b[min(k, len(b)-1)]
		out[k] = unknown
		if x.Equal(unknown) || y.Equal(unknown) {
			continue
		}
		if d, ok := f(x, y); ok {
			out[k] = d
		}
	}
	c.SetDims(0, out)
}

// vectorOutput reports whether output 0 is of a type whose contents are followed, with rank 0 or 1.
func (c *Inference) vectorOutput() bool {
	v := c.Node.Output(0)
	return v != nil && v.Type.Kind == KindTensor && followed(v.Type.DType) && v.Type.Shape != nil && len(v.Type.Shape) <= 1
}

// mapDims applies f to the known elements of input 0.
func (c *Inference) mapDims(f func(Dim) (Dim, bool)) {
	a, ok := c.Dims(0)
	if !ok || !c.vectorOutput() {
		return
	}
	out := make([]Dim, len(a))
	for k, d := range a {
		if out[k], ok = f(d); !ok {
			out[k] = unknown
		}
	}
	c.SetDims(0, out)
}

// dimArith returns what an elementwise operator does to integers; nil for operators whose contents are not followed.
func (c *Inference) dimArith() func(a, b Dim) (Dim, bool) {
	switch c.Node.Op.Name {
	case "Add", "Sum":
		return func(a, b Dim) (Dim, bool) { return a.Add(b), true }
	case "Sub":
		return func(a, b Dim) (Dim, bool) { return a.Sub(b), true }
	case "Mul":
		return mulDims
	case "Div":
		return divDims
	case "Mod":
		if c.Node.Int("fmod", 0) != 0 {
			return func(a, b Dim) (Dim, bool) {
				if b.Is(0) || !a.NonNegative() || !b.NonNegative() {
					return Dim{}, false
				}
				return a.Mod(b), true
			}
		}
		return func(a, b Dim) (Dim, bool) {
			if b.Is(0) {
				return Dim{}, false
			}
			return a.Mod(b), true
		}
	case "Min":
		return func(a, b Dim) (Dim, bool) { return a.Min(b), true }
	case "Max":
		return maxDims
	}
	return nil
}

// mulDims returns a·b; ok is false where expressions grow too large or numbers overflow.
func mulDims(a, b Dim) (Dim, bool) {
	an, ac := a.Const()
	bn, bc := b.Const()
	if ac && bc {
		p, ok := mulChecked(an, bn)
		return Dim{c: p}, ok
	}
	if len(a.terms())*len(b.terms()) > maxTerms {
		return Dim{}, false
	}
	p := a.Mul(b)
	return p, !p.TooComplex()
}

// divDims returns a/b, truncated as ONNX does; ok is false where the sign of b is not known, or that of a where b is no number above 0.
func divDims(a, b Dim) (Dim, bool) {
	an, ac := a.Const()
	bn, bc := b.Const()
	switch {
	case bc && bn == 0:
		return Dim{}, false
	case ac && bc:
		return Dim{c: an / bn}, true
	case a.NonNegative() && b.NonNegative():
		return quotient(a, b), true
	}
	if n, ok := a.least(); ok && bc && n > -bn { // what is below 0 is truncated to 0
		a, _ = maxDims(a, D(0))
		return quotient(a, b), true
	}
	if bc && bn > 0 { // what is above 0, less what is below
		above, okAbove := maxDims(a, D(0))
		below, okBelow := maxDims(a.Scale(-1), D(0))
		if okAbove && okBelow {
			q := quotient(above, b).Sub(quotient(below, b))
			return q, !q.TooComplex()
		}
	}
	return Dim{}, false
}

// quotient returns ⌊a/b⌋ and cancels what both have in common: products of symbols, and the numbers before them.
func quotient(a, b Dim) Dim {
	if len(a.terms()) == 1 && len(b.terms()) == 1 && a.c == 0 && b.c == 0 {
		x, y := a.e.terms[0], b.e.terms[0]
		if rest, ok := removeAtoms(x.atoms, y.atoms); ok && y.coef > 0 {
			q := D(1)
			for _, at := range rest {
				q = q.Mul(fromAtom(at))
			}
			g := gcd(x.coef, y.coef)
			return q.Scale(x.coef / g).FloorDiv(Dim{c: y.coef / g})
		}
	}
	if q, ok := exactQuotient(a, b); ok {
		return q
	}
	if k, ok := b.Const(); ok && k > 0 {
		g := gcd(k, a.c)
		for _, t := range a.terms() {
			g = gcd(g, t.coef)
		}
		return a.FloorDiv(Dim{c: g}).FloorDiv(Dim{c: k / g})
	}
	return a.FloorDiv(b)
}

// exactQuotient divides every term of a by the single term b, as in (2·N·S + N)/N.
func exactQuotient(a, b Dim) (Dim, bool) {
	if len(b.terms()) != 1 || b.c != 0 || a.c != 0 || a.e == nil {
		return Dim{}, false
	}
	y := b.e.terms[0]
	var parts []Dim
	for _, x := range a.e.terms {
		rest, ok := removeAtoms(x.atoms, y.atoms)
		if !ok || x.coef%y.coef != 0 {
			return Dim{}, false
		}
		q := Dim{c: x.coef / y.coef}
		for _, at := range rest {
			q = q.Mul(fromAtom(at))
		}
		parts = append(parts, q)
	}
	return sumDims(parts), true
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	if a < 0 {
		return -a
	}
	return max(a, 1)
}

// maxDims returns the larger of two dims, without an expression where the sign of one settles it.
func maxDims(a, b Dim) (Dim, bool) {
	if sign, ok := compareDims(a, b); ok {
		if sign >= 0 {
			return a, true
		}
		return b, true
	}
	if b.Is(0) && a.NonNegative() {
		return a, true
	}
	if a.Is(0) && b.NonNegative() {
		return b, true
	}
	return a.Max(b), true
}

// compareDims returns the sign of a-b where it is the same for all values that symbols can have.
func compareDims(a, b Dim) (sign int, ok bool) {
	d := a.Sub(b)
	if n, ok := d.Const(); ok {
		switch {
		case n < 0:
			return -1, true
		case n > 0:
			return 1, true
		}
		return 0, true
	}
	if n, ok := d.least(); ok && n > 0 {
		return 1, true
	}
	if n, ok := d.Scale(-1).least(); ok && n > 0 {
		return -1, true
	}
	return 0, false
}

// followDepth bounds how many producers are looked through.
const followDepth = 12

// truth is an element of a Bool value.
type truth uint8

const (
	perhaps truth = iota // it is not known
	no
	yes
)

func truthOf(b bool) truth {
	if b {
		return yes
	}
	return no
}

// bools returns the elements of a Bool value of rank 0 or 1, looking through the comparisons that make it; ok is false where nothing is
// known of it.
func bools(v *Value, depth int) (out []truth, ok bool) {
	if v == nil || depth == 0 {
		return nil, false
	}
	if t := constOf(v); t != nil {
		if t.DType != tensor.Bool || len(t.Shape) > 1 || t.Len() > maxDimsContent {
			return nil, false
		}
		vals := make([]int64, t.Len())
		if tensor.DecodeInts(vals, t) != nil {
			return nil, false
		}
		for _, x := range vals {
			out = append(out, truthOf(x != 0))
		}
		return out, true
	}
	n := v.Producer
	if n == nil || n.Op.Domain != "" {
		return nil, false
	}
	switch n.Op.Name {
	case "Identity":
		return bools(n.Input(0), depth-1)
	case "Not":
		out, ok = bools(n.Input(0), depth-1)
		for i, x := range out {
			if x != perhaps {
				out[i] = no + yes - x
			}
		}
		return out, ok
	case "And", "Or":
		a, ok := bools(n.Input(0), depth-1)
		b, ok2 := bools(n.Input(1), depth-1)
		if !ok || !ok2 {
			return nil, false
		}
		decides := truthOf(n.Op.Name == "Or") // whatever the other one is
		return zip(a, b, func(x, y truth) (truth, bool) {
			switch {
			case x == decides || y == decides:
				return decides, true
			case x == perhaps || y == perhaps:
				return perhaps, true
			}
			return x, true
		})
	case "Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual":
		a, ok := elements(n.Input(0))
		b, ok2 := elements(n.Input(1))
		if !ok || !ok2 {
			return nil, false
		}
		return zip(a, b, func(x, y Dim) (truth, bool) { return compared(n.Op.Name, x, y), true })
	}
	return nil, false
}

// compared returns what a comparison says of two integers.
func compared(op string, x, y Dim) truth {
	sign, ok := compareDims(x, y)
	if !ok || x.Equal(unknown) || y.Equal(unknown) {
		return perhaps
	}
	switch op {
	case "Equal":
		return truthOf(sign == 0)
	case "Less":
		return truthOf(sign < 0)
	case "LessOrEqual":
		return truthOf(sign <= 0)
	case "Greater":
		return truthOf(sign > 0)
	}
	return truthOf(sign >= 0)
}

// zip applies f to lists of equal length, or of which one has a single element; ok is false where f does not know.
func zip[A, B any](a, b []A, f func(x, y A) (B, bool)) (out []B, ok bool) {
	n := max(len(a), len(b))
	if len(a) == 0 || len(b) == 0 || len(a) != n && len(a) != 1 || len(b) != n && len(b) != 1 {
		return nil, false
	}
	for i := range n {
		v, ok := f(a[min(i, len(a)-1)], b[min(i, len(b)-1)])
		if !ok {
			return nil, false
		}
		out = append(out, v)
	}
	return out, true
}

// numElements returns the product of dims; ok is false where the rank is unknown or the product too complex.
func numElements(s Shape) (n Dim, ok bool) {
	if s == nil {
		return Dim{}, false
	}
	n = D(1)
	for _, d := range s {
		if n, ok = mulDims(n, d); !ok {
			return Dim{}, false
		}
	}
	return n, true
}
