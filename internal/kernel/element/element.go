package element

import (
	"math/bits"
	"unsafe"

	"github.com/carve-dev/carve/internal/kernel/isa"
)

// Integer is an element type.
type Integer interface {
	int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64
}

// Ordered is an element type of comparisons.
type Ordered interface{ Integer | float32 | float64 }

// Op is a function of two integers.
type Op uint8

// The functions of two integers. Sums and products wrap around.
const (
	Add Op = iota
	Sub
	Mul
	Max
	Min
	And
	Or
	Xor
	Div   // cut; what is divided by 0 is 0
	Apart // the greater of a - b and b - a
)

// Comparison is a comparison of two elements.
type Comparison uint8

// The comparisons. NaN is none of them.
const (
	Equal Comparison = iota
	Less
	AtMost
	Greater
	AtLeast
)

// Turned returns the comparison of b with a that holds where this one of a with b does.
func (c Comparison) Turned() Comparison {
	return [...]Comparison{Equal, Greater, AtLeast, Less, AtMost}[c]
}

// width is the bytes of a vector of the kernels.
const width = 32

// most bounds the vectors of one call of assembly, which cannot be preempted: some ten microseconds.
const most = 1 << 11

// code tells kernels a type: the logarithm of its size, and 4 more where it has a sign.
func code[T Integer]() int {
	c := bits.TrailingZeros(uint(unsafe.Sizeof(T(0))))
	if ^T(0) < 0 {
		c += 4
	}
	return c
}

// Binary writes a op b, element by element, to dst, which may be either of them. Where b has one element and dst has more it is taken for all.
func Binary[T Integer](set isa.Set, op Op, dst, a, b []T) {
	n, size := len(dst), int(unsafe.Sizeof(T(0)))
	one := len(b) == 1 && n > 1
	if n == 0 {
		return
	}
	if a = a[:n]; !one {
		b = b[:n]
	}
	var same *repeated[T] // cleared where it is needed only: that takes as long as a short row
	if one {
		same = new(repeated[T])
	}
	done, c := 0, code[T]()
	if has(set, op, c) {
		each := width / size
		for vectors := n / each; vectors > 0; {
			some := min(vectors, most)
			binary(set, op, c, one, bytesAt(dst, done), bytesAt(a, done), same.of(b, done, one), some)
			vectors, done = vectors-some, done+some*each
		}
	}
	if done == n {
		return
	}
	if has(set, op, c) && n-done >= fewest {
		binaryRest(set, op, c, dst[done:], a[done:], b, done, one)
		return
	}
	if n-done < fewest {
		var few [fewest]T
		second := few[:n-done]
		if one {
			for i := range second {
				second[i] = b[0]
			}
		} else {
			second = b[done:]
		}
		loop(op, dst[done:], a[done:], second)
		return
	}
	var second spread[T]
	second.fill(b, one)
	pieces(done, n, one, func(lo, hi int) { loop(op, dst[lo:hi], a[lo:], second.of(b, lo, hi, one)) })
}

// fewest is how many elements are left for which a kernel takes less than a loop, with copies to whole vectors and back.
const fewest = 8

// vector has room for the elements of one.
type vector [width / 8]uint64

// elementsIn returns the first n elements of type T in a vector.
func elementsIn[T any](v *vector, n int) []T { return unsafe.Slice((*T)(unsafe.Pointer(v)), n) }

// binaryRest is Binary of less than a vector, in copies; b is read from element at on, or its one element.
func binaryRest[T Integer](set isa.Set, op Op, code int, dst, a, b []T, at int, one bool) {
	var x, y, z vector
	n := len(dst)
	copy(elementsIn[T](&x, n), a)
	if one {
		(*repeated[T])(&y).fill(b[0])
	} else {
		copy(elementsIn[T](&y, n), b[at:])
	}
	binary(set, op, code, one, bytesAt(z[:], 0), bytesAt(x[:], 0), bytesAt(y[:], 0), 1)
	copy(dst, elementsIn[T](&z, n))
}

