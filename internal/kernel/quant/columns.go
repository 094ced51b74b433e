package quant

import (
	"math"
	"unsafe"
)

// Integers are integers of 8 or of 16 bits.
type Integers struct{ Words, Signed bool }

// size returns the bytes of an integer.
func (i Integers) size() int {
	if i.Words {
		return 2
	}
	return 1
}

// limits returns the smallest and the largest integer.
func (i Integers) limits() (least, most int) {
	most = math.MaxUint8
	if i.Words {
		most = math.MaxUint16
	}
	if i.Signed {
		least = -(most + 1) / 2
	}
	return least, least + most
}

// Numbers are scales and zero points. A column of them is that of one element, or of a run of elements.
type Numbers struct {
	Scales []float32
	Zeros  []int32
}

// From returns n columns from one on.
func (c Numbers) From(i, n int) Numbers { return Numbers{c.Scales[i : i+n], c.Zeros[i : i+n]} }

// Group is how many elements kernels take at a time.
const Group = 16

// columnLimit bounds quotients before they are rounded: beyond it zero points leave none within 16 bits.
const columnLimit = 1 << 18

// QuantizeColumns writes the integers of src to as many bytes as they have: round(x/scale) + zero, rounded half to even and bounded. Every
// element has a column. NaN becomes the least integer.
func (k Kernels) QuantizeColumns(dst []byte, src []float32, c Numbers, to Integers) {
	n, size := len(src), to.size()
	if n == 0 {
		return
	}
	least, most := to.limits()
	d, x, s, z := first(dst, n*size), first(src, n), first(c.Scales, n), first(c.Zeros, n)
	for at := 0; at < n/Group; at += callElements / Group {
		i := Group * at
		quantizeColumns(k.set, to.Words, advance(d, i*size), advance(x, i), advance(s, i), advance(z, i), least, most, 1, min(n/Group-at, callElements/Group))
	}
	if i := n / Group * Group; i < n {
		genericQuantizeColumns(to.Words, advance(d, i*size), advance(x, i), advance(s, i), advance(z, i), least, most, n-i)
	}
}

// QuantizeRuns is QuantizeColumns where each column is that of a run of so many elements, of which the last run may have fewer.
func (k Kernels) QuantizeRuns(dst []byte, src []float32, c Numbers, run int, to Integers) {
	n, size := len(src), to.size()
	if n == 0 {
		return
	}
	least, most := to.limits()
	d, x, s, z := first(dst, n*size), first(src, n), first(c.Scales, (n+run-1)/run), first(c.Zeros, (n+run-1)/run)
	eachRun(n, run, func(column, at, groups, runs, rest int) {
		if groups > 0 {
			quantizeRuns(k.set, to.Words, advance(d, at*size), advance(x, at), advance(s, column), advance(z, column), least, most, groups, runs)
		}
		if rest > 0 {
			at += Group * groups
			genericQuantizeRuns(to.Words, advance(d, at*size), advance(x, at), advance(s, column), advance(z, column), least, most, rest, 1)
		}
	})
}

// eachRun calls do for runs of n elements: for some from a column and an element on, with so many groups each, or for one, or a part of one,
// which has a rest behind its groups. No call has many more than callElements.
func eachRun(n, run int, do func(column, at, groups, runs, rest int)) {
	if run%Group == 0 && run < callElements {
		for whole, at := n/run, 0; at < whole; {
			runs := min(whole-at, callElements/run)
			do(at, at*run, run/Group, runs, 0)
			at += runs
		}
		if rest := n % run; rest > 0 {
			do(n/run, n-rest, rest/Group, 1, rest%Group)
		}
		return
	}
	for at := 0; at < n; at += run {
		for from, end := at, min(at+run, n); from < end; from += callElements {
			part := min(end-from, callElements)
			do(at/run, from, part/Group, 1, part%Group)
		}
	}
}

