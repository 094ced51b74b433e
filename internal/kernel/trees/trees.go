package trees

import (
	"math"

	"github.com/carve-dev/carve/internal/kernel/isa"
)

// Walks is how many walks go on side by side.
const Walks = 32

// Kernels are the functions of this package for one target: see package isa. The zero value is those in portable Go. Safe for concurrent
// use.
type Kernels struct{ set isa.Set }

// For returns the kernels of a target.
func For(t isa.Target) Kernels { return Kernels{t.Set} }

// Fast reports whether there are kernels for the target: portable ones are no faster than walks through any other layout.
func (k Kernels) Fast() bool { return k.set == isa.AVX512 || k.set == isa.AVX2 }

// Ahead is how many nodes kernels read from a root on.
const Ahead = 32

// Forest are trees for kernels. Who makes one answers for it that all walks from its roots end at leaves.
type Forest struct {
	Nodes []uint64 // with at least Ahead of them from each root on
	Roots []int32  // and Walks more places of nodes behind the last
	Bits  int      // of features, at least 1
}

// Leaf returns a leaf that holds bits.
func Leaf(bits uint32) uint64 { return uint64(bits) }

// Branch returns the node at a place where x ≤ split, and NaN where missing is set, go on at node to, others at to+1. ok is false where the
// way is longer than a node can say, or none.
func (f *Forest) Branch(at, to, feature int, split float32, missing bool) (node uint64, ok bool) {
	step, room := to-at, 31-f.Bits
	if room < 2 || step == 0 || step < -1<<(room-1) || step >= 1<<(room-1) || feature < 0 || feature >= 1<<f.Bits {
		return 0, false
	}
	way := uint32(step)<<(f.Bits+1) | uint32(feature)
	if missing {
		way |= 1 << f.Bits
	}
	return uint64(way)<<32 | uint64(math.Float32bits(split)), true
}

// Row walks trees [lo, hi) with a row and writes what their leaves hold to out, which has room for whole groups of Walks. The row has all
// features.
func (k Kernels) Row(out []uint32, f *Forest, lo, hi int, x []float32) {
	if lo >= hi {
		return
	}
	room := (hi - lo + Walks - 1) / Walks * Walks
	_, _ = out[room-1], f.Roots[lo+room-1]
	if f.Bits <= 5 && k.set == isa.AVX512 {
		var near [32]float32
		copy(near[:], x)
		row(k.set, true, &out[0], &f.Nodes[0], &f.Roots[lo], hi-lo, &near[0], f.Bits)
		return
	}
	row(k.set, false, &out[0], &f.Nodes[0], &f.Roots[lo], hi-lo, &x[0], f.Bits)
}

// Leaves walks trees [lo, hi) with Walks rows that begin at offsets of x, and writes what their leaves hold to out, tree by tree.
func (k Kernels) Leaves(out []uint32, f *Forest, lo, hi int, x []float32, offsets *[Walks]int32) {
	if lo >= hi {
		return
	}
	_, _ = out[(hi-lo)*Walks-1], f.Roots[hi-1]
	leaves(k.set, &out[0], &f.Nodes[0], &f.Roots[lo], hi-lo, &x[0], &offsets[0], f.Bits)
}

// Sum walks trees as Leaves does and adds what their leaves hold, as float32, to sums [targets, Walks]: to those of the target of each tree.
func (k Kernels) Sum(sums []float64, targets []int32, f *Forest, lo, hi int, x []float32, offsets *[Walks]int32) {
	if lo >= hi {
		return
	}
	_ = f.Roots[hi-1]
	targets = targets[lo:hi]
	sum(k.set, &sums[0], &targets[0], &f.Nodes[0], &f.Roots[lo], hi-lo, &x[0], &offsets[0], f.Bits)
}
