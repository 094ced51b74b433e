package graph

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// Dim is one dim of a shape: a number, or an expression over symbols such as "batch" or "4*seq+1". The zero Dim is the
// number 0. A Dim is immutable and shareable. Expressions are kept in a normal form (a sum of products with integer
// coefficients, terms in a fixed order), so that equal polynomials are equal Dims.
type Dim struct {
	c int64 // the number, or the constant part of the expression
	e *expr // nil for a number
}

type expr struct {
	terms []term // sorted by key, no zero coefficient
	key   string
}

type term struct {
	coef  int64
	atoms []atom // sorted by key, repeated for powers
	key   string
}

// atom is a symbol or a function of two dims.
type atom struct {
	kind atomKind
	name string // of a symbol
	a, b Dim
	key  string
}

type atomKind uint8

const (
	atomSymbol atomKind = iota
	atomFloorDiv
	atomMod
	atomMin
	atomMax
	atomBroadcast
	atomPosition
)

var atomNames = [...]string{atomFloorDiv: "floordiv", atomMod: "mod", atomMin: "min", atomMax: "max", atomBroadcast: "bcast", atomPosition: "position"}

// D returns the number n as a Dim.
func D(n int) Dim { return Dim{c: int64(n)} }

// Sym returns the symbol of that name. Names that begin with "?" are unbacked: no input's shape binds them, only the
// data of a run.
func Sym(name string) Dim { return fromAtom(atom{kind: atomSymbol, name: name, key: name}) }

// unknown stands for an element of which an inference knows nothing, until SetDims gives it a symbol of its own. Names that begin as
// this one are of integers that may be negative, unlike all other symbols.
var unknown = Sym(unknownPrefix)

const unknownPrefix = "?i"

// asDim returns the dim that an unknown integer is where a shape has it, which every kernel refuses below 0: the symbol of its number.
func (d Dim) asDim() (_ Dim, ok bool) {
	if at, isAtom := d.atom(); isAtom && at.kind == atomMax && at.a.Is(0) { // as the length of a Range
		d = at.b
	}
	name, _ := d.Symbol()
	number, ok := strings.CutPrefix(name, unknownPrefix)
	if !ok || number == "" {
		return Dim{}, false
	}
	return Sym("?" + number), true
}

// hasUnknown reports whether d speaks of such integers.
func (d Dim) hasUnknown() bool {
	return d.e != nil && strings.Contains(d.e.key, unknownPrefix)
}

func fromAtom(a atom) Dim {
	return Dim{e: newExpr([]term{{coef: 1, atoms: []atom{a}, key: a.key}})}
}

func newExpr(terms []term) *expr {
	e := &expr{terms: terms}
	var sb strings.Builder
	for i, t := range terms {
		if i > 0 && t.coef > 0 {
			sb.WriteByte('+')
		}
		switch t.coef {
		case 1:
		case -1:
			sb.WriteByte('-')
		default:
			sb.WriteString(strconv.FormatInt(t.coef, 10))
			sb.WriteByte('*')
		}
		sb.WriteString(t.key)
	}
	e.key = sb.String()
	return e
}

// Const returns the number that d is; ok is false for an expression.
func (d Dim) Const() (n int64, ok bool) { return d.c, d.e == nil }

// Is reports whether d is the number n.
func (d Dim) Is(n int64) bool { return d.e == nil && d.c == n }

// Equal reports whether d and o are the same number or the same expression in normal form. Two dims that differ here may
// still be equal for some values of their symbols.
func (d Dim) Equal(o Dim) bool {
	if d.c != o.c || (d.e == nil) != (o.e == nil) {
		return false
	}
	return d.e == nil || d.e == o.e || d.e.key == o.e.key
}

// String returns the number, or the expression, as ParseDim reads it where symbols are identifiers. Of the names of others it
// quotes those that a line would not hold.
func (d Dim) String() string {
	switch {
	case d.e == nil:
		return strconv.FormatInt(d.c, 10)
	case plain(d.e.key) != d.e.key:
		return string(appendDim(nil, d))
	case d.c > 0:
		return d.e.key + "+" + strconv.FormatInt(d.c, 10)
	case d.c < 0:
		return d.e.key + strconv.FormatInt(d.c, 10)
	}
	return d.e.key
}

