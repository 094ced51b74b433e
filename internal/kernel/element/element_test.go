package element_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os/exec"
	"slices"
	"testing"
	"unsafe"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/kernel/asm"
	"github.com/carve-dev/carve/internal/kernel/element"
	"github.com/carve-dev/carve/internal/kernel/guard"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/testshare"
)

var _ = It("generated files are up to date", func(ctx SpecContext) {
	err := asm.Verify(ctx, "gen.go", "gen_columns.go", "gen_compare.go", "gen_moves.go", "gen_pairs.go")
	if errors.Is(err, exec.ErrNotFound) {
		Skip("no go command")
	}
	Expect(err).NotTo(HaveOccurred())
})

// buffers are those of the running spec.
var buffers guard.Set

// guarded returns n elements with a page behind them, or in front, that faults.
func guarded[T any](r *rand.Rand, n int) []T {
	GinkgoHelper()
	size := int(unsafe.Sizeof(*new(T)))
	side := []guard.Side{guard.End, guard.Start}[r.IntN(2)]
	b, err := buffers.New((n*size+3)/4, side, DeferCleanup)
	Expect(err).NotTo(HaveOccurred())
	all := unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b.Data))), 4*len(b.Data)/size)
	if side == guard.End {
		return all[len(all)-n:]
	}
	return all[:n:n]
}

// random returns n elements, or one, among them equal ones, 0 and the ends of the range.
func random[T element.Ordered](r *rand.Rand, n int, like []T) []T {
	x := guarded[T](r, n)
	size := int(unsafe.Sizeof(x[0]))
	b := unsafe.Slice((*byte)(unsafe.Pointer(&x[0])), n*size)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	for i := range x {
		switch r.IntN(6) {
		case 0:
			if len(like) > 0 {
				x[i] = like[i%len(like)]
			}
		case 1:
			x[i] = 0
		case 2:
			for k := range b[i*size:][:size] {
				b[i*size+k] = []byte{0, 0xff}[r.IntN(2)]
			}
			b[i*size+size-1] = []byte{0x7f, 0x80, 0xff, 0}[r.IntN(4)]
		}
		if f, ok := any(x).([]float32); ok && r.IntN(4) == 0 {
			f[i] = []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.Copysign(0, -1)), 1e-45, 1}[r.IntN(6)]
		}
	}
	return x
}

// sets are those that the processor runs.
func sets() (out []isa.Set) {
	for _, t := range isa.Targets() {
		out = append(out, t.Set)
	}
	return out
}

// operands returns two of n elements, of which the second may be one.
func operands[T element.Ordered](r *rand.Rand) (n int, a, b []T, at func(i int) T) {
	n = 1 + r.IntN([]int{40, 300, 300, 300, 300, 9000}[r.IntN(6)])
	a = random[T](r, n, nil)
	if r.IntN(3) == 0 {
		b = random(r, 1, a[n/2:])
		return n, a, b, func(int) T { return b[0] }
	}
	b = random(r, n, a)
	return n, a, b, func(i int) T { return b[i] }
}

func binaries[T element.Integer](r *rand.Rand) {
	of := map[element.Op]func(a, b T) T{
		element.Add: func(a, b T) T { return a + b }, element.Sub: func(a, b T) T { return a - b }, element.Mul: func(a, b T) T { return a * b },
		element.Max: func(a, b T) T { return max(a, b) }, element.Min: func(a, b T) T { return min(a, b) },
		element.And: func(a, b T) T { return a & b }, element.Or: func(a, b T) T { return a | b }, element.Xor: func(a, b T) T { return a ^ b },
		element.Div: func(a, b T) T {
			if b == 0 {
				return 0
			}
			return a / b
		},
		element.Apart: func(a, b T) T { return max(a-b, b-a) },
	}
	for op, f := range of {
		for _, set := range sets() {
			n, a, b, at := operands[T](r)
			want := make([]T, n)
			for i := range want {
				want[i] = f(a[i], at(i))
			}
			dst := guarded[T](r, n)
			if r.IntN(3) == 0 {
				dst = a
			}
			element.Binary(set, op, dst, a, b)
			for i := range want {
				if dst[i] != want[i] {
					Expect(dst[i]).To(Equal(want[i]), "op %d of %T with %v, %d elements, element %d", op, dst, set, n, i)
				}
			}
		}
	}
}

