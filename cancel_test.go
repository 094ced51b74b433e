package carve_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph/tensor"
)

// asked is a context that ends when it has been asked so many times whether it has. Nothing here depends on how fast the machine
// is: how soon work stops is said in questions that it asks on its way.
type asked struct {
	context.Context
	end   context.CancelFunc
	limit int64
	count atomic.Int64
}

// Err implements context.Context.
func (a *asked) Err() error {
	if a.count.Add(1) > a.limit {
		a.end()
	}
	return a.Context.Err()
}

// stops calls work with contexts that end after so many questions. It expects each time that work comes so far, and that it returns
// the context's error with few questions more: one for each part of a loop that is under way, and some on the way out.
func stops(work func(ctx context.Context) error, after ...int64) {
	GinkgoHelper()
	few := int64(16 + 8*runtime.GOMAXPROCS(0))
	for _, limit := range after {
		ctx, cancel := context.WithCancel(context.Background())
		a := &asked{Context: ctx, end: cancel, limit: limit}
		err := work(a)
		cancel()
		Expect(err).To(MatchError(context.Canceled), "%d questions, to end after %d", a.count.Load(), limit)
		AddReportEntry(fmt.Sprintf("questions after %d", limit), a.count.Load()-limit)
		Expect(a.count.Load()-limit).To(BeNumerically("<=", few), "after %d", limit)
	}
}

var onReference = []backend.Config{{Name: "reference"}}

var _ = Describe("a context that ends", func() {
	It("stops loading and Compile", func() {
		openZoo(context.Background(), "vgg11") // or skip
		path := zooPath("vgg11")
		stops(func(ctx context.Context) error { return compiles(ctx, path) }, 0, 1, 10, 50, 100, 200)
	})

	for _, name := range []string{"vgg11", "unet"} {
		for _, list := range [][]backend.Config{nil, onReference} {
			backends, after := "cpu", []int64{0, 1, 5, 10, 15} // it asks once a part of a loop: on one thread, once a step
			if list != nil {
				backends, after = "reference", []int64{0, 1, 10, 100, 200}
			}
			It("stops a run of "+name+" on "+backends, func() {
				z := openZoo(context.Background(), name)
				p := compile(context.Background(), z.Model, &carve.Options{Backends: list})
				in, out := []*tensor.Tensor{}, make([]*tensor.Tensor, len(p.Outputs()))
				for _, port := range p.Inputs() {
					in = append(in, z.feeds[port.Name].(*tensor.Tensor))
				}
				stops(func(ctx context.Context) error {
					_, err := p.Run(ctx, z.feeds)
					return err
				}, after...)
				stops(func(ctx context.Context) error { return p.RunInto(ctx, in, out) }, after...)
				if list == nil {
					res, err := p.Run(context.Background(), z.feeds)
					Expect(err).NotTo(HaveOccurred())
					_, err = z.ref.Compare(res)
					Expect(err).NotTo(HaveOccurred())
				}
			})
		}
	}

	It("is seen before anything is done", func() {
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(errors.New("gone"))
		m := textModel(smallNet())
		_, err := carve.Compile(ctx, m, nil)
		Expect(err).To(MatchError(context.Canceled))
		p := compile(context.Background(), m, nil)
		feeds := map[string]tensor.Value{"x": wave(1, 3, 8, 8)}
		_, err = p.Run(ctx, feeds)
		Expect(err).To(MatchError(context.Canceled))
		_, err = p.Run(context.Background(), feeds)
		Expect(err).NotTo(HaveOccurred())
	})

	It("stops an endless loop", func() {
		p := compile(context.Background(), textModel(`graph {
  opset 17
  input %x: f32[2]
  const %m = i64[]{9223372036854775807}
  const %c = bool[]{true}
  %y = Loop(%m, %c, %x |) "forever" {
    body: graph {
      input %i: i64[]
      input %k: bool[]
      input %v: f32[2]
      %w = Sin(%v)
      %l = Identity(%k)
      output %l, %w
    }
  }
  output %y
}`), nil)
		stops(func(ctx context.Context) error {
			_, err := p.Run(ctx, map[string]tensor.Value{"x": wave(2)})
			return err
		}, 1000)
	})
})