// maxTerms bounds the size of an expression; beyond it arithmetic gives up and the caller takes a fresh symbol.
const maxTerms = 32

func (d Dim) terms() []term {
	if d.e == nil {
		return nil
	}
	return d.e.terms
}

// Add returns d + o.
func (d Dim) Add(o Dim) Dim {
	c := d.c + o.c
	if d.e == nil || o.e == nil {
		e := d.e
		if e == nil {
			e = o.e
		}
		return Dim{c: c, e: e}
	}
	a, b := d.e.terms, o.e.terms
	var out []term
	for len(a) > 0 || len(b) > 0 {
		switch {
		case len(b) == 0 || (len(a) > 0 && a[0].key < b[0].key):
			out, a = append(out, a[0]), a[1:]
		case len(a) == 0 || b[0].key < a[0].key:
			out, b = append(out, b[0]), b[1:]
		default:
			t := a[0]
			if t.coef += b[0].coef; t.coef != 0 {
				out = append(out, t)
			}
			a, b = a[1:], b[1:]
		}
	}
	if len(out) == 0 {
		return Dim{c: c}
	}
	return Dim{c: c, e: newExpr(out)}
}

// sumDims returns the sum of dims in O(t·log t) of their terms t, which adding one after the other does not.
func sumDims(dims []Dim) Dim {
	var sum Dim
	var terms []term
	for _, d := range dims {
		sum.c += d.c
		terms = append(terms, d.terms()...)
	}
	slices.SortStableFunc(terms, func(x, y term) int { return strings.Compare(x.key, y.key) })
	out := terms[:0]
	for i := 0; i < len(terms); {
		t := terms[i]
		for i++; i < len(terms) && terms[i].key == t.key; i++ {
			t.coef += terms[i].coef
		}
		if t.coef != 0 {
			out = append(out, t)
		}
	}
	if len(out) > 0 {
		sum.e = newExpr(out)
	}
	return sum
}

// Scale returns k × d.
func (d Dim) Scale(k int64) Dim {
	if k == 0 {
		return Dim{}
	}
	if d.e == nil || k == 1 {
		return Dim{c: d.c * k, e: d.e}
	}
	out := slices.Clone(d.e.terms)
	for i := range out {
		out[i].coef *= k
	}
	return Dim{c: d.c * k, e: newExpr(out)}
}

// Sub returns d - o.
func (d Dim) Sub(o Dim) Dim { return d.Add(o.Scale(-1)) }

// Mul returns d × o.
func (d Dim) Mul(o Dim) Dim {
	if n, ok := d.Const(); ok {
		return o.Scale(n)
	}
	if n, ok := o.Const(); ok {
		return d.Scale(n)
	}
	sum := d.Scale(o.c).Add(Dim{e: o.e}.Scale(d.c))
	for _, x := range d.e.terms {
		for _, y := range o.e.terms {
			atoms := append(slices.Clone(x.atoms), y.atoms...)
			sort.SliceStable(atoms, func(i, j int) bool { return atoms[i].key < atoms[j].key })
			keys := make([]string, len(atoms))
			for i, a := range atoms {
				keys[i] = a.key
			}
			t := term{coef: x.coef * y.coef, atoms: atoms, key: strings.Join(keys, "*")}
			sum = sum.Add(Dim{e: newExpr([]term{t})})
		}
	}
	return sum
}

// FloorDiv returns ⌊d / o⌋. Where every coefficient is divisible by the number o, the division is carried out.
// Dividing the number d by the number 0 returns 0; Eval reports other divisions by zero.
func (d Dim) FloorDiv(o Dim) Dim {
	if d.Equal(o) && d.e != nil {
		return D(1)
	}
	if k, ok := o.Const(); ok {
		if k == 0 {
			return fromFunc(atomFloorDiv, d, o)
		}
		if d.e == nil {
			return Dim{c: floorDiv(d.c, k)}
		}
		if k == 1 {
			return d
		}
		if k > 0 { // ⌊(k·e + c)/k⌋ = e + ⌊c/k⌋
			exact := true
			for _, t := range d.e.terms {
				exact = exact && t.coef%k == 0
			}
			if exact {
				out := slices.Clone(d.e.terms)
				for i := range out {
					out[i].coef /= k
				}
				return Dim{c: floorDiv(d.c, k), e: newExpr(out)}
			}
			if q, ok := d.nestedQuotient(k); ok {
				return q
			}
		}
		return fromFunc(atomFloorDiv, d, o)
	}
	if d.Is(0) {
		return Dim{}
	}
	// One product divided by one of its factors, as in (batch*seq)/seq.
	if d.c == 0 && o.c == 0 && len(d.terms()) == 1 && len(o.terms()) == 1 {
		x, y := d.e.terms[0], o.e.terms[0]
		if rest, ok := removeAtoms(x.atoms, y.atoms); ok && y.coef > 0 && x.coef%y.coef == 0 {
			q := D(int(x.coef / y.coef))
			for _, a := range rest {
				q = q.Mul(fromAtom(a))
			}
			return q
		}
	}
	return fromFunc(atomFloorDiv, d, o)
}