// Fold returns what op, one of Add, Mul, Max and Min, makes of all elements of row, of which there is one at least.
func Fold[T Integer](set isa.Set, op Op, row []T) T {
	each, c := width/int(unsafe.Sizeof(T(0))), code[T]()
	if len(row) < each || !has(set, op, c) {
		return foldLoop(op, row[0], row[1:])
	}
	var made [2]T // so far, and of the next vectors
	for first := true; len(row) >= each; first = false {
		some := min(len(row)/each, most)
		var part [8]T // of 8 bytes at least
		fold(set, op, c, bytesAt(part[:], 0), bytesAt(row, 0), some)
		if made[1] = part[0]; first {
			made[0] = part[0]
		} else {
			made[0] = foldLoop(op, made[0], made[1:])
		}
		row = row[some*each:]
	}
	return foldLoop(op, made[0], row)
}

// repeated is a vector of one element.
type repeated[T any] vector

// of returns where a kernel reads an operand from element i on: itself, or a vector of its one element.
func (r *repeated[T]) of(x []T, i int, one bool) *byte {
	if !one {
		return bytesAt(x, i)
	}
	r.fill(x[0])
	return bytesAt(r[:], 0)
}

// fill makes all elements of a vector one.
func (r *repeated[T]) fill(x T) {
	var word uint64
	switch p := unsafe.Pointer(&x); unsafe.Sizeof(x) {
	case 1:
		word = uint64(*(*uint8)(p)) * 0x0101010101010101
	case 2:
		word = uint64(*(*uint16)(p)) * 0x0001000100010001
	case 4:
		word = uint64(*(*uint32)(p)) * 0x0000000100000001
	default:
		word = *(*uint64)(p)
	}
	for i := range r {
		r[i] = word
	}
}

func bytesAt[T any](x []T, i int) *byte { return (*byte)(unsafe.Pointer(&x[i])) }

// Compare writes which elements of a stand so to those of b, 0 or 1. Where b has one element and dst has more it is taken for all.
func Compare[T Ordered](set isa.Set, c Comparison, dst []bool, a, b []T) {
	n := len(dst)
	one := len(b) == 1 && n > 1
	if n == 0 {
		return
	}
	if a = a[:n]; !one {
		b = b[:n]
	}
	var same repeated[T]
	done := 0
	if kind := kindOf[T](); kind != none && hasKernels(set) {
		for groups := n / width; groups > 0; {
			some := min(groups, most/4)
			compare(set, c, kind, one, bytesAt(dst, done), bytesAt(a, done), same.of(b, done, one), some)
			groups, done = groups-some, done+some*width
		}
		if n-done >= fewest {
			compareRest(set, c, kind, dst[done:], a[done:], b, done, one)
			return
		}
	}
	if n-done < fewest {
		for ; done < n; done++ {
			at := done
			if one {
				at = 0
			}
			compareLoop(c, dst[done:done+1], a[done:], b[at:])
		}
		return
	}
	if done < n {
		var second spread[T]
		second.fill(b, one)
		pieces(done, n, one, func(lo, hi int) { compareLoop(c, dst[lo:hi], a[lo:], second.of(b, lo, hi, one)) })
	}
}

// compareRest is Compare of less than a group, in copies; b is read from element at on, or its one element.
func compareRest[T Ordered](set isa.Set, c Comparison, kind kind, dst []bool, a, b []T, at int, one bool) {
	var x, y [width]T
	var z vector
	copy(x[:], a)
	second := bytesAt(y[:], 0)
	if one {
		var same repeated[T]
		second = same.of(b, 0, true)
	} else {
		copy(y[:], b[at:])
	}
	compare(set, c, kind, one, bytesAt(z[:], 0), bytesAt(x[:], 0), second, 1)
	copy(dst, elementsIn[bool](&z, len(dst)))
}

