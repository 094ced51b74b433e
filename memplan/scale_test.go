package memplan_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/memplan"
)

// chain returns buffers that are each alive with the one before and the one
// after, as in a network without branches.
func chain(n int) []memplan.Buffer {
	r := rand.New(rand.NewPCG(1, 1))
	bufs := make([]memplan.Buffer, n)
	for i := range bufs {
		bufs[i] = buf(64*(1+r.Int64N(1<<20)), int64(i), int64(i)+2)
	}
	return bufs
}

// nested returns groups of 64 lifetimes, each inside the one before.
func nested(n int) []memplan.Buffer {
	r := rand.New(rand.NewPCG(2, 1))
	bufs := make([]memplan.Buffer, n)
	for i := range bufs {
		group, depth := int64(i/64), int64(i%64)
		bufs[i] = buf(1+r.Int64N(1<<20), group*200+depth, group*200+199-depth)
	}
	return bufs
}

// heavyTailed returns buffers most of which are small and short-lived, and
// some very large or very long-lived.
func heavyTailed(n int) []memplan.Buffer {
	r := rand.New(rand.NewPCG(3, 1))
	tail := func(scale, power, limit float64) int64 {
		return int64(min(limit, scale*math.Pow(1/(1e-9+r.Float64()), power)))
	}
	bufs := make([]memplan.Buffer, n)
	for i := range bufs {
		from := r.Int64N(int64(n))
		bufs[i] = buf(tail(16, 0.8, 1e9), from, from+1+tail(3, 1.1, float64(n)))
	}
	return bufs
}

// blocks returns buffers as in a network of blocks of one to five steps, some
// with workspace, the first output of each block alive beyond it.
func blocks(n int, seed uint64) []memplan.Buffer {
	r := rand.New(rand.NewPCG(seed, uint64(n)))
	var bufs []memplan.Buffer
	for at := int64(0); len(bufs) < n; {
		size := 16 * (1 + r.Int64N(64))
		first := len(bufs)
		for range 1 + r.IntN(5) {
			bufs = append(bufs, buf(size, at, at+2))
			if r.IntN(3) == 0 {
				bufs = append(bufs, buf(size<<r.IntN(3), at, at+1))
			}
			at++
		}
		bufs[first].Upper += 2 + int64(min(40, 2/(1e-9+r.Float64())))
	}
	return bufs
}

// dense returns buffers as heavyTailed does, with longer lifetimes: of n
// buffers some 3.5 times the root of n are alive at one time.
func dense(n int) []memplan.Buffer {
	r := rand.New(rand.NewPCG(4, 1))
	bufs := make([]memplan.Buffer, n)
	for i := range bufs {
		from, u := r.Int64N(int64(n)), 1e-9+r.Float64()
		life := min(float64(n), 3/(u*u))
		bufs[i] = buf(int64(min(1e9, 16*math.Pow(1/(1e-9+r.Float64()), 0.8))), from, from+1+int64(life))
	}
	return bufs
}

// bySizeBestFit is greedy by size with best fit, in the plainest form: the
// height that heuristics must not exceed.
func bySizeBestFit(bufs []memplan.Buffer) int64 {
	order := make([]int, len(bufs))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(x, y int) int { return int(bufs[y].Size - bufs[x].Size) })
	type block struct{ lo, hi, lower, upper int64 }
	var placed []block // ordered by lo
	height := int64(0)
	for _, i := range order {
		b := bufs[i]
		end, best, room := int64(0), int64(-1), int64(math.MaxInt64)
		for _, p := range placed {
			if p.lower >= b.Upper || b.Lower >= p.upper {
				continue
			}
			if gap := p.lo - end; gap >= b.Size && gap < room {
				best, room = end, gap
			}
			end = max(end, p.hi)
		}
		if best < 0 {
			best = end
		}
		at, _ := slices.BinarySearchFunc(placed, best, func(p block, lo int64) int { return int(p.lo - lo) })
		placed = slices.Insert(placed, at, block{best, best + b.Size, b.Lower, b.Upper})
		height = max(height, best+b.Size)
	}
	return height
}

var _ = Describe("many buffers", func() {
	DescribeTable("at the lower bound", func(bufs []memplan.Buffer) {
		plan, err := memplan.Greedy(bufs)
		Expect(err).NotTo(HaveOccurred())
		Expect(plan.Height).To(Equal(memplan.LowerBound(bufs)))
		Expect(memplan.Verify(bufs, plan.Offsets, plan.Height)).To(Succeed())
	},
		Entry("chain", chain(100_000)),
		Entry("nested lifetimes", nested(100_000)),
		Entry("blocks", blocks(1000, 0)),
	)

	It("never packs higher than greedy by size", func() {
		for _, n := range []int{10, 100, 1000, 6000} {
			bufs := heavyTailed(n)
			plan, err := memplan.Greedy(bufs)
			Expect(err).NotTo(HaveOccurred())
			Expect(memplan.Verify(bufs, plan.Offsets, plan.Height)).To(Succeed())
			Expect(plan.Height).To(BeNumerically("<=", bySizeBestFit(bufs)))
		}
	})

	It("gives the same plan with one thread and with several", func(ctx SpecContext) {
		bufs := heavyTailed(5000)
		one, err := memplan.Pack(ctx, bufs, &memplan.Options{Steps: 20000, Threads: 1})
		Expect(err).NotTo(HaveOccurred())
		three, err := memplan.Pack(ctx, bufs, &memplan.Options{Steps: 20000, Threads: 3})
		Expect(err).NotTo(HaveOccurred())
		Expect(three).To(BeComparableTo(one))
	})
})