// nestedQuotient returns ⌊(⌊x/m⌋ + c)/k⌋ = ⌊(x + c·m)/(m·k)⌋, where d is a quotient by a number above 0 and a number c is added; ok is false
// for other expressions. k is above 0.
func (d Dim) nestedQuotient(k int64) (_ Dim, ok bool) {
	at, ok := Dim{e: d.e}.atom()
	if !ok || at.kind != atomFloorDiv {
		return Dim{}, false
	}
	m, ok := at.b.Const()
	if !ok || m <= 0 {
		return Dim{}, false
	}
	product, ok := mulChecked(m, k)
	shift, ok2 := mulChecked(m, d.c)
	sum, ok3 := addChecked(at.a.c, shift)
	if !ok || !ok2 || !ok3 {
		return Dim{}, false
	}
	return Dim{c: sum, e: at.a.e}.FloorDiv(Dim{c: product}), true
}

// removeAtoms returns the product xs without the factors ys; ok is false where one of them is missing.
func removeAtoms(xs, ys []atom) (rest []atom, ok bool) {
	rest = slices.Clone(xs)
	for _, y := range ys {
		i := slices.IndexFunc(rest, func(a atom) bool { return a.key == y.key })
		if i < 0 {
			return nil, false
		}
		rest = slices.Delete(rest, i, i+1)
	}
	return rest, true
}

// CeilDiv returns ⌈d / o⌉.
func (d Dim) CeilDiv(o Dim) Dim {
	return d.Scale(-1).FloorDiv(o).Scale(-1)
}

// Mod returns d - o·⌊d/o⌋.
func (d Dim) Mod(o Dim) Dim {
	q := d.FloorDiv(o)
	if len(q.terms()) == 1 && q.e.terms[0].atoms[0].kind == atomFloorDiv {
		return fromFunc(atomMod, d, o)
	}
	return d.Sub(o.Mul(q))
}

// Min returns the smaller of d and o.
func (d Dim) Min(o Dim) Dim { return d.extreme(o, atomMin) }

// Max returns the larger of d and o.
func (d Dim) Max(o Dim) Dim { return d.extreme(o, atomMax) }

func (d Dim) extreme(o Dim, kind atomKind) Dim {
	switch more := d.Sub(o); {
	case more.NonNegative():
		if kind == atomMin {
			return o
		}
		return d
	case more.Scale(-1).NonNegative():
		if kind == atomMin {
			return d
		}
		return o
	}
	if o.String() < d.String() {
		d, o = o, d
	}
	return fromFunc(kind, d, o)
}

// Broadcast returns the dim that two operands' dims d and o broadcast to: the other where one is 1, either where they are
// equal or one is the other with what is below 0 as 0, which no dim is, otherwise an expression that Eval checks. ok is false where both are numbers that do not broadcast.
func (d Dim) Broadcast(o Dim) (_ Dim, ok bool) {
	switch {
	case d.Equal(o) || o.Is(1):
		return d, true
	case d.Is(1):
		return o, true
	case d.Max(Dim{}).Equal(o):
		return d, true
	case o.Max(Dim{}).Equal(d):
		return o, true
	}
	dn, dc := d.Const()
	on, oc := o.Const()
	switch {
	case dc && oc:
		return Dim{}, false
	case dc && dn != 1: // a symbol against a number above 1: it is that number or 1, and the result is the number
		return d, true
	case oc && on != 1:
		return o, true
	}
	if o.String() < d.String() {
		d, o = o, d
	}
	return fromFunc(atomBroadcast, d, o), true
}

