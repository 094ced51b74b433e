package convert_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/pool"
)

var _ = Describe("PlanHostCast", func() {
	ctx := context.Background()
	types := []tensor.DType{tensor.Float32, tensor.Float16, tensor.BFloat16, tensor.Uint8, tensor.Int8, tensor.Float64, tensor.Int64, tensor.Bool}

	// numbers returns a row-major tensor of small numbers.
	numbers := func(dt tensor.DType, dims []int, r *rand.Rand) *tensor.Tensor {
		GinkgoHelper()
		n := 1
		for _, d := range dims {
			n *= d
		}
		x := make([]byte, 4*n)
		for i := range n {
			binary.LittleEndian.PutUint32(x[4*i:], math.Float32bits(float32(r.NormFloat64()*50)))
		}
		t, err := tensor.Convert(&tensor.Tensor{DType: tensor.Float32, Shape: dims, Data: x}, dt, nil)
		Expect(err).NotTo(HaveOccurred())
		return t
	}
	// check compares a move with a cast of the logical tensor and a reorder.
	check := func(from, to string, src, dst tensor.DType, dims []int, w *device.Workers, r *rand.Rand) {
		GinkgoHelper()
		what := fmt.Sprintf("%v %q %v to %q %v", dims, from, src, to, dst)
		logical := numbers(src, dims, r)
		cast, err := tensor.Convert(logical, dst, nil)
		Expect(err).NotTo(HaveOccurred(), what)
		reordered := func(tag string, t *tensor.Tensor) *tensor.Tensor {
			out := storage(layout(tag), t.DType, dims, 0, r)
			move, err := convert.PlanHost(graph.RowMajor, layout(tag), t.DType, dims)
			Expect(err).NotTo(HaveOccurred(), what)
			Expect(move(ctx, out, t, convert.Exec{})).To(Succeed(), what)
			return out
		}
		in, want, got := reordered(from, logical), reordered(to, cast), storage(layout(to), dst, dims, 0, r)
		move, err := convert.PlanHostCast(layout(from), layout(to), src, dst, dims)
		Expect(err).NotTo(HaveOccurred(), what)
		Expect(move(ctx, got, in, convert.Exec{Workers: w})).To(Succeed(), what)
		Expect(bytes.Equal(got.Data, want.Data)).To(BeTrue(), what)
	}

	It("casts between all types and layouts", func() {
		r := rand.New(rand.NewPCG(1, 2))
		pool.Acquire()
		defer pool.Release()
		run := pool.BeginRun(2)
		defer run.End()
		w := &device.Workers{Run: run}
		for _, p := range pairs {
			for _, src := range types {
				for _, dst := range types {
					check(p.from, p.to, src, dst, shape(p.rank, r), w, r)
				}
			}
		}
	})
	It("turns down what it cannot do", func() {
		for _, p := range [][2]tensor.DType{{tensor.Float32, tensor.Int4}, {tensor.String, tensor.Float32}} {
			_, err := convert.PlanHostCast(graph.RowMajor, graph.NHWC, p[0], p[1], []int{1, 2, 3, 4})
			Expect(err).To(MatchError(tensor.ErrUnsupported))
		}
		_, err := convert.PlanHostCast(graph.RowMajor, graph.NHWC, tensor.Float32, tensor.Uint8, []int{2, 3})
		Expect(err).To(MatchError(graph.ErrLayout))
		move, err := convert.PlanHostCast(graph.RowMajor, layout("ba"), tensor.Float32, tensor.Float16, []int{2, 3})
		Expect(err).NotTo(HaveOccurred())
		data := func(n int) *tensor.Tensor { return &tensor.Tensor{Data: make([]byte, n)} }
		Expect(move(ctx, data(12), data(23), convert.Exec{})).To(MatchError(tensor.ErrShape))
		Expect(move(ctx, data(11), data(24), convert.Exec{})).To(MatchError(tensor.ErrShape))
		Expect(move(ctx, data(12), data(24), convert.Exec{})).To(Succeed())
	})
	It("does not allocate where there is a kernel", func() {
		r := rand.New(rand.NewPCG(3, 4))
		dims := []int{2, 30, 20, 7}
		move, err := convert.PlanHostCast(graph.RowMajor, graph.NCHW16c, tensor.Float32, tensor.BFloat16, dims)
		Expect(err).NotTo(HaveOccurred())
		src, dst := numbers(tensor.Float32, dims, r), storage(graph.NCHW16c, tensor.BFloat16, dims, 0, r)
		Expect(testing.AllocsPerRun(20, func() { _ = move(ctx, dst, src, convert.Exec{}) })).To(BeNumerically("<", 1))
	})
})