// folds compares what is made of all elements of rows, some longer than a call of assembly goes over.
func folds[T element.Integer](r *rand.Rand) {
	x := random[T](r, 1+r.IntN([]int{40, 300, 300, 140000}[r.IntN(4)]), nil)
	sum, product := T(0), T(1)
	for _, v := range x {
		sum, product = sum+v, product*v
	}
	for op, want := range map[element.Op]T{element.Add: sum, element.Mul: product, element.Max: slices.Max(x), element.Min: slices.Min(x)} {
		for _, set := range sets() {
			Expect(element.Fold(set, op, x)).To(Equal(want), "op %d of %T with %v, %d elements", op, x, set, len(x))
		}
	}
	odd := make([]T, 1+r.IntN(70))
	product = 1
	for i := range odd {
		odd[i] = T(2*r.IntN(100) + 1)
		product *= odd[i]
	}
	for _, set := range sets() {
		Expect(element.Fold(set, element.Mul, odd)).To(Equal(product), "product of %T with %v, %d elements", odd, set, len(odd))
	}
}

func comparisons[T element.Ordered](r *rand.Rand) {
	of := map[element.Comparison]func(a, b T) bool{
		element.Equal: func(a, b T) bool { return a == b }, element.Less: func(a, b T) bool { return a < b }, element.AtMost: func(a, b T) bool { return a <= b },
		element.Greater: func(a, b T) bool { return a > b }, element.AtLeast: func(a, b T) bool { return a >= b },
	}
	for c, f := range of {
		for _, set := range sets() {
			n, a, b, at := operands[T](r)
			dst, turned := guarded[bool](r, (n+3)/4*4)[:n], make([]bool, n)
			element.Compare(set, c, dst, a, b)
			if len(b) == n {
				element.Compare(set, c.Turned(), turned, b, a)
			} else {
				copy(turned, dst)
			}
			for i := range n {
				if want := f(a[i], at(i)); dst[i] != want || turned[i] != want || *(*byte)(unsafe.Pointer(&dst[i])) > 1 {
					Expect(dst[i]).To(Equal(want), "comparison %d of %v and %v with %v, %d elements, element %d", c, a[i], at(i), set, n, i)
					Fail("turned")
				}
			}
		}
	}
}

func choices[T element.Bits](r *rand.Rand) {
	for _, set := range sets() {
		n, a, b, at := operands[T](r)
		first := func(i int) T { return a[i] }
		if r.IntN(3) == 0 {
			a = a[:1]
			first = func(int) T { return a[0] }
		}
		c := guarded[uint8](r, (n+3)/4*4)[:n]
		for i := range c {
			c[i] = byte(r.IntN(2))
		}
		dst := guarded[T](r, n)
		element.Choose(set, dst, c, a, b)
		for i := range dst {
			want := at(i)
			if c[i] != 0 {
				want = first(i)
			}
			if dst[i] != want {
				Expect(dst[i]).To(Equal(want), "%T with %v, %d elements, element %d", dst, set, n, i)
			}
		}
	}
}

func magnitudes[T int16 | int32 | int64](r *rand.Rand) {
	n, a, b, _ := operands[T](r)
	low := T(1)<<(8*unsafe.Sizeof(T(0))-1) - 1
	if len(b) == 0 {
		return
	}
	for _, c := range []element.Comparison{element.Equal, element.Greater} {
		for _, set := range sets() {
			dst, by := guarded[bool](r, (n+3)/4*4)[:n], b[0]&low
			if n > 3 {
				a[r.IntN(n)], a[r.IntN(n)] = by, by|^low
			}
			element.Magnitudes(set, c, dst, a, by)
			for i, x := range a[:n] {
				x &= low
				if want := x == by && c == element.Equal || x > by && c == element.Greater; dst[i] != want || *(*byte)(unsafe.Pointer(&dst[i])) > 1 {
					Fail(fmt.Sprintf("comparison %d of |%v| and %v with %v is %v: %d elements, element %d", c, a[i], by, set, dst[i], n, i))
				}
			}
		}
	}
}

