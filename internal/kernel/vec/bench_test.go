package vec_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/kernel/vec"
)

// filled returns n floats between -2 and 2.
func filled(n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(i%97)/97*4 - 2
	}
	return x
}

// measure reports the best time of a run as nanoseconds per element and as the rate at which bytes are read and written.
func measure(b *testing.B, elements, bytes int, run func()) {
	b.ReportAllocs()
	best := math.Inf(1)
	for b.Loop() {
		t := time.Now()
		run()
		best = min(best, float64(time.Since(t).Nanoseconds()))
	}
	b.ReportMetric(best/float64(elements), "ns/element")
	b.ReportMetric(float64(bytes)/best, "GB/s")
}

// BenchmarkVec times each kernel on data that stays in the second-level cache.
func BenchmarkVec(b *testing.B) {
	const n = 48 * 768
	x, y, d := filled(n), filled(n), make([]float32, n)
	for _, t := range isa.Targets()[1:] {
		k := vec.For(t)
		run := func(name string, elements, bytes int, f func()) {
			b.Run(fmt.Sprintf("%v/%s", t, name), func(b *testing.B) {
				measure(b, elements, bytes, f)
			})
		}
		for _, op := range vec.Ops() {
			run(op.String(), n, 8*n, func() { k.Apply(op, d, x, vec.Params{A: 1, B: 1, C: 1}) })
		}
		run("gelu-erf-tile-48x64", 48*64, 8*48*64, func() {
			k.ApplyRows(vec.GeluErf, d, 768, d, 768, 48, 64, vec.Params{})
		})
		run("add", n, 12*n, func() { k.Binary(vec.Add, d, x, y) })
		run("max", n, 12*n, func() { k.Binary(vec.Max, d, x, y) })
		run("mul-add-columns", n, 8*n, func() { k.MulAddColumns(d, 768, x, 768, y, y, 48, 768, -1, 1) })
		run("softmax-128", n, 8*n, func() { k.Softmax(d, 128, x, 128, nil, 0, n/128, 128, 0.125) })
		run("softmax-128-mask", n, 8*n, func() { k.Softmax(d, 128, x, 128, y, 0, n/128, 128, 0.125) })
		run("softmax-49", n/49*49, 8*n, func() { k.Softmax(d, 49, x, 49, nil, 0, n/49, 49, 1) })
		run("softmax-197", n/197*197, 8*n, func() { k.Softmax(d, 197, x, 197, nil, 0, n/197, 197, 1) })
		run("softmax-768-unscaled", n, 8*n, func() { k.Softmax(d, 768, x, 768, nil, 0, 48, 768, 1) })
		run("softmax-768", n, 8*n, func() { k.Softmax(d, 768, x, 768, nil, 0, 48, 768, 0.125) })
		run("log-softmax-768", n, 8*n, func() { k.LogSoftmax(d, 768, x, 768, nil, 0, 48, 768, 1) })
		run("layer-norm-768", n, 8*n, func() { k.LayerNorm(d, 768, x, 768, y, y, 48, 768, 1e-5) })
		run("rms-norm-768", n, 8*n, func() { k.RMSNorm(d, 768, x, 768, y, nil, 48, 768, 1e-5) })
		run("sum-rows-768", n, 4*n, func() { k.ReduceRows(vec.ReduceSum, d, x, 768, 48, 768) })
		run("max-rows-768", n, 4*n, func() { k.ReduceRows(vec.ReduceMax, d, x, 768, 48, 768) })
		run("sum-columns-768", n, 4*n, func() { k.ReduceColumns(vec.ReduceSum, d, x, 768, 48, 768) })
		run("lstm-768", 768, 28*768, func() { k.LSTM(d[:768], d[768:], x, x[768:], x[1536:], x[2304:], y) })
		run("gru-768", 768, 16*768, func() { k.GRU(d[:768], x, x[768:], y) })
	}
}