// Position returns where in [0, o] the position d of a slice of o elements lies: a negative one counts from the end, and both ends bound it.
// o is not negative.
func (d Dim) Position(o Dim) Dim {
	p, pc := d.Const()
	n, nc := o.Const()
	switch {
	case pc && nc:
		return Dim{c: slicePosition(p, n)}
	case d.Is(0) || d.Add(o).Is(0): // -n of n elements is the first of them, where there are any
		return Dim{}
	case d.NonNegative():
		return minDims(d, o)
	}
	return fromFunc(atomPosition, d, o)
}

func slicePosition(p, n int64) int64 {
	if p < 0 {
		p = max(p+n, 0)
	}
	return min(p, n)
}

func fromFunc(kind atomKind, a, b Dim) Dim {
	return fromAtom(atom{kind: kind, a: a, b: b, key: atomNames[kind] + "(" + a.String() + "," + b.String() + ")"})
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b != 0 && (a < 0) != (b < 0) {
		q--
	}
	return q
}

// Symbols adds the names of d's symbols to set.
func (d Dim) Symbols(set map[string]bool) {
	for _, t := range d.terms() {
		for _, a := range t.atoms {
			if a.kind == atomSymbol {
				set[a.name] = true
			} else {
				a.a.Symbols(set)
				a.b.Symbols(set)
			}
		}
	}
}

// Symbol returns the name of the symbol that d is; ok is false for numbers and other expressions.
func (d Dim) Symbol() (name string, ok bool) {
	if d.c == 0 && len(d.terms()) == 1 && d.e.terms[0].coef == 1 && len(d.e.terms[0].atoms) == 1 && d.e.terms[0].atoms[0].kind == atomSymbol {
		return d.e.terms[0].atoms[0].name, true
	}
	return "", false
}

// Backed reports whether no symbol of d is unbacked, so that the shapes of a graph's inputs determine d.
func (d Dim) Backed() bool {
	for _, t := range d.terms() {
		for _, a := range t.atoms {
			if a.kind == atomSymbol {
				if strings.HasPrefix(a.name, "?") {
					return false
				}
			} else if !a.a.Backed() || !a.b.Backed() {
				return false
			}
		}
	}
	return true
}

// broadcastsLate reports whether d speaks of what two dims are broadcast to of which one depends on data.
func (d Dim) broadcastsLate() bool {
	for _, t := range d.terms() {
		for _, a := range t.atoms {
			switch {
			case a.kind == atomSymbol:
			case a.kind == atomBroadcast && (!a.a.Backed() || !a.b.Backed()), a.a.broadcastsLate(), a.b.broadcastsLate():
				return true
			}
		}
	}
	return false
}

// TooComplex reports whether d has outgrown what is worth carrying.
func (d Dim) TooComplex() bool {
	return len(d.terms()) > maxTerms || (d.e != nil && len(d.e.key) > 512)
}

// Bindings gives symbols their values.
type Bindings map[string]int64

// AssumedDim stands for a symbol without a value wherever sizes or times are estimated, but for those that AssumedSize knows
// better, and for dims that depend on data.
const AssumedDim = 32

// AssumedSize returns what stands for a symbol without a value wherever sizes or times are estimated: 1 for one whose name says
// that it is a batch, as most models are run, and AssumedDim for others.
func AssumedSize(symbol string) int64 {
	switch name := strings.ToLower(symbol); {
	case strings.HasPrefix(name, "batch"), name == "n", name == "b", name == "bs":
		return 1
	}
	return AssumedDim
}

// Assume gives the symbols of dims that b lacks their AssumedSize as value.
func (b Bindings) Assume(dims ...Dim) {
	for _, d := range dims {
		for _, t := range d.terms() {
			for _, a := range t.atoms {
				if a.kind != atomSymbol {
					b.Assume(a.a, a.b)
				} else if _, ok := b[a.name]; !ok {
					b[a.name] = AssumedSize(a.name)
				}
			}
		}
	}
}

// Errors of evaluating a Dim, for errors.Is.
var (
	ErrUnbound  = errors.New("dim symbol has no value")
	ErrDimValue = errors.New("dim has no valid value")
)

