package trees_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"os/exec"
	"unsafe"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/kernel/asm"
	"github.com/carve-dev/carve/internal/kernel/guard"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/kernel/trees"
)

var _ = It("generated files are up to date", func(ctx SpecContext) {
	err := asm.Verify(ctx, "gen.go", "gen_single.go")
	if errors.Is(err, exec.ErrNotFound) {
		Skip("no go command")
	}
	Expect(err).NotTo(HaveOccurred())
})

// buffers are those of the running spec.
var buffers guard.Set

// guarded returns room for n words with a page behind them, or in front, that faults.
func guarded[T uint32 | int32 | uint64 | float32 | float64](r *rand.Rand, n int) []T {
	GinkgoHelper()
	var zero T
	b, err := buffers.New(n*int(unsafe.Sizeof(zero))/4, []guard.Side{guard.End, guard.Start}[r.IntN(2)], DeferCleanup)
	Expect(err).NotTo(HaveOccurred())
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b.Data))), n)
}

// node is a node of a tree as the specs see it; a leaf has no way on.
type node struct {
	feature, to int
	split       float32
	missing     bool
	holds       float32
}

// leaf walks by definition.
func leaf(nodes []node, at int, row []float32) float32 {
	for {
		n := nodes[at]
		if n.to < 0 {
			return n.holds
		}
		x := row[n.feature]
		if at = n.to; !(x <= n.split) && !(x != x && n.missing) {
			at++
		}
	}
}

// grow makes trees, of which some share nodes, and ways lead back in memory at times.
func grow(r *rand.Rand, count, features int, numbers []float32) (nodes []node, roots []int) {
	for range count {
		first := len(nodes)
		for range 2 + 2*r.IntN(4) {
			nodes = append(nodes, node{to: -1, holds: float32(r.NormFloat64())})
		}
		for range r.IntN(12) {
			for range 2 {
				pair := first + 2*r.IntN((len(nodes)-first)/2)
				nodes = append(nodes, node{feature: r.IntN(features), to: pair, split: numbers[r.IntN(len(numbers))], missing: r.IntN(2) == 0})
			}
		}
		roots = append(roots, len(nodes)-1-r.IntN(2))
	}
	return nodes, roots
}

var _ = It("walks end where the definition's do, for every instruction set", func() {
	r := rand.New(rand.NewPCG(1, 2))
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	numbers := []float32{-1, 0, 1, 2.5, inf, -inf, nan, math.SmallestNonzeroFloat32}
	for _, t := range isa.Targets() {
		kernels := trees.For(t)
		for trial := range 150 {
			features, count, targets := []int{1, 5, 32, 33, 90}[r.IntN(5)], 1+r.IntN(70), 1+r.IntN(3)
			drawn, roots := grow(r, count, features, numbers)
			f := &trees.Forest{Nodes: guarded[uint64](r, len(drawn)+trees.Ahead), Roots: guarded[int32](r, count+trees.Walks), Bits: []int{7, 9, 12}[r.IntN(3)]}
			if features <= 32 && trial%2 == 0 {
				f.Bits = 5
			}
			for i, n := range drawn {
				ok := true
				if f.Nodes[i] = trees.Leaf(math.Float32bits(n.holds)); n.to >= 0 {
					f.Nodes[i], ok = f.Branch(i, n.to, n.feature, n.split, n.missing)
				}
				Expect(ok).To(BeTrue())
			}
			for i := range f.Roots {
				f.Roots[i] = int32(roots[min(i, count-1)])
			}
			pitch := features + r.IntN(3)
			x := guarded[float32](r, (trees.Walks-1)*pitch+features)
			for i := range x {
				x[i] = numbers[r.IntN(len(numbers))]
			}
			offsets, toTarget := (*[trees.Walks]int32)(guarded[int32](r, trees.Walks)), guarded[int32](r, count)
			for i := range offsets {
				offsets[i] = int32(i * pitch)
			}
			for i := range toTarget {
				toTarget[i] = int32(r.IntN(targets))
			}
			lo := r.IntN(count + 1)
			hi := lo + r.IntN(count-lo+1)
			sums, held, one := guarded[float64](r, targets*trees.Walks), guarded[uint32](r, (hi-lo)*trees.Walks), guarded[uint32](r, (hi-lo+31)/32*32)
			clear(sums)
			kernels.Sum(sums, toTarget, f, lo, hi, x, offsets)
			kernels.Leaves(held, f, lo, hi, x, offsets)
			for l := range trees.Walks {
				row, want := x[l*pitch:][:features], make([]float64, targets)
				kernels.Row(one, f, lo, hi, row)
				for i := range hi - lo {
					w := leaf(drawn, roots[lo+i], row)
					want[toTarget[lo+i]] += float64(w)
					Expect(math.Float32frombits(one[i])).To(Equal(w), "%v: row %d, tree %d", t.Set, l, lo+i)
					Expect(math.Float32frombits(held[i*trees.Walks+l])).To(Equal(w), "%v: row %d, tree %d", t.Set, l, lo+i)
				}
				for target, w := range want {
					Expect(sums[target*trees.Walks+l]).To(Equal(w))
				}
			}
		}
	}
})

var _ = It("ways that a node cannot say are refused", func() {
	f := &trees.Forest{Bits: 20}
	for _, c := range []struct {
		at, to, feature int
		ok              bool
	}{{0, 1, 0, true}, {0, 0, 0, false}, {0, 1023, 1<<20 - 1, true}, {0, 1024, 0, false}, {1024, 0, 0, true}, {1025, 0, 0, false}, {0, 1, 1 << 20, false}, {0, 1, -1, false}} {
		_, ok := f.Branch(c.at, c.to, c.feature, 0, true)
		Expect(ok).To(Equal(c.ok), "%+v", c)
	}
	for bits := 30; bits < 70; bits++ {
		_, ok := (&trees.Forest{Bits: bits}).Branch(0, 1, 0, 0, false)
		Expect(ok).To(BeFalse())
	}
})