// pairs takes rows of pairs apart that lie apart, between pages that fault, and makes them again.
func pairs(r *rand.Rand) {
	wide, rows := 1+r.IntN([]int{40, 40, 40, 20000}[r.IntN(4)]), r.IntN(6)
	apart := 2*wide + r.IntN(9)
	a := guarded[uint32](r, max(0, (rows-1)*apart+2*wide))
	for i := range a {
		a[i] = r.Uint32()
	}
	for _, set := range sets() {
		first, second := guarded[uint32](r, rows*wide), guarded[uint32](r, rows*wide)
		element.Unzip(set, first, second, a, wide, apart)
		for i := range first {
			if at := i/wide*apart + i%wide*2; first[i] != a[at] || second[i] != a[at+1] {
				Fail(fmt.Sprintf("pair %d of rows of %d, %d apart, with %v", i, wide, apart, set))
			}
		}
		again := guarded[uint32](r, len(a))
		copy(again, a) // between rows nothing is written
		for i := range first {
			again[i/wide*apart+i%wide*2], again[i/wide*apart+i%wide*2+1] = 0, 0
		}
		element.Zip(set, again, first, second, wide, apart)
		Expect(slices.Equal(again, a)).To(BeTrue(), "rows of %d pairs, %d apart, made with %v", wide, apart, set)
	}
}

// triples takes triples between pages that fault apart, and makes them again.
func triples[T uint8 | uint16](r *rand.Rand) {
	n := r.IntN([]int{20, 200, 200, 140000}[r.IntN(4)])
	all := guarded[T](r, 3*n)
	for i := range all {
		all[i] = T(r.Uint32())
	}
	for _, set := range sets() {
		first, second, third, again := guarded[T](r, n), guarded[T](r, n), guarded[T](r, n), guarded[T](r, 3*n)
		element.UnzipThree(set, first, second, third, all)
		for i := range first {
			if got := []T{first[i], second[i], third[i]}; !slices.Equal(got, all[3*i:][:3]) {
				Fail(fmt.Sprintf("triple %d of %d with %v: %v for %v", i, n, set, got, all[3*i:][:3]))
			}
		}
		element.ZipThree(set, again, first, second, third)
		Expect(slices.Equal(again, all)).To(BeTrue(), "%d triples made with %v", n, set)
	}
}

// shortRows compares copies of short rows, between pages that fault.
func shortRows(r *rand.Rand) {
	n, rows := r.IntN(element.LongestShort+1), r.IntN(20)
	lds, ldd := n+r.IntN(3), n+r.IntN(3)
	if r.IntN(4) == 0 {
		lds = 0 // one row for all
	}
	reach := func(ld int) int { return max(rows-1, 0)*ld + n }
	src, dst := guarded[byte](r, reach(lds)), guarded[byte](r, reach(ldd))
	for i := range src {
		src[i] = byte(1 + r.IntN(255))
	}
	clear(dst)
	element.ShortRows(dst, src, n, rows, ldd, lds)
	for i, x := range dst {
		want := byte(0) // between rows nothing is written
		if k := i % ldd; k < n && i/ldd < rows {
			want = src[i/ldd*lds+k]
		}
		if x != want {
			Fail(fmt.Sprintf("%d rows of %d, %d and %d apart: byte %d is %d for %d", rows, n, lds, ldd, i, x, want))
		}
	}
}

// fewTransposed compares matrices of few rows or columns of any size, between pages that fault.
func fewTransposed[T element.Bits](r *rand.Rand) {
	rows, cols := 1+r.IntN(5), r.IntN(60)
	if r.IntN(2) == 0 {
		rows, cols = cols, rows
	}
	lds, ldd := cols+r.IntN(2), rows+r.IntN(2)
	if rows == 0 || cols == 0 {
		return
	}
	src, dst := guarded[T](r, (rows-1)*lds+cols), guarded[T](r, (cols-1)*ldd+rows)
	for i := range src {
		src[i] = T(r.Uint64())
	}
	for i := range dst {
		dst[i] = 7
	}
	element.TransposeFew(dst, src, rows, cols, lds, ldd)
	for i, x := range dst {
		want := T(7) // between rows nothing is written
		if c, k := i/ldd, i%ldd; k < rows && c < cols {
			want = src[k*lds+c]
		}
		if x != want {
			Fail(fmt.Sprintf("%d rows of %d, %d and %d apart: element %d is %d for %d", rows, cols, lds, ldd, i, x, want))
		}
	}
}