// Magnitudes writes which numbers without their uppermost bits are b, or greater where c is not Equal: of floats, by their bits, which are infinite, or NaN.
func Magnitudes[T int16 | int32 | int64](set isa.Set, c Comparison, dst []bool, a []T, b T) {
	if c != Equal {
		c = Greater
	}
	n, of := len(dst), magnitudes
	switch unsafe.Sizeof(b) {
	case 2:
		of = shortMagnitudes
	case 8:
		of = longMagnitudes
	}
	a = a[:n]
	done := 0
	if hasKernels(set) {
		one := []T{b}
		var same repeated[T]
		for groups := n / width; groups > 0; {
			some := min(groups, most/4)
			compare(set, c, of, true, bytesAt(dst, done), bytesAt(a, done), same.of(one, 0, true), some)
			groups, done = groups-some, done+some*width
		}
	}
	dst, a = dst[done:], a[done:]
	low := T(1)<<(8*unsafe.Sizeof(b)-1) - 1
	if c == Equal {
		for i, x := range a {
			dst[i] = x&low == b
		}
		return
	}
	for i, x := range a {
		dst[i] = x&low > b
	}
}

// kind is a type that there are kernels of comparisons, or of products, for.
type kind uint8

const (
	none kind = iota
	floats
	words // of 32 bits, with a sign
	unsignedWords
	signedBytes
	unsignedBytes
	doubles
	longs          // of 64 bits, with a sign
	magnitudes     // words without their uppermost bits
	longMagnitudes // likewise
	shorts         // of 16 bits, with a sign
	unsignedShorts
	shortMagnitudes // without their uppermost bits
)

func kindOf[T Ordered]() kind {
	var z T
	switch any(z).(type) {
	case float32:
		return floats
	case int32:
		return words
	case uint32:
		return unsignedWords
	case int8:
		return signedBytes
	case uint8:
		return unsignedBytes
	case float64:
		return doubles
	case int64:
		return longs
	case int16:
		return shorts
	case uint16:
		return unsignedShorts
	}
	return none
}

// Bits is what a choice is made between, of any type of that size.
type Bits interface {
	uint8 | uint16 | uint32 | uint64
}

// Choose writes the elements of a where those of c are 1, and of b where they are 0. Where a or b has one element and dst has more it is taken for all.
func Choose[T Bits](set isa.Set, dst []T, c []uint8, a, b []T) {
	n, size := len(dst), int(unsafe.Sizeof(T(0)))
	if n == 0 {
		return
	}
	oneA, oneB := len(a) == 1 && n > 1, len(b) == 1 && n > 1
	c = c[:n]
	if !oneA {
		a = a[:n]
	}
	if !oneB {
		b = b[:n]
	}
	var first, second repeated[T]
	done := 0
	if hasKernels(set) {
		each := width / size
		for vectors := n / each; vectors > 0; {
			some := min(vectors, most)
			choose(set, size, oneA, oneB, bytesAt(dst, done), &c[done], first.of(a, done, oneA), second.of(b, done, oneB), some)
			vectors, done = vectors-some, done+some*each
		}
		if n-done >= fewest {
			chooseRest(set, dst[done:], c[done:], a, oneA, b, oneB, done)
			return
		}
	}
	if done < n {
		var left, right spread[T]
		left.fill(a, oneA)
		right.fill(b, oneB)
		pieces(done, n, oneA || oneB, func(lo, hi int) {
			chooseLoop(dst[lo:hi], c[lo:], left.of(a, lo, hi, oneA), right.of(b, lo, hi, oneB))
		})
	}
}

// chooseRest is Choose of less than a vector, in copies; a and b are read from element at on, or their one element.
func chooseRest[T Bits](set isa.Set, dst []T, c []uint8, a []T, oneA bool, b []T, oneB bool, at int) {
	var which, left, right, made vector
	n := len(dst)
	copy(elementsIn[uint8](&which, n), c[:n])
	for _, x := range []struct {
		to  *vector
		of  []T
		one bool
	}{{&left, a, oneA}, {&right, b, oneB}} {
		if x.one {
			(*repeated[T])(x.to).fill(x.of[0])
		} else {
			copy(elementsIn[T](x.to, n), x.of[at:])
		}
	}
	choose(set, int(unsafe.Sizeof(dst[0])), oneA, oneB, bytesAt(made[:], 0), bytesAt(which[:], 0), bytesAt(left[:], 0), bytesAt(right[:], 0), 1)
	copy(dst, elementsIn[T](&made, n))
}