// beside is a context that ends when there is a file in a folder.
type beside struct {
	context.Context
	dir string
}

// Err implements context.Context.
func (b beside) Err() error {
	if list, _ := os.ReadDir(b.dir); len(list) > 0 {
		return context.Canceled
	}
	return nil
}

var _ = It("a context that ends while a bundle is written leaves no file", func(ctx SpecContext) {
	p := compile(ctx, textModel(pictures()), nil)
	dir := GinkgoT().TempDir()
	Expect(p.SaveBundle(beside{ctx, dir}, filepath.Join(dir, "m.carve"), nil)).To(MatchError(context.Canceled))
	Expect(os.ReadDir(dir)).To(BeEmpty())
})

// closing closes a program when its context is looked at for the nth time.
type closing struct {
	context.Context
	p    *carve.Program
	left int
}

// Err implements context.Context.
func (c *closing) Err() error {
	if c.left--; c.left == 0 {
		Expect(c.p.Close()).To(Succeed())
	}
	return nil
}

var _ = It("a program that is closed while a bundle is written ends behind it, and the bundle is whole", func(ctx SpecContext) {
	weights := make([]string, 64*64)
	for i := range weights {
		weights[i] = fmt.Sprint(float32(i%7) * 0.1)
	}
	const text = "graph {\n  opset 18\n  input %%x: f32[1,64]\n  const %%w = f32[64,64]{%s}\n  %%m = MatMul(%%x, %%w)\n  output %%m\n}"
	m := textModel(fmt.Sprintf(text, strings.Join(weights, ", ")))
	DeferCleanup(m.Close)
	feeds := map[string]tensor.Value{"x": wave(1, 64)}
	for left := 1; ; left++ {
		p := mustCompile(ctx, m, nil)
		want := must(p.Run(ctx, feeds))
		closer := &closing{ctx, p, left}
		path := filepath.Join(GinkgoT().TempDir(), "closed")
		Expect(p.SaveBundle(closer, path, nil)).To(Succeed(), "closed at look %d", left)
		Expect(p.Close()).To(Succeed())
		saved := must(carve.Open(ctx, path))
		q := mustCompile(ctx, saved, nil)
		expectSame(must(q.Run(ctx, feeds)), want)
		Expect(q.Close()).To(Succeed())
		Expect(saved.Close()).To(Succeed())
		if closer.left > 0 {
			break
		}
	}
	p := mustCompile(ctx, m, nil)
	Expect(p.Close()).To(Succeed())
	Expect(p.SaveBundle(ctx, filepath.Join(GinkgoT().TempDir(), "late"), nil)).To(MatchError(carve.ErrClosed))
})

var _ = It("a bundle without a path, and one of a model that is closed, are refused for what they are", func(ctx SpecContext) {
	m := textModel("graph {\n  opset 18\n  input %x: f32[2]\n  %y = Relu(%x)\n  output %y\n}")
	p := mustCompile(ctx, m, nil)
	DeferCleanup(p.Close)
	Expect(p.SaveBundle(ctx, "", nil)).To(And(MatchError(carve.ErrInput), MatchError(ContainSubstring("no path"))))
	Expect(m.Close()).To(Succeed())
	closed := And(MatchError(carve.ErrClosed), MatchError(fs.ErrClosed), MatchError("model is closed"))
	dir := GinkgoT().TempDir()
	Expect(p.SaveBundle(ctx, filepath.Join(dir, "late"), nil)).To(closed)
	Expect(os.ReadDir(dir)).To(BeEmpty())
	_, err := carve.Compile(ctx, m, nil)
	Expect(err).To(closed)
})
