package carve_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/testshare"
)

// life is a Program that several goroutines use in every way, through a Batcher too, while it is closed.
type life struct {
	p    *carve.Program
	b    *carve.Batcher // nil in every other life
	want []string       // results by the number of rows
	dir  string
}

// eightsOf returns rows of 8 numbers.
func eightsOf(k int) *tensor.Tensor {
	d := make([]float32, 8*k)
	for i := range d {
		d[i] = float32(i%13) * 0.1
	}
	return tensor.From(d, k, 8)
}

func (l *life) same(out map[string]tensor.Value, err error, k int) error {
	if err == nil && bits(out["y"])+bits(out["z"]) != l.want[k] {
		return fmt.Errorf("%d rows have other results", k)
	}
	return err
}

// use does something with k rows.
func (l *life) use(ctx context.Context, r *rand.Rand, k int) error {
	x := eightsOf(k)
	feeds := map[string]tensor.Value{"x": x}
	switch r.IntN(12) {
	case 0, 1:
		y, z := eightsOf(k), eightsOf(k)
		run := l.p.RunInto
		if l.b != nil {
			run = l.b.RunInto
		}
		err := run(ctx, []*tensor.Tensor{x}, []*tensor.Tensor{y, z})
		return l.same(map[string]tensor.Value{"y": y, "z": z}, err, k)
	case 2, 3:
		if l.b != nil {
			out, err := l.b.Run(ctx, feeds)
			return l.same(out, err, k)
		}
	case 4:
		s, err := l.p.NewSession()
		if err != nil {
			return err
		}
		defer s.Close()
		out, err := s.Run(ctx, feeds)
		return l.same(out, err, k)
	case 5:
		l.p.Trim()
		l.p.Memory()
		l.p.Retry()
		if l.b != nil {
			l.b.Stats()
		}
		return nil
	case 6:
		_, err := l.p.Report(ctx, map[string][]int{"x": {k, 8}})
		return err
	case 7:
		d, err := l.p.Check(ctx, feeds)
		if d != nil {
			return errors.New(d.String())
		}
		return err
	case 8:
		_, err := l.p.Plan(ctx, map[string][]int{"x": {k, 8}})
		return err
	case 9:
		if r.IntN(8) == 0 {
			return l.p.SaveBundle(ctx, filepath.Join(l.dir, fmt.Sprint(r.IntN(4))), nil)
		}
	case 10:
		out, _, err := l.p.RunProfiled(ctx, feeds)
		return l.same(out, err, k)
	}
	out, err := l.p.Run(ctx, feeds)
	return l.same(out, err, k)
}

// checkLife compiles, lets goroutines loose, and closes everything at a moment and in an order that the seed chooses.
func checkLife(ctx context.Context, seed uint64, dir string) {
	GinkgoHelper()
	r := rand.New(rand.NewPCG(seed, 3))
	weights := make([]string, 64)
	for i := range weights {
		weights[i] = fmt.Sprint(float32(i%7) * 0.1)
	}
	m := carve.FromGraph(must(graph.Parse("graph {\n  opset 18\n  input %x: f32[N,8]\n  const %w = f32[8,8]{" + strings.Join(weights, ", ") +
		"}\n  %m = MatMul(%x, %w)\n  %r = Relu(%m)\n  %y = Tanh(%r)\n  %z = Softmax(%y; axis=-1)\n  output %y\n  output %z\n}")))
	l := &life{p: mustCompile(ctx, m, &carve.Options{MaxSessions: r.IntN(3), Threads: 1 + r.IntN(2), MaxSpecializations: []int{0, 8, 5}[r.IntN(3)]}), dir: dir}
	if r.IntN(2) == 0 {
		l.b, _ = carve.NewBatcher(l.p, &carve.BatchOptions{MaxBatch: 1 + r.IntN(8), Delay: time.Duration(r.IntN(300)) * time.Microsecond,
			MaxWaiting: r.IntN(5), Timeout: time.Duration(r.IntN(3)) * time.Millisecond, Cold: r.IntN(2) == 0}) // nil where it asks for more plans than there may be
	}
	for k := range 5 {
		out := must(l.p.Run(ctx, map[string]tensor.Value{"x": eightsOf(k)}))
		l.want = append(l.want, bits(out["y"])+bits(out["z"]))
	}
	var wg sync.WaitGroup
	end := time.Now().Add(time.Duration(r.IntN(4000)) * time.Microsecond)
	for w := range uint64(6) {
		wg.Go(func() {
			defer GinkgoRecover()
			for q := rand.New(rand.NewPCG(seed, w)); time.Now().Before(end); {
				c, cancel := context.WithCancel(ctx)
				if q.IntN(5) == 0 {
					c, cancel = context.WithTimeout(ctx, time.Duration(q.IntN(200))*time.Microsecond)
				}
				err := l.use(c, q, q.IntN(5))
				cancel()
				Expect(err).To(Or(BeNil(), MatchError(carve.ErrClosed), MatchError(os.ErrClosed), MatchError(carve.ErrDraining), MatchError(carve.ErrOverloaded),
					MatchError(context.DeadlineExceeded)), "seed %d", seed)
			}
		})
	}
	time.Sleep(time.Duration(r.IntN(3000)) * time.Microsecond)
	order := r.IntN(4)
	if order == 0 {
		Expect(m.Close()).To(Succeed())
	}
	if l.b != nil && order < 2 {
		if r.IntN(2) == 0 {
			Expect(l.b.Drain(ctx)).To(Succeed())
		}
		Expect(l.b.Close()).To(Succeed())
	}
	Expect(l.p.Close()).To(Succeed())
	wg.Wait()
	if l.b != nil {
		Expect(l.b.Close()).To(Succeed())
	}
	Expect(m.Close()).To(Succeed())
}

var _ = Describe("a Program that is closed while goroutines use it in every way", func() {
	It("answers each rightly, or says that it is closed", func(ctx SpecContext) {
		dir := GinkgoT().TempDir()
		for seed := range uint64(testshare.Of(400)) {
			checkLife(ctx, seed, dir)
		}
	}, SpecTimeout(5*time.Minute))

	It("does so ten thousand times", Label("slow"), func(ctx SpecContext) {
		if !strings.Contains(GinkgoLabelFilter(), "slow") {
			Skip("takes long: -ginkgo.label-filter=slow")
		}
		dir := GinkgoT().TempDir()
		for seed := range uint64(10_000) {
			checkLife(ctx, 1000+seed, dir)
		}
	}, SpecTimeout(20*time.Minute))
})