// Unzip writes the first of each pair to first, and the second to second, of rows of wide pairs each that lie apart elements apart. Of first there are whole rows. The operands
// share no memory.
func Unzip(set isa.Set, first, second, pairs []uint32, wide, apart int) {
	rows := len(first) / wide
	second, pairs = second[:rows*wide], pairs[:max(0, (rows-1)*apart+2*wide)]
	if pairRows(set, rows, wide, func(at, n, back, some int) {
		unzip(set, bytesAt(first, at*wide), bytesAt(second, at*wide), bytesAt(pairs, at*apart), 4*apart, n, back, some)
	}) {
		return
	}
	for r := range rows {
		from, a, b := pairs[r*apart:][:2*wide], first[r*wide:][:wide], second[r*wide:][:wide]
		for i := range a {
			pair := (*[2]uint32)(from[2*i:])
			a[i], b[i] = pair[0], pair[1]
		}
	}
}

// Zip is the inverse of Unzip. Of first there are whole rows.
func Zip(set isa.Set, pairs, first, second []uint32, wide, apart int) {
	rows := len(first) / wide
	second, pairs = second[:rows*wide], pairs[:max(0, (rows-1)*apart+2*wide)]
	if pairRows(set, rows, wide, func(at, n, back, some int) {
		zip(set, bytesAt(first, at*wide), bytesAt(second, at*wide), bytesAt(pairs, at*apart), 4*apart, n, back, some)
	}) {
		return
	}
	for r := range rows {
		to, a, b := pairs[r*apart:][:2*wide], first[r*wide:][:wide], second[r*wide:][:wide]
		for i := range a {
			pair := (*[2]uint32)(to[2*i:])
			pair[0], pair[1] = a[i], b[i]
		}
	}
}

// pairRows calls do for some rows of wide pairs at a time, of n groups each, and of back pairs fewer than one group more, and reports whether there are kernels for them.
func pairRows(set isa.Set, rows, wide int, do func(at, n, back, some int)) bool {
	const group = width / 4
	n := wide / group
	if n == 0 || !hasKernels(set) {
		return false
	}
	for at := 0; at < rows; {
		some := min(rows-at, max(most/n, 1))
		do(at, n, -wide&(group-1), some)
		at += some
	}
	return true
}

// UnzipThree writes the first of each three elements to first, the second to second, and the third to third. The operands share no memory.
func UnzipThree[T uint8 | uint16](set isa.Set, first, second, third, triples []T) {
	n, size := len(first), int(unsafe.Sizeof(T(0)))
	second, third, triples = second[:n], third[:n], triples[:3*n]
	if inGroups(set, n, 16/size, func(at, groups int) {
		unzipThree(set, size == 2, bytesAt(first, at), bytesAt(second, at), bytesAt(third, at), bytesAt(triples, 3*at), groups)
	}) {
		return
	}
	for i := range first {
		t := (*[3]T)(triples[3*i:])
		first[i], second[i], third[i] = t[0], t[1], t[2]
	}
}

// ZipThree is the inverse of UnzipThree.
func ZipThree[T uint8 | uint16](set isa.Set, triples, first, second, third []T) {
	n, size := len(first), int(unsafe.Sizeof(T(0)))
	second, third, triples = second[:n], third[:n], triples[:3*n]
	if inGroups(set, n, 16/size, func(at, groups int) {
		zipThree(set, size == 2, bytesAt(triples, 3*at), bytesAt(first, at), bytesAt(second, at), bytesAt(third, at), groups)
	}) {
		return
	}
	for i := range first {
		t := (*[3]T)(triples[3*i:])
		t[0], t[1], t[2] = first[i], second[i], third[i]
	}
}

// inGroups calls do for groups of n elements, for the last ones, some of them again, where they are no whole group, and reports whether there are kernels for so many.
func inGroups(set isa.Set, n, group int, do func(at, groups int)) bool {
	if n < group || !hasKernels(set) {
		return false
	}
	for at, groups := 0, n/group; groups > 0; {
		some := min(groups, most)
		do(at, some)
		groups, at = groups-some, at+some*group
	}
	if n%group > 0 {
		do(n-group, 1)
	}
	return true
}

