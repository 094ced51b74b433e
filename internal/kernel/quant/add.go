package quant

import (
	"bytes"
	"math"

	"github.com/carve-dev/carve/internal/kernel/isa"
)

// Adder is how integers of 8 bits are added as the floats that they stand for, each step rounded to float32: as where they become floats,
// are added, and become integers again. It is immutable.
type Adder struct {
	signed bool // operands are
	params addParams
}

// addParams is what a kernel reads beside its pointers. The generator knows the offsets of the fields.
type addParams struct {
	scales         [2]float32
	scale, inverse float32 // of the result
	zeros          [2]int32
	limits         limits
}

// addGroup is the elements of a group.
const addGroup = 64

// NewAdder returns what adds integers of these levels to those of others between lo and hi; nil where there is no kernel, or where its
// result is another than the definition's for some pair of integers: all are tried, in some 70 µs. The kernel divides by
// multiplying with the inverse and correcting that, which is exact but where numbers are close to the limits of float32.
func (k Kernels) NewAdder(a, b, to Levels, lo, hi int) *Adder {
	if k.set != isa.AVX512 || a.Signed != b.Signed {
		return nil
	}
	x := &Adder{signed: a.Signed, params: addParams{scales: [2]float32{a.Scale, b.Scale}, scale: to.Scale, inverse: 1 / to.Scale,
		zeros: [2]int32{int32(a.Zero), int32(b.Zero)}, limits: newLimits(to, lo, hi)}}
	if !k.agrees(x, a, b, to, lo, hi) {
		return nil
	}
	return x
}

// agrees reports whether an adder gives the results of the definition for all pairs of integers.
func (k Kernels) agrees(x *Adder, a, b, to Levels, lo, hi int) bool {
	const all = math.MaxUint8 + 1
	var one, other, got, want, bounded [all]byte
	var floats [2][all]float32
	var sums [all]float32
	for i := range other {
		other[i] = byte(i)
		bounded[i] = byte(min(max(int(number(byte(i), to.Signed)), to.bound(lo)), to.bound(hi)))
	}
	k.Dequantize(floats[0][:], other[:], a)
	k.Dequantize(floats[1][:], other[:], b)
	for i, f := range floats[0] {
		for j, g := range floats[1] {
			one[j], sums[j] = byte(i), f+g
		}
		k.Add(x, got[:], one[:], other[:])
		k.Quantize(want[:], sums[:], to)
		k.Look(want[:], want[:], &bounded)
		if !bytes.Equal(got[:], want[:]) {
			return false
		}
	}
	return true
}

// Add adds integers a and b, slices of dst's length; dst may be either of them.
func (k Kernels) Add(x *Adder, dst, a, b []byte) {
	n := len(dst)
	a, b = a[:n], b[:n]
	groups := n / addGroup
	for at := 0; at < groups; at += callElements / addGroup {
		i := at * addGroup
		add(k.set, x.signed, &x.params, &dst[i], &a[i], &b[i], min(groups-at, callElements/addGroup))
	}
	if at := groups * addGroup; at < n {
		var near [2][addGroup]byte
		copy(near[0][:], a[at:])
		copy(near[1][:], b[at:])
		add(k.set, x.signed, &x.params, &near[0][0], &near[0][0], &near[1][0], 1)
		copy(dst[at:], near[0][:])
	}
}
