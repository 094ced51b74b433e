package carve_test

import (
	"context"
	"maps"
	"runtime"
	"slices"
	"sync"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/offheap"
)

// expectSame compares two sets of outputs bit by bit.
func expectSame(got, want map[string]tensor.Value, what ...any) {
	GinkgoHelper()
	Expect(slices.Sorted(maps.Keys(got))).To(Equal(slices.Sorted(maps.Keys(want))), what...)
	for name, w := range want {
		if bits(got[name]) != bits(w) {
			Fail("output " + name + " differs")
		}
	}
}

// storm runs a program from 64 goroutines, 100 times each, and compares every result with the first.
func storm(ctx context.Context, p *carve.Program, feeds map[string]tensor.Value) {
	GinkgoHelper()
	want, err := p.Run(ctx, feeds)
	Expect(err).NotTo(HaveOccurred())
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			defer GinkgoRecover()
			for range 100 {
				got, err := p.Run(ctx, feeds)
				Expect(err).NotTo(HaveOccurred())
				expectSame(got, want)
			}
		})
	}
	wg.Wait()
}

// heapBytes returns the live heap after two collections.
func heapBytes() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// steady runs 1,000 times and compares the memory on Go's heap and beside it with what they were after 100 runs.
func steady(run func()) {
	GinkgoHelper()
	for range 100 {
		run()
	}
	beside := func() int64 { runtime.GC(); return offheap.Total().Anonymous }
	heap, held := heapBytes(), beside()
	for range 900 {
		run()
	}
	const slack = 4 << 20
	Eventually(heapBytes).Should(BeNumerically("<=", heap+heap/100+slack), "heap") // clean-ups come behind a collection
	Eventually(beside).Should(BeNumerically("<=", held+held/100+slack), "beside the heap")
}

var _ = Describe("concurrent runs", func() {
	It("give the same bits as a single one: bert_tiny", func(ctx SpecContext) {
		z := openZoo(ctx, "bert_tiny")
		storm(ctx, compile(ctx, z.Model, nil), z.feeds)
	})

	for _, name := range []string{"gpt2_tiny", "lstm_tagger", "shufflenet_v2_x1_0"} {
		It("give the same bits as a single one: "+name, Label("soak"), func(ctx SpecContext) {
			z := openZoo(ctx, name)
			storm(ctx, compile(ctx, z.Model, nil), z.feeds)
		})
	}

	It("give the same bits as a single one: convolutions, more sessions than cores", func(ctx SpecContext) {
		p := compile(ctx, textModel(smallNet()), &carve.Options{MaxSessions: 7, Threads: 2})
		storm(ctx, p, map[string]tensor.Value{"x": wave(2, 3, 9, 11)})
	})

	It("give the same bits at different shapes at once", func(ctx SpecContext) {
		p := compile(ctx, textModel(smallNet()), &carve.Options{MaxSessions: 4, MaxSpecializations: 2})
		var wg sync.WaitGroup
		for i := range 8 {
			feeds := map[string]tensor.Value{"x": wave(1+i%3, 3, 4+i, 5+i)}
			want, err := p.Run(ctx, feeds)
			Expect(err).NotTo(HaveOccurred())
			wg.Go(func() {
				defer GinkgoRecover()
				for range 50 {
					got, err := p.Run(ctx, feeds)
					Expect(err).NotTo(HaveOccurred())
					expectSame(got, want)
				}
			})
		}
		wg.Wait()
	})

	It("of Programs of one Model share it", func(ctx SpecContext) {
		m := textModel(smallNet())
		feeds := map[string]tensor.Value{"x": wave(1, 3, 8, 8)}
		want, err := compile(ctx, m, nil).Run(ctx, feeds)
		Expect(err).NotTo(HaveOccurred())
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				defer GinkgoRecover()
				p, err := carve.Compile(ctx, m, nil)
				Expect(err).NotTo(HaveOccurred())
				defer p.Close()
				got, err := p.Run(ctx, feeds)
				Expect(err).NotTo(HaveOccurred())
				expectSame(got, want)
			})
		}
		wg.Wait()
	})

	for _, name := range []string{"bert_tiny", "lstm_tagger", "shufflenet_v2_x1_0"} {
		It("do not depend on the number of threads: "+name, func(ctx SpecContext) {
			z := openZoo(ctx, name)
			want, err := compile(ctx, z.Model, &carve.Options{Threads: 1}).Run(ctx, z.feeds)
			Expect(err).NotTo(HaveOccurred())
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
			for _, n := range []int{2, 3} {
				got, err := compile(ctx, z.Model, &carve.Options{Threads: n}).Run(ctx, z.feeds)
				Expect(err).NotTo(HaveOccurred())
				expectSame(got, want)
			}
		})
	}
})

