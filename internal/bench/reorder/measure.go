package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"
	"unsafe"

	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/bench/clock"
	"github.com/carve-dev/carve/internal/bench/paired"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/kernel/reorder"
	"github.com/carve-dev/carve/internal/offheap"
	"github.com/carve-dev/carve/internal/pool"
)

// result is what was measured of a task: nanoseconds of a call in each round, none where there was nothing to measure.
type result struct {
	bytes              int // read plus written
	carve, copy, other []float64
	modelled           float64 // by convert's own costs, NaN where it has none
}

// row writes a result as a row of the table.
func (r result) row(t task) string {
	speed := func(ns []float64) string {
		if ns == nil {
			return ""
		}
		return fmt.Sprintf("%.1f", float64(r.bytes)/quartile(ns))
	}
	ratio := func(ns []float64) string {
		if ns == nil {
			return ""
		}
		return paired.Of(ns, r.carve[:len(ns)]).String()
	}
	modelled := ""
	if !math.IsNaN(r.modelled) {
		modelled = fmt.Sprintf("%.2f", r.modelled/quartile(r.carve))
	}
	return fmt.Sprintf("| %v | %v | %.3g | %s | %s | %s | %s | %s | %s |", t, t.dims, float64(r.bytes)/2/(1<<20), speed(r.carve), speed(r.copy), speed(r.other),
		ratio(r.copy), ratio(r.other), modelled)
}

// quartile returns the lower one.
func quartile(x []float64) float64 { return slices.Sorted(slices.Values(x))[len(x)/4] }

// slice is how long each contestant runs in a round.
const slice = 4 * time.Millisecond

// meter is how tasks are measured.
type meter struct {
	target          isa.Target
	threads, rounds int
	library         *library // nil where there is none
	now             func() time.Duration
	cold            bool
}

// plan returns carve's move: what package convert plans, or, for a set that it would not choose, the kernels alone.
func (m *meter) plan(t task) (convert.Move, error) {
	if m.target == isa.Host() {
		return convert.PlanHostCast(layoutOf(t.from), layoutOf(t.to), t.src, t.dst, t.dims)
	}
	layouts := map[string]reorder.Layout{"abcd": reorder.NCHW, "ab": reorder.NCHW, "acdb": reorder.NHWC, "ba": reorder.NHWC, "aBcd16b": reorder.NCHW16c, "aBcd8b": reorder.NCHW8c}
	elements := map[tensor.DType]reorder.Element{tensor.Float32: reorder.Float32, tensor.Float16: reorder.Float16, tensor.BFloat16: reorder.BFloat16,
		tensor.Uint8: reorder.Uint8, tensor.Int8: reorder.Int8}
	spec := reorder.Spec{N: 1, C: t.dims[0], HW: t.dims[1], From: layouts[t.from], To: layouts[t.to]}
	if len(t.dims) == 4 {
		spec.N, spec.C, spec.HW = t.dims[0], t.dims[1], t.dims[2]*t.dims[3]
	}
	if t.src == tensor.Float32 && t.dst == tensor.Float32 {
		p, err := reorder.New(m.target, spec)
		return func(_ context.Context, d, s *tensor.Tensor, x convert.Exec) error {
			dst, src := floatsOf(d.Data), floatsOf(s.Data)
			x.Workers.Parallel(p.Chunks(), func(lo, hi int) { _ = p.Run(lo, hi, dst, src) }) // of the plan's sizes
			return nil
		}, err
	}
	p, err := reorder.NewCast(m.target, spec, elements[t.src], elements[t.dst])
	return func(_ context.Context, d, s *tensor.Tensor, x convert.Exec) error {
		x.Workers.Parallel(p.Chunks(), func(lo, hi int) { _ = p.Run(lo, hi, d.Data, s.Data) })
		return nil
	}, err
}

func floatsOf(b []byte) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
}

// measure times a task's contestants by turns.
func (m *meter) measure(t task) (result, error) {
	from, to := layoutOf(t.from), layoutOf(t.to)
	src, srcBlock, err := storage(from, t.src, t.dims)
	if err != nil {
		return result{}, err
	}
	defer srcBlock.Free()
	dst, dstBlock, err := storage(to, t.dst, t.dims)
	if err != nil {
		return result{}, err
	}
	defer dstBlock.Free()
	move, err := m.plan(t)
	if err != nil {
		return result{}, err
	}
	pool.Acquire()
	defer pool.Release()
	var r pool.Run
	workers := &device.Workers{Run: &r}
	inPool := func(f func()) func(n int) {
		return func(n int) {
			r.Begin(m.threads)
			defer r.End()
			for range n {
				f()
			}
		}
	}
	ctx := context.Background()
	runs := []func(n int){
		inPool(func() { err = move(ctx, dst, src, convert.Exec{Workers: workers}) }),
		inPool(copyOf(dst.Data, src.Data, m.threads, workers)),
	}
	if m.library != nil {
		if f, err := m.library.task(t, m.threads, dst.Data, src.Data); err == nil {
			runs = append(runs, f)
		}
	}
	registry, err := convert.NewRegistry(nil, graph.On(from), graph.On(to))
	if err != nil {
		return result{}, err
	}
	out := result{bytes: len(src.Data) + len(dst.Data), modelled: math.NaN()}
	if t.src == t.dst {
		out.modelled = registry.Cost(graph.On(from), graph.On(to), int64(out.bytes/2))
	}
	var times [][]float64
	if m.cold {
		times = m.coldTimes(runs, src.Data)
	} else {
		times = m.byTurns(runs)
	}
	if out.carve, out.copy = times[0], times[1]; len(times) > 2 {
		out.other = times[2]
	}
	return out, err
}