// transpositions compares matrices between pages that fault, whose rows may lie farther apart than they are long.
func transpositions[T uint16 | uint64](r *rand.Rand) {
	rows, cols := r.IntN(40), r.IntN(40)
	if r.IntN(8) == 0 {
		rows, cols = 8+r.IntN(3), 2100+r.IntN(10)
	}
	lds, ldd := cols+r.IntN(3), rows+r.IntN(3)
	src := guarded[T](r, max(0, rows-1)*lds+cols)
	for i := range src {
		src[i] = T(r.Uint64())
	}
	for _, set := range sets() {
		dst := guarded[T](r, max(0, cols-1)*ldd+rows)
		for i := range dst {
			dst[i] = 7
		}
		element.Transpose(set, dst, src, rows, cols, lds, ldd)
		for i, x := range dst {
			want := T(7) // between rows nothing is written
			if c, k := i/ldd, i%ldd; k < rows && c < cols {
				want = src[k*lds+c]
			}
			if x != want {
				Fail(fmt.Sprintf("%d rows of %d, %d and %d apart, with %v: element %d is %d for %d", rows, cols, lds, ldd, set, i, x, want))
			}
		}
	}
}

func scaledMaxima(r *rand.Rand) {
	scaledMaximaOf(r, r.Float32)
	scaledMaximaOf(r, r.Float64)
}

func scaledMaximaOf[T float32 | float64](r *rand.Rand, number func() T) {
	for _, set := range sets() {
		_, a, b, at := operands[T](r)
		if len(b) < len(a) {
			a, b = b, a[:1]
			at = func(int) T { return b[0] }
		}
		low := []T{0, number()}[r.IntN(2)]
		high := low + number()
		want := make([]T, len(a))
		for i, v := range a {
			want[i] = max(v, at(i)*low, at(i)*high)
		}
		element.MaxScaled(set, a, b, low, high)
		for i, v := range want {
			if a[i] != v && (a[i] == a[i] || v == v) {
				Expect(a[i]).To(Equal(v), "%v, %d elements, element %d, factors %v and %v", set, len(a), i, low, high)
			}
		}
	}
}

// twices compares what is there two times.
func twices(r *rand.Rand) {
	width, rows, times := 1+r.IntN(70), r.IntN(6), 1+r.IntN(2)
	src := guarded[uint32](r, width*rows)
	for i := range src {
		src[i] = r.Uint32()
	}
	for _, set := range sets() {
		dst := guarded[uint32](r, 2*times*len(src))
		element.Twice(set, dst, src, width, times == 2)
		for i, x := range dst {
			if row, column := i/(2*width)/times, i%(2*width)/2; x != src[row*width+column] {
				Fail(fmt.Sprintf("element %d of rows of %d, %d times, with %v", i, width, times, set))
			}
		}
	}
}

// mixtures compares numbers between others, which may be written in the place of either.
func mixtures(r *rand.Rand) {
	n := 1 + r.IntN(300)
	a, b, by := make([]float32, n), make([]float32, n), r.Float32()
	for i := range a {
		a[i], b[i] = float32(r.NormFloat64()), float32(r.NormFloat64())
	}
	for _, set := range sets() {
		dst := guarded[float32](r, n)
		element.Mix(set, dst, a, b, by)
		over := slices.Clone(a)
		element.Mix(set, over, over, b, by)
		for i, x := range dst {
			product := float32((b[i] - a[i]) * by) // not fused with the sum
			if want := a[i] + product; math.Abs(float64(x-want)) > 1e-6 || over[i] != x {
				Fail(fmt.Sprintf("%v and %v instead of %v with %v", x, over[i], want, set))
			}
		}
	}
}

// turned returns rows that are turned, and rows of numbers whose last ends with the memory, as many as there are of pairs of width numbers, and of their angles.
func turned(r *rand.Rand, pairs, width int) (t element.Turns, src, cos, sin []float32) {
	t = element.Turns{Rows: r.IntN(4), Pairs: pairs, By: width + r.IntN(3)*r.IntN(9), Angles: r.IntN(2) * (pairs + r.IntN(5))}
	rows := func(by, width int) []float32 {
		x := guarded[float32](r, max(0, (t.Rows-1)*by+width))
		for k := range x {
			x[k] = float32(r.NormFloat64())
		}
		return x
	}
	if t.Rows == 0 {
		return t, nil, nil, nil
	}
	return t, rows(t.By, width), rows(t.Angles, pairs), rows(t.Angles, pairs)
}

