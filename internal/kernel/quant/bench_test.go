package quant_test

import (
	"fmt"
	"testing"

	"github.com/carve-dev/carve/internal/cpuid"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/kernel/quant"
)

// BenchmarkMultiply multiplies 48 rows by panels, for each instruction set, and AVX-512 without VNNI. MAC/ns are multiply-adds.
func BenchmarkMultiply(b *testing.B) {
	const rows = 48
	targets := isa.Targets()
	if host := isa.Host(); host.Features.Has(cpuid.AVX512VNNI) {
		host.Features &^= cpuid.AVX512VNNI
		targets = append(targets, host)
	}
	for _, t := range targets {
		for _, size := range [][2]int{{16, 4}, {144, 4}, {144, 1}, {1152, 8}} {
			quads, panels := size[0], size[1]
			a, w := make([]byte, rows*4*quads), make([]byte, panels*quant.PanelBytes(quads))
			c, start, offsets := make([]int32, rows*panels*quant.Panel), make([]int32, panels*quant.Panel), make([]int, rows)
			for i := range offsets {
				offsets[i] = i * 4 * quads
			}
			p := &quant.Product{Segments: []int{0}, Quads: quads, Signed: true, LDC: panels * quant.Panel}
			kernels := quant.For(t)
			b.Run(fmt.Sprintf("%v/k%d/n%d", t.Set, 4*quads, panels*quant.Panel), func(b *testing.B) {
				for b.Loop() {
					kernels.Multiply(p, c, a, offsets, w, start, panels)
				}
				b.ReportMetric(float64(rows*4*quads*panels*quant.Panel)*float64(b.N)/float64(b.Elapsed().Nanoseconds()), "MAC/ns")
			})
		}
	}
}
