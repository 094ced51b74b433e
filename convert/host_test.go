package convert_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/pool"
)

func layout(tag string) graph.Layout {
	l, err := graph.ParseLayout(tag)
	if err != nil {
		panic(err)
	}
	return l
}

// storage returns bytes for a tensor in a layout, off bytes behind an aligned address, filled with noise.
func storage(l graph.Layout, dt tensor.DType, dims []int, off int, r *rand.Rand) *tensor.Tensor {
	n, err := graph.PhysicalSize(graph.On(l), dt, dims)
	Expect(err).NotTo(HaveOccurred())
	data := make([]byte, int(n)+off+16)
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	return &tensor.Tensor{DType: dt, Shape: dims, Data: data[off : off+int(n) : off+int(n)]}
}

// logical returns a row-major tensor of distinct elements, as far as its dtype has so many.
func logical(dt tensor.DType, dims []int, off int, r *rand.Rand) *tensor.Tensor {
	t := storage(graph.RowMajor, dt, dims, off, r)
	var word [8]byte
	for i := range len(t.Data) / dt.Size() {
		binary.LittleEndian.PutUint64(word[:], uint64(i)*0x9E3779B97F4A7C15|1)
		copy(t.Data[i*dt.Size():(i+1)*dt.Size()], word[:])
	}
	return t
}

// pairs are the layouts between which the embedded backend and its rivals move tensors, with the rank they are for.
var pairs = []struct {
	from, to string
	rank     int
}{
	{"", "aBcd16b", 4}, {"aBcd16b", "", 4}, {"acdb", "aBcd16b", 4}, {"aBcd16b", "acdb", 4}, {"", "acdb", 4}, {"acdb", "", 4},
	{"", "aBc16b", 3}, {"aBcde16b", "", 5}, {"", "acBde16b", 5}, {"acBde16b", "", 5}, {"", "acdeb", 5}, {"", "aB16b", 2},
	{"", "ba", 2}, {"ba", "", 2}, {"", "acb", 3}, {"", "bac", 3}, {"", "cab", 3}, {"acbd", "", 4}, {"", "cdab", 4}, {"", "dcba", 4},
	{"", "ABcd16b16a", 4}, {"ABcd16b16a", "", 4}, {"", "cABde16b16a", 5}, {"", "ABc16b16a", 3}, {"", "BAcd16a16b", 4}, {"BAcd16a16b", "", 4},
	{"", "Abcd16a", 4}, {"Abcd16a", "", 4}, {"", "Ab16a", 2}, {"Ab16a", "", 2}, {"", "Ba16b", 2}, {"Ba16b", "", 2}, {"", "A16a", 1},
	{"", "aBcd8b", 4}, {"aBcd8b", "aBcd16b", 4}, {"", "ABcd4b16a4b", 4}, {"aBcd16b", "ABcd4b16a4b", 4}, {"", "BA16b4a", 2}, {"", "BA48b4a", 2}, {"", "aCB16c4b", 3}, {"", "", 4}, {"aBcd16b", "aBcd16b", 4},
}

// shape returns random dims, small or long in one direction, now and then 1, 0 or a multiple of 16.
func shape(rank int, r *rand.Rand) []int {
	dims := make([]int, rank)
	for i := range dims {
		switch k := r.IntN(6); {
		case k == 0:
			dims[i] = 1
		case k == 1 && i < 2:
			dims[i] = 16 * (1 + r.IntN(3))
		case i < 2:
			dims[i] = 1 + r.IntN(50)
		default:
			dims[i] = 1 + r.IntN(6)
		}
	}
	if r.IntN(25) == 0 {
		dims[r.IntN(rank)] = 0
	}
	return dims
}