// rotations compares pairs that are turned, which may be written in their own place.
func rotations(r *rand.Rand) {
	n := r.IntN(100)
	t, src, cos, sin := turned(r, n, 2*n+r.IntN(2))
	for _, set := range sets() {
		dst, own := guarded[float32](r, len(src)), slices.Clone(src)
		copy(dst, src)
		if t.Rows > 0 {
			t.Rotate(set, dst, dst[n:], src, src[n:], cos, sin)
			t.Rotate(set, own, own[n:], own, own[n:], cos, sin)
		}
		want := slices.Clone(src)
		for row := range t.Rows {
			for k := range n {
				at, angle := row*t.By+k, row*t.Angles+k
				a, b, cos, sin := float64(src[at]), float64(src[at+n]), float64(cos[angle]), float64(sin[angle])
				want[at], want[at+n] = float32(a*cos-b*sin), float32(a*sin+b*cos)
			}
		}
		closeTurns(t, set, dst, own, want)
	}
}

// neighbours compares turned pairs of neighbours, which may be written in their own place.
func neighbours(r *rand.Rand) {
	n := r.IntN(100)
	t, src, cos, sin := turned(r, n, 2*n)
	for _, set := range sets() {
		dst, own := guarded[float32](r, len(src)), slices.Clone(src)
		copy(dst, src)
		t.RotatePairs(set, dst, src, cos, sin)
		t.RotatePairs(set, own, own, cos, sin)
		want := slices.Clone(src)
		for row := range t.Rows {
			for k := range n {
				at, angle := row*t.By+2*k, row*t.Angles+k
				a, b, cos, sin := float64(src[at]), float64(src[at+1]), float64(cos[angle]), float64(sin[angle])
				want[at], want[at+1] = float32(a*cos-b*sin), float32(a*sin+b*cos)
			}
		}
		closeTurns(t, set, dst, own, want)
	}
}

// closeTurns fails where turned pairs are far from what they should be, or differ in their own place.
func closeTurns(t element.Turns, set isa.Set, dst, own, want []float32) {
	for at := range want {
		if math.Abs(float64(dst[at]-want[at])) > 1e-5 || own[at] != dst[at] {
			Fail(fmt.Sprintf("%+v with %v, at %d: %v and %v instead of %v", t, set, at, dst[at], own[at], want[at]))
		}
	}
}

// affines compares products and sums that are rounded once.
func affines(r *rand.Rand) {
	n := r.IntN([]int{60, 60, 60, 40000}[r.IntN(4)])
	at := guarded[float64](r, n)
	for i := range at {
		at[i] = r.NormFloat64()
	}
	var by, from [element.Period]float64
	for i := range by {
		by[i], from[i] = r.NormFloat64(), r.NormFloat64()
	}
	for _, set := range sets() {
		dst := guarded[float32](r, n)
		element.Affine(set, dst, at, &by, &from)
		for i, x := range dst {
			if want := at[i]*by[i%element.Period] + from[i%element.Period]; math.Abs(float64(x)-want) > 1e-7*max(1, math.Abs(want)) {
				Fail(fmt.Sprintf("number %d of %d with %v is %v for %v", i, n, set, x, want))
			}
		}
	}
}

// products compares rows of products of matrices between pages that fault.
func products[T int32 | int64 | float32](r *rand.Rand) {
	n, k := r.IntN(90), r.IntN(150)
	if r.IntN(8) == 0 {
		n = 1 + r.IntN(600)
	}
	ld := n + r.IntN(9)
	left, right := guarded[T](r, k), guarded[T](r, max((k-1)*ld+n, 0))
	for _, x := range [][]T{left, right} {
		for i := range x {
			if x[i] = T(r.Uint64()); any(x[i]) == any(float32(x[i])) {
				x[i] = T(r.IntN(99) - 50) // sums are exact
			}
		}
	}
	want := make([]T, n)
	for c := range want {
		for j, x := range left {
			want[c] += x * right[j*ld+c]
		}
	}
	for _, set := range sets() {
		dst := guarded[T](r, n)
		element.Products(set, dst, left, right, ld)
		Expect(dst).To(Equal(want), "%d columns of %d with %v", n, k, set)
	}
}

// unallocated expects that functions of n integers, and of one for all, that lie on the stack allocate nothing.
func unallocated[T element.Integer](n int) {
	GinkgoHelper()
	for _, set := range sets() {
		Expect(testing.AllocsPerRun(5, func() {
			var dst, a, b [200]T
			for op := element.Add; op <= element.Xor; op++ {
				element.Binary(set, op, dst[:n], a[:n], b[:n])
				element.Binary(set, op, dst[:n], a[:n], b[:1])
			}
			element.Fold(set, element.Max, a[:n])
		})).To(BeZero(), "%T, %d elements with %v", T(0), n, set)
	}
	unallocatedComparison[T](n)
}

