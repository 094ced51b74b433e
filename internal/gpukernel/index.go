package gpukernel

import (
	"fmt"
	"strings"
)

// scope is where in a kernel something is known: once for a row, once for a chunk of a pass over the row, or for each element.
type scope uint8

const (
	scopeRow scope = iota
	scopeChunk
	scopeElement
)

// atom is an integer variable of the kernel that indices are made of; it is at least 0.
type atom struct {
	name     string
	size     int // it is less
	multiple int // of which it is one
	scope    scope
}

// index is an affine expression of atoms: the sum of coefficients times atoms, and a number.
type index struct {
	coefficients []int // by atom; may be shorter than there are atoms
	number       int
}

func number(n int) index { return index{number: n} }

func (x index) coefficient(atom int) int {
	if atom < len(x.coefficients) {
		return x.coefficients[atom]
	}
	return 0
}

// plus returns x + y·times.
func (x index) plus(y index, times int) index {
	r := index{make([]int, max(len(x.coefficients), len(y.coefficients))), x.number + y.number*times}
	for i := range r.coefficients {
		r.coefficients[i] = x.coefficient(i) + y.coefficient(i)*times
	}
	return r
}

func variable(atom int) index {
	r := index{coefficients: make([]int, atom+1)}
	r.coefficients[atom] = 1
	return r
}

// isAtom reports whether x is that variable and nothing else.
func (x index) isAtom(atom int) bool {
	d := x.plus(variable(atom), -1)
	return d.isNumber() && d.number == 0
}

func (x index) isNumber() bool {
	for _, c := range x.coefficients {
		if c != 0 {
			return false
		}
	}
	return true
}

// key is equal for equal expressions.
func (x index) key() string {
	var b strings.Builder
	for i, c := range x.coefficients {
		if c != 0 {
			fmt.Fprintf(&b, "%d*%d+", c, i)
		}
	}
	fmt.Fprintf(&b, "%d;", x.number)
	return b.String()
}

// bounds returns the least and the greatest value that x may have.
func (e *emitter) bounds(x index) (lo, hi int) {
	lo, hi = x.number, x.number
	for i, c := range x.coefficients {
		if c > 0 {
			hi += c * (e.atoms[i].size - 1)
		} else {
			lo += c * (e.atoms[i].size - 1)
		}
	}
	return lo, hi
}

func (e *emitter) scopeOf(x index) scope {
	s := scopeRow
	for i, c := range x.coefficients {
		if c != 0 {
			s = max(s, e.atoms[i].scope)
		}
	}
	return s
}

// write returns x as text of the dialect.
func (e *emitter) write(x index) string {
	var parts []string
	for i, c := range x.coefficients {
		switch c {
		case 0:
		case 1:
			parts = append(parts, e.atoms[i].name)
		default:
			parts = append(parts, fmt.Sprintf("%s * %d", e.atoms[i].name, c))
		}
	}
	if x.number != 0 || len(parts) == 0 {
		parts = append(parts, fmt.Sprint(x.number))
	}
	return "(" + strings.Join(parts, " + ") + ")"
}

// newAtom declares a variable in the scope of what it is computed from.
func (e *emitter) newAtom(x index, text string, size, multiple int) index {
	a, known := e.named[text]
	if !known {
		e.atoms = append(e.atoms, atom{e.name("n"), max(size, 1), multiple, e.scopeOf(x)})
		a = len(e.atoms) - 1
		e.named[text] = a
	}
	if !e.declared[text] { // passes declare it again, and mean the same
		e.declared[text] = true
		e.emit(e.atoms[a].scope, fmt.Sprintf("const i32 %s = %s;", e.atoms[a].name, text))
	}
	return variable(a)
}

// split divides x, which is not negative, by d. Where the bounds of its parts allow, the quotient and the remainder are
// expressions again, so that a reshape there and back leaves no trace.
func (e *emitter) split(x index, d int) (quotient, remainder index) {
	if d == 1 {
		return x, number(0)
	}
	high, low := index{coefficients: make([]int, len(x.coefficients))}, index{coefficients: make([]int, len(x.coefficients))}
	for i, c := range x.coefficients {
		high.coefficients[i] = c / d
		low.coefficients[i] = c % d
	}
	high.number, low.number = x.number/d, x.number%d
	lo, hi := e.bounds(low)
	if lo >= 0 && hi < d {
		return high, low
	}
	_, top := e.bounds(x)
	// The element within a chunk does not change the quotient where chunks do not straddle.
	if el := e.element; el >= 0 && x.coefficient(el) == 1 && d%e.wide == 0 {
		base := x.plus(variable(el), -1)
		if e.multiple(base)%e.wide == 0 {
			q, r := e.split(base, d)
			return q, r.plus(variable(el), 1)
		}
	}
	text := e.write(x)
	q := e.newAtom(x, fmt.Sprintf("%s / %d", text, d), top/d+1, 1)
	r := e.newAtom(x, fmt.Sprintf("%s %% %d", text, d), min(d, top+1), gcd(d, e.multiple(x)))
	e.divisions = append(e.divisions, division{x, d, len(q.coefficients) - 1, len(r.coefficients) - 1})
	return q, r
}

// division is what two atoms are: the quotient and the remainder of an index.
type division struct {
	of                  index
	by                  int
	quotient, remainder int
}

// joined replaces quotients and remainders that stand side by side by what was divided, the last division first.
func (e *emitter) joined(x index) index {
	for i := len(e.divisions) - 1; i >= 0; i-- {
		d := e.divisions[i]
		if c := x.coefficient(d.remainder); c != 0 && x.coefficient(d.quotient) == c*d.by {
			x = x.plus(variable(d.quotient), -c*d.by).plus(variable(d.remainder), -c).plus(d.of, c)
		}
	}
	return x
}

// multiple returns a number that x is a multiple of; 0 where x is 0.
func (e *emitter) multiple(x index) int {
	m := x.number
	for i, c := range x.coefficients {
		if c != 0 {
			m = gcd(m, c*max(e.atoms[i].multiple, 1))
		}
	}
	return max(m, -m)
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return max(a, -a)
}

// flatten returns the place of an element in row-major order.
func (e *emitter) flatten(at []index, shape []int) index {
	x := number(0)
	stride := 1
	for i := len(shape) - 1; i >= 0; i-- {
		if shape[i] != 1 {
			x = x.plus(at[i], stride)
		}
		stride *= shape[i]
	}
	return e.joined(x)
}

// unflatten is the inverse of flatten.
func (e *emitter) unflatten(x index, shape []int) []index {
	at := make([]index, len(shape))
	left := elements(shape)
	for i := len(shape) - 1; i >= 0; i-- {
		left /= shape[i]
		switch {
		case shape[i] == 1:
			at[i] = number(0)
		case left == 1:
			at[i], x = x, number(0)
		default:
			x, at[i] = e.split(x, shape[i])
		}
	}
	return at
}