var _ = Describe("memory", Serial, func() {
	It("does not grow with runs", func(ctx SpecContext) {
		z := openZoo(ctx, "bert_tiny")
		p := compile(ctx, z.Model, nil)
		steady(func() {
			_, err := p.Run(ctx, z.feeds)
			Expect(err).NotTo(HaveOccurred())
		})
		in, out := z.arguments(ctx, p)
		steady(func() { Expect(p.RunInto(ctx, in, out)).To(Succeed()) })
	})

	It("does not grow with shapes", func(ctx SpecContext) {
		p := compile(ctx, textModel(smallNet()), nil)
		x := wave(1, 3, 80, 80)
		i := 0
		steady(func() {
			i++
			shape := []int{1, 3, 2 + i%70, 2 + i*7%70}
			_, err := p.Run(ctx, map[string]tensor.Value{"x": &tensor.Tensor{DType: x.DType, Shape: shape, Data: x.Data}})
			Expect(err).NotTo(HaveOccurred())
		})
	})

	It("does not grow with Programs", func(ctx SpecContext) {
		m := textModel(smallNet())
		feeds := map[string]tensor.Value{"x": wave(1, 3, 8, 8)}
		steady(func() {
			p, err := carve.Compile(ctx, m, nil)
			Expect(err).NotTo(HaveOccurred())
			_, err = p.Run(ctx, feeds)
			Expect(err).NotTo(HaveOccurred())
			Expect(p.Close()).To(Succeed())
		})
	})

	It("is small for models whose weights are in a file", func(ctx SpecContext) {
		z := openZoo(ctx, "bert_tiny")
		p := compile(ctx, z.Model, nil)
		_, err := p.Run(ctx, z.feeds)
		Expect(err).NotTo(HaveOccurred())
		m := p.Memory()
		Expect(m.Arenas).To(BeNumerically(">", 0))
		Expect(m.PackedWeights).To(BeNumerically(">", 0))
		Expect(p.Close()).To(Succeed())
		Expect(p.Memory().Arenas).To(BeZero())
	})
})

// BenchmarkGoroutine runs a small model on one goroutine, and on a new one for each run.
func BenchmarkGoroutine(b *testing.B) {
	ctx := context.Background()
	m, err := carve.Open(ctx, "examples/quickstart/digits.onnx")
	if err != nil {
		b.Fatal(err)
	}
	defer m.Close()
	p, err := carve.Compile(ctx, m, &carve.Options{Threads: 1})
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	feeds := map[string]tensor.Value{"image": tensor.From(make([]float32, 64), 1, 1, 8, 8)}
	run := func() {
		if _, err := p.Run(ctx, feeds); err != nil {
			b.Error(err)
		}
	}
	b.Run("kept", func(b *testing.B) {
		for b.Loop() {
			run()
		}
	})
	b.Run("new", func(b *testing.B) {
		for b.Loop() {
			done := make(chan struct{})
			go func() {
				defer close(done)
				run()
			}()
			<-done
		}
	})
}