func unallocatedComparison[T element.Ordered](n int) {
	GinkgoHelper()
	for _, set := range sets() {
		Expect(testing.AllocsPerRun(5, func() {
			var dst [200]bool
			var a, b [200]T
			for c := element.Equal; c <= element.AtLeast; c++ {
				element.Compare(set, c, dst[:n], a[:n], b[:n])
				element.Compare(set, c, dst[:n], a[:n], b[:1])
			}
		})).To(BeZero(), "%T, %d elements with %v", T(0), n, set)
	}
}

func unallocatedChoice[T element.Bits](n int) {
	GinkgoHelper()
	for _, set := range sets() {
		Expect(testing.AllocsPerRun(5, func() {
			var which [200]uint8
			var dst, a, b [200]T
			for _, one := range [][2]int{{n, n}, {1, n}, {n, 1}, {1, 1}} {
				element.Choose(set, dst[:n], which[:n], a[:one[0]], b[:one[1]])
			}
		})).To(BeZero(), "%T, %d elements with %v", T(0), n, set)
	}
}

var _ = Describe("elements", func() {
	It("are what Go makes of them", func() {
		for seed := range testshare.Of(4) {
			r := rand.New(rand.NewPCG(3, uint64(seed)))
			By(fmt.Sprint("seed ", seed))
			binaries[int8](r)
			folds[int8](r)
			binaries[uint8](r)
			folds[uint8](r)
			binaries[int16](r)
			folds[int16](r)
			binaries[uint16](r)
			folds[uint16](r)
			binaries[int32](r)
			folds[int32](r)
			binaries[uint32](r)
			folds[uint32](r)
			binaries[int64](r)
			folds[int64](r)
			binaries[uint64](r)
			folds[uint64](r)
			comparisons[float32](r)
			comparisons[float64](r)
			comparisons[int8](r)
			comparisons[uint8](r)
			comparisons[int16](r)
			comparisons[uint16](r)
			comparisons[int32](r)
			comparisons[uint32](r)
			comparisons[int64](r)
			comparisons[uint64](r)
			magnitudes[int16](r)
			magnitudes[int32](r)
			magnitudes[int64](r)
			pairs(r)
			triples[uint8](r)
			triples[uint16](r)
			shortRows(r)
			fewTransposed[uint8](r)
			fewTransposed[uint16](r)
			fewTransposed[uint32](r)
			fewTransposed[uint64](r)
			transpositions[uint16](r)
			transpositions[uint64](r)
			choices[uint8](r)
			choices[uint16](r)
			choices[uint32](r)
			choices[uint64](r)
			scaledMaxima(r)
			bilinears(r, 1e-5, element.Bilinear)
			bilinears(r, 1e-13, element.BilinearDoubles)
			twices(r)
			mixtures(r)
			rotations(r)
			neighbours(r)
			affines(r)
			products[int32](r)
			products[int64](r)
			products[float32](r)
		}
	})

	It("need no memory of Go's heap", func() {
		for _, n := range []int{1, 5, 40, 200} {
			unallocated[int8](n)
			unallocated[int16](n)
			unallocated[int32](n)
			unallocated[int64](n)
			unallocated[uint8](n)
			unallocated[uint16](n)
			unallocated[uint32](n)
			unallocated[uint64](n)
			unallocatedComparison[float32](n)
			unallocatedComparison[float64](n)
			unallocatedChoice[uint8](n)
			unallocatedChoice[uint16](n)
			unallocatedChoice[uint32](n)
			unallocatedChoice[uint64](n)
		}
	})

	It("are not written where an operand is too short", func() {
		x, c := make([]int32, 8), make([]bool, 8)
		for _, bad := range []func(){
			func() { element.Binary(isa.Host().Set, element.Add, x, x[:7:7], x) },
			func() { element.Binary(isa.Host().Set, element.Add, x, x, x[:7:7]) },
			func() { element.Compare(isa.Host().Set, element.Less, c, x[:7:7], x) },
			func() { element.Compare(isa.Host().Set, element.Less, c, x, x[:7:7]) },
			func() { element.Choose(isa.Host().Set, make([]uint8, 8), make([]uint8, 7), []uint8{1}, []uint8{2}) },
		} {
			Expect(bad).To(Panic())
		}
	})
})