// MaxScaled makes each element of dst the largest of itself and of src's times low and times high, and NaN where one of the three is.
func MaxScaled[T float32 | float64](set isa.Set, dst, src []T, low, high T) {
	src = src[:len(dst)]
	done, lanes := 0, 32/int(unsafe.Sizeof(low))
	if hasKernels(set) {
		for vectors := len(dst) / lanes; vectors > 0; {
			some := min(vectors, most)
			switch d := any(&dst[done]).(type) {
			case *float32:
				maxScaled(set, d, any(&src[done]).(*float32), any(&low).(*float32), any(&high).(*float32), some)
			case *float64:
				maxScaledWide(set, d, any(&src[done]).(*float64), any(&low).(*float64), any(&high).(*float64), some)
			}
			vectors, done = vectors-some, done+lanes*some
		}
	}
	maxScaledLoop(dst[done:], src[done:], low, high)
}

// Twice writes each element of src two times, and where pairs is set each row of it, of so many elements, two times, one behind the other. The operands share no memory.
func Twice(set isa.Set, dst, src []uint32, width int, pairs bool) {
	const group = 8
	if len(src) == 0 {
		return
	}
	rows, wide, below := len(src)/width, 2*width, 0
	if pairs {
		below, wide = wide, 2*wide
	}
	src, dst = src[:rows*width], dst[:rows*wide]
	if n := width / group; n > 0 && hasKernels(set) {
		for at := 0; at < rows; { // a call goes over some rows, and one at least
			some := min(rows-at, max(most/n, 1))
			twice(set, &dst[at*wide], &src[at*width], 4*below, n, -width&(group-1), some)
			at += some
		}
		return
	}
	for at, x := range src {
		to := dst[at/width*wide+at%width*2:]
		to[0], to[1] = x, x
		to[below], to[below+1] = x, x
	}
}

// productRows is how many rows of a right operand Products goes through at a time, one line of which each is prefetched.
const productRows = 64

// Products writes the sum of left[j]·right[j·ld+c] over all j to each element c of dst: a row of a product of matrices, whose rows lie ld apart. Sums of integers wrap around; in
// which order floats are added is not said.
func Products[T int32 | int64 | float32](set isa.Set, dst, left, right []T, ld int) {
	clear(dst)
	n := len(dst)
	if n == 0 || len(left) == 0 {
		return
	}
	right = right[:(len(left)-1)*ld+n]
	done := 0
	if kind := kindOf[T](); hasKernels(set) {
		each := width / int(unsafe.Sizeof(T(0)))
		done = n / each * each
		for j := 0; j < len(left) && done > 0; j += productRows {
			for at := 0; at < done; at += most / productRows * each {
				products(set, kind, bytesAt(dst, at), bytesAt(left, j), bytesAt(right, j*ld+at), ld, min(productRows, len(left)-j), min(most/productRows, (done-at)/each))
			}
		}
	}
	productsLoop(dst[done:], left, right[done:], ld)
}

// Mix writes a + (b-a)·by for each element of dst, which may be either of them.
func Mix(set isa.Set, dst, a, b []float32, by float32) {
	n := len(dst)
	a, b = a[:n], b[:n]
	done := 0
	if hasKernels(set) {
		for vectors := n / 8; vectors > 0; {
			some := min(vectors, most)
			mix(set, &dst[done], &a[done], &b[done], by, some)
			vectors, done = vectors-some, done+8*some
		}
	}
	for i := done; i < n; i++ {
		dst[i] = a[i] + (b[i]-a[i])*by
	}
}

// Turns are rows of pairs that are turned by angles: so many rows, by elements apart, of Pairs each. Angles are as many for each row, which lie so many elements apart: 0 where
// they are the same for all.
type Turns struct{ Rows, By, Pairs, Angles int }