var _ = Describe("PlanHost", func() {
	ctx := context.Background()
	workers := func() *device.Workers {
		pool.Acquire()
		DeferCleanup(pool.Release)
		run := pool.BeginRun(2)
		DeferCleanup(run.End)
		return &device.Workers{Run: run}
	}
	// check compares a move with the definition, byte by byte, padding included, and takes it back.
	check := func(target isa.Target, from, to string, dt tensor.DType, dims []int, off int, w *device.Workers, r *rand.Rand) {
		GinkgoHelper()
		what := fmt.Sprintf("%v %v %q to %q, %d bytes off", dt, dims, from, to, off)
		plain := logical(dt, dims, 0, r)
		src := storage(layout(from), dt, dims, off, r)
		move, err := convert.PlanGeneric(graph.RowMajor, layout(from), dt, dims, false)
		Expect(err).NotTo(HaveOccurred(), what)
		Expect(move(ctx, src, plain, convert.Exec{})).To(Succeed(), what)
		want := storage(layout(to), dt, dims, 0, r)
		move, err = convert.PlanGeneric(layout(from), layout(to), dt, dims, false)
		Expect(err).NotTo(HaveOccurred(), what)
		Expect(move(ctx, want, src, convert.Exec{})).To(Succeed(), what)

		got := storage(layout(to), dt, dims, 0, r)
		move, err = convert.PlanHostFor(target, layout(from), layout(to), dt, dims)
		Expect(err).NotTo(HaveOccurred(), what)
		Expect(move(ctx, got, src, convert.Exec{Workers: w})).To(Succeed(), what)
		Expect(bytes.Equal(got.Data, want.Data)).To(BeTrue(), what)
		table := storage(layout(to), dt, dims, 0, r)
		move, err = convert.PlanGeneric(layout(from), layout(to), dt, dims, true)
		Expect(err).NotTo(HaveOccurred(), what)
		Expect(move(ctx, table, src, convert.Exec{Workers: w})).To(Succeed(), what)
		Expect(bytes.Equal(table.Data, want.Data)).To(BeTrue(), "by tables: "+what)

		back := storage(layout(from), dt, dims, 0, r)
		move, err = convert.PlanHostFor(target, layout(to), layout(from), dt, dims)
		Expect(err).NotTo(HaveOccurred(), what)
		Expect(move(ctx, back, got, convert.Exec{Workers: w})).To(Succeed(), what)
		Expect(bytes.Equal(back.Data, src.Data)).To(BeTrue(), "round trip: "+what)
	}

	for _, target := range isa.Targets() {
		It(fmt.Sprintf("moves like the definition (%v)", target), func() {
			r := rand.New(rand.NewPCG(1, 2))
			w := workers()
			for _, p := range pairs {
				for range 4 {
					check(target, p.from, p.to, tensor.Float32, shape(p.rank, r), r.IntN(8), w, r)
				}
			}
		})
	}

	It("moves elements of every size", func() {
		r := rand.New(rand.NewPCG(3, 4))
		w := workers()
		for _, dt := range []tensor.DType{tensor.Bool, tensor.Int8, tensor.BFloat16, tensor.Int32, tensor.Int64, tensor.Float64, tensor.Complex128} {
			for _, p := range pairs {
				check(isa.Host(), p.from, p.to, dt, shape(p.rank, r), r.IntN(8), w, r)
			}
		}
	})

	DescribeTable("spreads large tensors over the workers", func(from, to string, dims ...int) {
		r := rand.New(rand.NewPCG(5, 6))
		check(isa.Host(), from, to, tensor.Float32, dims, 4, workers(), r)
	},
		Entry(nil, "", "aBcd16b", 2, 50, 60, 41),
		Entry(nil, "acdb", "aBcd16b", 1, 33, 70, 60),
		Entry(nil, "", "ABcd16b16a", 90, 70, 3, 3),
		Entry(nil, "", "BAcd16a16b", 70, 90, 2, 2),
		Entry(nil, "", "Abcd16a", 80, 3, 30, 20),
		Entry(nil, "", "Ab16a", 200, 300),
		Entry(nil, "", "Ba16b", 300, 200),
		Entry(nil, "", "ba", 300, 200),
		Entry(nil, "", "aBcd8b", 2, 50, 60, 11),
	)

	It("turns down what it cannot do", func() {
		for _, dt := range []tensor.DType{tensor.Int4, tensor.String} {
			_, err := convert.PlanHost(graph.RowMajor, graph.NHWC, dt, []int{1, 2, 3, 4})
			Expect(err).To(MatchError(tensor.ErrUnsupported))
		}
		_, err := convert.PlanHost(graph.RowMajor, graph.NHWC, tensor.Float32, []int{2, 3})
		Expect(err).To(MatchError(graph.ErrLayout))
		opaque, err := graph.OpaqueLayout("x", "1", "k")
		Expect(err).NotTo(HaveOccurred())
		_, err = convert.PlanHost(opaque, graph.RowMajor, tensor.Float32, []int{2, 3})
		Expect(err).To(MatchError(graph.ErrOpaque))
		move, err := convert.PlanHost(graph.RowMajor, layout("ba"), tensor.Float32, []int{2, 3})
		Expect(err).NotTo(HaveOccurred())
		full, short := &tensor.Tensor{Data: make([]byte, 24)}, &tensor.Tensor{Data: make([]byte, 23)}
		err = move(ctx, full, short, convert.Exec{})
		Expect(err).To(MatchError(tensor.ErrShape))
		Expect(err.Error()).To(ContainSubstring("f32[2 3] needs a source of 24 bytes, and has 23"))
		err = move(ctx, short, full, convert.Exec{})
		Expect(err).To(MatchError(tensor.ErrShape))
		Expect(err.Error()).To(ContainSubstring("a destination of 24, and has 23"))
		Expect(move(ctx, full, full, convert.Exec{})).To(Succeed())
	})

	It("stops when the context ends", func() {
		dims := []int{1 << 10, 1 << 10}
		move, err := convert.PlanHost(graph.RowMajor, layout("ba"), tensor.Float32, dims)
		Expect(err).NotTo(HaveOccurred())
		ended, cancel := context.WithCancel(ctx)
		cancel()
		d, s := &tensor.Tensor{Data: make([]byte, 4<<20)}, &tensor.Tensor{Data: bytes.Repeat([]byte{1}, 4<<20)}
		Expect(move(ended, d, s, convert.Exec{})).To(MatchError(context.Canceled))
		Expect(d.Data[0]).To(BeZero())
	})

	It("does not allocate when it moves", func() {
		w := workers()
		for _, p := range pairs {
			dims := []int{40, 30, 20, 3, 2}[:p.rank]
			for _, dt := range []tensor.DType{tensor.Float32, tensor.Float64} {
				r := rand.New(rand.NewPCG(7, 8))
				src, dst := storage(layout(p.from), dt, dims, 0, r), storage(layout(p.to), dt, dims, 0, r)
				move, err := convert.PlanHost(layout(p.from), layout(p.to), dt, dims)
				Expect(err).NotTo(HaveOccurred())
				for _, x := range []convert.Exec{{}, {Workers: w}} {
					Expect(testing.AllocsPerRun(20, func() { _ = move(ctx, dst, src, x) })).To(BeNumerically("<", 1), "%v %q to %q", dt, p.from, p.to)
				}
			}
		}
	})
})