// copyOf returns a copy in as many parts as threads.
func copyOf(dst, src []byte, threads int, w *device.Workers) func() {
	n := (len(dst) + len(src)) / 2
	// Where one of the two is shorter, its beginning is used again for the rest.
	piece := func(lo, hi int) {
		for lo < hi {
			a, b := lo%len(dst), lo%len(src)
			k := min(hi-lo, len(dst)-a, len(src)-b)
			copy(dst[a:a+k], src[b:b+k])
			lo += k
		}
	}
	if threads == 1 {
		return func() { piece(0, n) }
	}
	part := func(lo, hi int) { piece(n*lo/threads, n*hi/threads) }
	return func() { w.Parallel(threads, part) }
}

// slow is how many times as long as a copy a call of another library takes that is measured in the first round alone, such as oneDNN's plain loops
// over many elements.
const slow = 8

// byTurns returns the times of one call of each function, by rounds.
func (m *meter) byTurns(runs []func(n int)) [][]float64 {
	calls := make([]int, len(runs))
	for i, f := range runs {
		f(1)
		for calls[i] = 1; ; calls[i] *= 2 {
			start := m.now()
			f(calls[i])
			if took := m.now() - start; took > slice/2 {
				calls[i] = max(1, int(float64(calls[i])*float64(slice)/float64(took)))
				break
			}
		}
	}
	times := make([][]float64, len(runs))
	for round := range m.rounds {
		for k := range runs {
			i := (k + round) % len(runs)
			f := runs[i]
			if i > 1 && round > 0 && times[i][0] > slow*times[1][0] {
				continue
			}
			if calls[i] > 1 {
				f(1) // another's data may be in the caches
			}
			start := m.now()
			f(calls[i])
			times[i] = append(times[i], float64((m.now()-start).Nanoseconds())/float64(calls[i]))
			time.Sleep(time.Millisecond) // threads that spin go to sleep
		}
	}
	return times
}

// swept is as large as the caches that cores share.
var swept = make([]byte, 32<<20)

// coldTimes returns the times of one call of each function with nothing but the source in the caches, by rounds: the shorter of time that passed and
// that the processor gave.
func (m *meter) coldTimes(runs []func(n int), src []byte) [][]float64 {
	times := make([][]float64, len(runs))
	for range m.rounds {
		for i, f := range runs {
			clock.Touch(swept)
			clock.Touch(src)
			before, known := clock.Thread()
			start := time.Now()
			f(1)
			took := time.Since(start)
			if after, _ := clock.Thread(); known {
				took = min(took, after-before)
			}
			times[i] = append(times[i], float64(took.Nanoseconds()))
		}
	}
	return times
}

func layoutOf(tag string) graph.Layout {
	l, err := graph.ParseLayout(tag)
	if err != nil {
		panic(err) // one of this program's own
	}
	return l
}

// storage returns memory for a tensor, filled with small numbers.
func storage(l graph.Layout, dt tensor.DType, dims []int) (*tensor.Tensor, *offheap.Block, error) {
	n, err := graph.PhysicalSize(graph.On(l), dt, dims)
	if err != nil {
		return nil, nil, err
	}
	b, err := offheap.Alloc(int(n), 64)
	if err != nil {
		return nil, nil, err
	}
	data := b.Bytes()
	one := map[tensor.DType][]byte{tensor.Float32: {0, 0, 0x80, 0x3f}, tensor.Float16: {0, 0x3c}, tensor.BFloat16: {0x80, 0x3f}, tensor.Int8: {1}, tensor.Uint8: {1}}[dt]
	for i := 0; i < len(data); i += len(one) {
		copy(data[i:], one)
	}
	return &tensor.Tensor{DType: dt, Shape: dims, Data: data}, b, nil
}

// task prepares oneDNN's reorder for a task.
func (l *library) task(t task, threads int, dst, src []byte) (func(n int), error) {
	describe := func(tag string, dt tensor.DType) (uintptr, error) {
		d, err := layoutOf(tag).Describe(len(t.dims))
		if err != nil {
			return 0, err
		}
		if len(d.Blocks) > 0 {
			return l.byTag(dt, t.dims, l.blocked[d.Blocks[0].Size])
		}
		strides := make([]int, len(t.dims))
		n := 1
		for k := len(d.Order) - 1; k >= 0; k-- {
			strides[d.Order[k]] = n
			n *= t.dims[d.Order[k]]
		}
		return l.byStrides(dt, t.dims, strides)
	}
	from, err := describe(t.from, t.src)
	if err != nil {
		return nil, err
	}
	to, err := describe(t.to, t.dst)
	if err != nil {
		return nil, err
	}
	return l.reorder(threads, from, to, dst, src)
}