// Rotate writes pairs of a and b, turned by angles: a·cos - b·sin to low, a·sin + b·cos to high. These may be a and b.
func (t Turns) Rotate(set isa.Set, low, high, a, b, cos, sin []float32) {
	whole := t.parts(set, 8, func(row, pair, vectors, rows int) {
		at, angle := row*t.By+pair, row*t.Angles+pair
		last, end := at+(rows-1)*t.By+8*vectors-1, angle+(rows-1)*t.Angles+8*vectors-1
		_, _, _, _, _, _ = low[last], high[last], a[last], b[last], cos[end], sin[end]
		rotate(set, &low[at], &high[at], &a[at], &b[at], &cos[angle], &sin[angle], vectors, rows, 4*t.By, 4*t.Angles)
	})
	for row := 0; row < t.Rows && whole < t.Pairs; row++ {
		at, angle := row*t.By, row*t.Angles
		for k := whole; k < t.Pairs; k++ {
			x, y, c, s := a[at+k], b[at+k], cos[angle+k], sin[angle+k]
			low[at+k], high[at+k] = c*x-s*y, s*x+c*y
		}
	}
}

// RotatePairs is Rotate for pairs of neighbours: src[2k] and src[2k+1] of a row are turned by its angle k. dst may be src.
func (t Turns) RotatePairs(set isa.Set, dst, src, cos, sin []float32) {
	whole := t.parts(set, 4, func(row, pair, vectors, rows int) {
		at, angle := row*t.By+2*pair, row*t.Angles+pair
		last, end := at+(rows-1)*t.By+8*vectors-1, angle+(rows-1)*t.Angles+4*vectors-1
		_, _, _, _ = dst[last], src[last], cos[end], sin[end]
		rotatePairs(set, &dst[at], &src[at], &cos[angle], &sin[angle], vectors, rows, 4*t.By, 4*t.Angles)
	})
	for row := 0; row < t.Rows && whole < t.Pairs; row++ {
		at, angle := row*t.By, row*t.Angles
		for k := whole; k < t.Pairs; k++ {
			x, y, c, s := src[at+2*k], src[at+2*k+1], cos[angle+k], sin[angle+k]
			dst[at+2*k], dst[at+2*k+1] = c*x-s*y, s*x+c*y
		}
	}
}

// parts calls do for rows from one on of so many vectors of pairs, from one on, and returns how many pairs of a row these are. No call takes long.
func (t Turns) parts(set isa.Set, pairs int, do func(row, pair, vectors, rows int)) int {
	if !hasKernels(set) {
		return 0
	}
	all := t.Pairs / pairs
	for of := 0; of < all; of += most {
		vectors := min(all-of, most)
		for row, some := 0, max(1, most/vectors); row < t.Rows; row += some {
			do(row, of*pairs, vectors, min(t.Rows-row, some))
		}
	}
	return all * pairs
}

// Period is how many factors and terms Affine has: as many numbers of two, three or four kinds by turns.
const Period = 12

// Affine writes at[i]·by[i mod Period] + from[i mod Period], computed in float64 and rounded to float32, to each element of dst.
func Affine(set isa.Set, dst []float32, at []float64, by, from *[Period]float64) {
	at = at[:len(dst)]
	done := 0
	if hasKernels(set) {
		const some = most / Period * Period // vectors of a call, after which factors begin again
		for vectors := len(dst) / 4; vectors > 0; vectors -= some {
			n := min(vectors, some)
			affine(set, &dst[done], &at[done], &by[0], &from[0], n)
			done += 4 * n
		}
	}
	for k := done % Period; done < len(dst); done, k = done+1, k+1 {
		if k == Period {
			k = 0
		}
		dst[done] = float32(at[done]*by[k] + from[k])
	}
}

// has reports whether there are kernels for an operator on a type.
func has(set isa.Set, op Op, code int) bool {
	return hasKernels(set) && (op != Div || code == 6) && (op != Apart || code >= 4)
}

// hasKernels reports whether there are kernels of a set.
func hasKernels(set isa.Set) bool { return set == isa.AVX2 || set == isa.AVX512 }