var _ = Describe("cancelling", func() {
	sound := func(bufs []memplan.Buffer, plan memplan.Plan, err error) {
		GinkgoHelper()
		if err == nil {
			Expect(memplan.Verify(bufs, plan.Offsets, plan.Height)).To(Succeed())
		} else {
			Expect(errors.Is(err, memplan.ErrNoPlan) && errors.Is(err, context.Canceled)).To(BeTrue(), "%v", err)
		}
	}

	// Of so many buffers no heuristic comes to an end before it looks at its context.
	DescribeTable("before the call leaves no time for a plan", func(bufs []memplan.Buffer) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_, err := memplan.Pack(ctx, bufs, nil)
		Expect(err).To(MatchError(memplan.ErrNoPlan))
		Expect(err).To(MatchError(context.Canceled))
	},
		Entry("in heuristics", heavyTailed(300_000)),
		Entry("with padding, gaps and shared space", varied(200_000)),
	)

	DescribeTable("stops what is under way", func(bufs []memplan.Buffer, o *memplan.Options, after ...time.Duration) {
		for _, wait := range after {
			ctx, cancel := context.WithCancel(context.Background())
			time.AfterFunc(wait, cancel)
			plan, err := memplan.Pack(ctx, bufs, o)
			cancel()
			sound(bufs, plan, err)
		}
	},
		Entry("in heuristics", heavyTailed(300_000), nil, time.Millisecond, 20*time.Millisecond, 60*time.Millisecond, 100*time.Millisecond, 250*time.Millisecond),
		Entry("with padding, gaps and shared space", varied(200_000), nil,
			time.Millisecond, 20*time.Millisecond, 60*time.Millisecond, 100*time.Millisecond, 250*time.Millisecond),
		Entry("in search", tiling(500, 9)[:470], &memplan.Options{Steps: 1 << 40}, 10*time.Millisecond, 100*time.Millisecond),
	)

	// The steps would take days: that Pack returns is what is to be seen.
	DescribeTable("stops a search that would go on for days", func(bufs []memplan.Buffer, after ...time.Duration) {
		for _, wait := range after {
			ctx, cancel := context.WithCancel(context.Background())
			time.AfterFunc(wait, cancel)
			plan, err := memplan.Pack(ctx, bufs, &memplan.Options{Steps: 1 << 40})
			Expect(ctx.Err()).To(MatchError(context.Canceled), "it was stopped")
			sound(bufs, plan, err)
		}
	},
		Entry("in search", varied(5_000), 10*time.Millisecond, 400*time.Millisecond),
		Entry("in local search", varied(20_000), 100*time.Millisecond, 400*time.Millisecond),
	)
})

// varied returns heavy-tailed buffers that are aligned, every third with a
// gap, and every fifth in place of the one before.
func varied(n int) []memplan.Buffer {
	bufs := heavyTailed(n)
	for i := range bufs {
		b := &bufs[i]
		b.Align = 64
		if third := (b.Upper - b.Lower) / 3; i%3 == 0 && third > 0 {
			b.Gaps = []memplan.Interval{{Lower: b.Lower + third, Upper: b.Upper - third}}
		}
		if i%5 == 4 {
			b.Lower, b.Upper = bufs[i-1].Upper-1, max(b.Upper, bufs[i-1].Upper+1)
			b.Gaps, b.Share = nil, []int{i - 1}
		}
	}
	return bufs
}

// tiling returns about n buffers that fill a square of 1024 by 1024 without
// gaps, in random order: hard to pack again.
func tiling(n int, seed uint64) []memplan.Buffer {
	r := rand.New(rand.NewPCG(seed, 5))
	type tile struct{ x0, x1, y0, y1 int64 }
	tiles := []tile{{0, 1024, 0, 1024}}
	for len(tiles) < n {
		i := r.IntN(len(tiles))
		t := tiles[i]
		w, h := t.x1-t.x0, t.y1-t.y0
		switch {
		case w > 8 && (h <= 8 || r.Int64N(w+h) < w):
			cut := t.x0 + 1 + r.Int64N(w-1)
			tiles[i].x1 = cut
			tiles = append(tiles, tile{cut, t.x1, t.y0, t.y1})
		case h > 8:
			cut := t.y0 + 1 + r.Int64N(h-1)
			tiles[i].y1 = cut
			tiles = append(tiles, tile{t.x0, t.x1, cut, t.y1})
		}
	}
	bufs := make([]memplan.Buffer, len(tiles))
	for i, t := range tiles {
		bufs[i] = buf(t.y1-t.y0, t.x0, t.x1)
	}
	r.Shuffle(len(bufs), func(i, j int) { bufs[i], bufs[j] = bufs[j], bufs[i] })
	return bufs
}

func BenchmarkGreedy(b *testing.B) {
	for _, kind := range []struct {
		name string
		make func(int) []memplan.Buffer
	}{{"chain", chain}, {"nested", nested}, {"heavy-tailed", heavyTailed}, {"dense", dense}} {
		for _, n := range []int{100, 1000, 10_000, 100_000, 1_000_000} {
			b.Run(fmt.Sprintf("kind=%s/buffers=%d", kind.name, n), func(b *testing.B) {
				bufs := kind.make(n)
				b.ReportAllocs()
				var plan memplan.Plan
				for b.Loop() {
					var err error
					if plan, err = memplan.Greedy(bufs); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(plan.Height)/float64(plan.LowerBound), "height/bound")
			})
		}
	}
}

func BenchmarkVerify(b *testing.B) {
	bufs := heavyTailed(100_000)
	plan, err := memplan.Greedy(bufs)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := memplan.Verify(bufs, plan.Offsets, plan.Height); err != nil {
			b.Fatal(err)
		}
	}
}