// Eval returns the value of d. The error wraps ErrUnbound where a symbol is missing from b and ErrDimValue for a division
// by zero, dims that do not broadcast, or an overflow.
func (d Dim) Eval(b Bindings) (int64, error) {
	if d.e == nil {
		return d.c, nil
	}
	return d.eval(b, false)
}

// Estimate is Eval with AssumedSize for the symbols that are missing from b.
func (d Dim) Estimate(b Bindings) (int64, error) {
	if d.e == nil {
		return d.c, nil
	}
	return d.eval(b, true)
}

func (d Dim) eval(b Bindings, assume bool) (int64, error) {
	sum := d.c
	for _, t := range d.terms() {
		p := t.coef
		for i := range t.atoms {
			v, err := t.atoms[i].eval(b, assume)
			if err != nil {
				return 0, err
			}
			var ok bool
			if p, ok = mulChecked(p, v); !ok {
				return 0, fmt.Errorf("%w: %v overflows", ErrDimValue, d)
			}
		}
		s := sum + p
		if (s > sum) != (p > 0) && p != 0 {
			return 0, fmt.Errorf("%w: %v overflows", ErrDimValue, d)
		}
		sum = s
	}
	return sum, nil
}

func mulChecked(a, b int64) (int64, bool) {
	ua, ub := uint64(max(a, -a)), uint64(max(b, -b))
	hi, lo := bits.Mul64(ua, ub)
	if hi != 0 || lo > 1<<62 {
		return 0, false
	}
	return a * b, true
}

// addChecked returns a+b; ok is false where it overflows.
func addChecked(a, b int64) (sum int64, ok bool) {
	sum = a + b
	return sum, (sum > a) == (b > 0) || b == 0
}

func (a *atom) eval(b Bindings, assume bool) (int64, error) {
	if a.kind == atomSymbol {
		v, ok := b[a.name]
		switch {
		case !ok && assume:
			return AssumedSize(a.name), nil
		case !ok:
			return 0, fmt.Errorf("%w: %s", ErrUnbound, a.name)
		}
		return v, nil
	}
	x, err := a.a.eval(b, assume)
	if err != nil {
		return 0, err
	}
	y, err := a.b.eval(b, assume)
	if err != nil {
		return 0, err
	}
	switch a.kind {
	case atomFloorDiv, atomMod:
		if y == 0 {
			return 0, fmt.Errorf("%w: %s divides by zero", ErrDimValue, a.key)
		}
		q := floorDiv(x, y)
		if a.kind == atomMod {
			return x - q*y, nil
		}
		return q, nil
	case atomMin:
		return min(x, y), nil
	case atomMax:
		return max(x, y), nil
	case atomPosition:
		return slicePosition(x, max(y, 0)), nil
	case atomSymbol, atomBroadcast: // symbols have been looked up above
	}
	switch {
	case x == 1 || x == y:
		return y, nil
	case y == 1:
		return x, nil
	}
	return 0, fmt.Errorf("%w: %d and %d do not broadcast (%s)", ErrDimValue, x, y, a.key)
}

// Subst returns d with symbols replaced by what sub gives for them.
func (d Dim) Subst(sub map[string]Dim) Dim {
	if d.e == nil || len(sub) == 0 {
		return d
	}
	out := Dim{c: d.c}
	for _, t := range d.e.terms {
		p := Dim{c: t.coef}
		for _, a := range t.atoms {
			p = p.Mul(a.subst(sub))
		}
		out = out.Add(p)
	}
	return out
}

func (a atom) subst(sub map[string]Dim) Dim {
	if a.kind == atomSymbol {
		if d, ok := sub[a.name]; ok {
			return d
		}
		return fromAtom(a)
	}
	x, y := a.a.Subst(sub), a.b.Subst(sub)
	switch a.kind {
	case atomFloorDiv:
		return x.FloorDiv(y)
	case atomMod:
		return x.Mod(y)
	case atomMin:
		return x.Min(y)
	case atomMax:
		return x.Max(y)
	case atomPosition:
		return x.Position(y)
	case atomSymbol, atomBroadcast:
	}
	if d, ok := x.Broadcast(y); ok {
		return d
	}
	return fromFunc(atomBroadcast, x, y)
}