// quantum returns the integer of x.
func quantum(x, scale float32, zero int32, least, most int) int {
	q := x / scale
	if q != q {
		return least
	}
	q = min(max(q, -columnLimit), columnLimit)
	return min(max(int(math.RoundToEven(float64(q)))+int(zero), least), most)
}

// store writes integer i.
func store(words bool, dst *byte, i, q int) {
	if words {
		*(*uint16)(unsafe.Pointer(advance(dst, 2*i))) = uint16(q) // bounded
	} else {
		*advance(dst, i) = byte(q)
	}
}

// integer returns integer i.
func integer(words, signed bool, src *byte, i int) int32 {
	switch {
	case words && signed:
		return int32(*(*int16)(unsafe.Pointer(advance(src, 2*i))))
	case words:
		return int32(*(*uint16)(unsafe.Pointer(advance(src, 2*i))))
	}
	return number(*advance(src, i), signed)
}

func genericQuantizeColumns(words bool, dst *byte, src, scale *float32, zero *int32, least, most, n int) {
	s, z := view(scale, n), view(zero, n)
	for i, x := range view(src, n) {
		store(words, dst, i, quantum(x, s[i], z[i], least, most))
	}
}

func genericQuantizeRuns(words bool, dst *byte, src, scale *float32, zero *int32, least, most, run, n int) {
	s, z := view(scale, n), view(zero, n)
	for i, x := range view(src, n*run) {
		store(words, dst, i, quantum(x, s[i/run], z[i/run], least, most))
	}
}

// DequantizeColumns writes (q - zero)·scale of the integers in src. Every element has a column.
func (k Kernels) DequantizeColumns(dst []float32, src []byte, c Numbers, of Integers) {
	n, size := len(dst), of.size()
	if n == 0 {
		return
	}
	d, x, s, z := first(dst, n), first(src, n*size), first(c.Scales, n), first(c.Zeros, n)
	for at := 0; at < n/Group; at += callElements / Group {
		i := Group * at
		dequantizeColumns(k.set, of.Words, of.Signed, advance(d, i), advance(x, i*size), advance(s, i), advance(z, i), 1, min(n/Group-at, callElements/Group))
	}
	if i := n / Group * Group; i < n {
		genericDequantizeColumns(of.Words, of.Signed, advance(d, i), advance(x, i*size), advance(s, i), advance(z, i), n-i)
	}
}

// DequantizeRuns is DequantizeColumns where each column is that of a run of so many elements, of which the last run may have fewer.
func (k Kernels) DequantizeRuns(dst []float32, src []byte, c Numbers, run int, of Integers) {
	n, size := len(dst), of.size()
	if n == 0 {
		return
	}
	d, x, s, z := first(dst, n), first(src, n*size), first(c.Scales, (n+run-1)/run), first(c.Zeros, (n+run-1)/run)
	eachRun(n, run, func(column, at, groups, runs, rest int) {
		if groups > 0 {
			dequantizeRuns(k.set, of.Words, of.Signed, advance(d, at), advance(x, at*size), advance(s, column), advance(z, column), groups, runs)
		}
		if rest > 0 {
			at += Group * groups
			genericDequantizeRuns(of.Words, of.Signed, advance(d, at), advance(x, at*size), advance(s, column), advance(z, column), rest, 1)
		}
	})
}

func genericDequantizeColumns(words, signed bool, dst *float32, src *byte, scale *float32, zero *int32, n int) {
	s, z := view(scale, n), view(zero, n)
	for i := range n {
		*advance(dst, i) = float32(integer(words, signed, src, i)-z[i]) * s[i]
	}
}

func genericDequantizeRuns(words, signed bool, dst *float32, src *byte, scale *float32, zero *int32, run, n int) {
	s, z := view(scale, n), view(zero, n)
	for i := range n * run {
		*advance(dst, i) = float32(integer(words, signed, src, i)-z[i/run]) * s[i/run]
	}
}
