package quant_test

import (
	"context"
	"math/rand/v2"
	"runtime"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/kernel/quant"
)

var _ = Describe("products", func() {
	It("leave no pointer behind the sums of columns for the collector to find", func() {
		const quads, n, panels = 8, 12, 24 // sums of 1,536 bytes, the last of which in a span of Go's end where it is not in use
		k, r := quant.For(isa.Host()), rand.New(rand.NewPCG(1, 2))
		a, b := make([]byte, n*4*quads), fillBytes(make([]byte, panels*quant.PanelBytes(quads)), r)
		for i := range a {
			a[i] = byte(120 + r.IntN(16)) // around the middle: operands are turned
		}
		rows := make([]int, n)
		for i := range rows {
			rows[i] = i * 4 * quads
			a[rows[i]], a[rows[i]+1] = 255, 255 // what they are lessened by is added behind the products
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() {
			defer close(done)
			for ctx.Err() == nil {
				runtime.GC()
			}
		}()
		c, begin := make([]int32, n*panels*quant.Panel), make([]int32, panels*quant.Panel)
		var kept [40][]int32
		for i := range kept {
			kept[i] = make([]int32, panels*quant.Panel)
			k.ColumnSums(kept[i], b, quads, panels, true)
		}
		for until := time.Now().Add(300 * time.Millisecond); time.Now().Before(until); {
			for _, columns := range kept {
				k.Multiply(&quant.Product{Segments: []int{0}, Quads: quads, Signed: true, LDC: panels * quant.Panel, Columns: columns}, c, a, rows, b, begin, panels)
			}
		}
		cancel()
		<-done
		for j := range panels * quant.Panel {
			want := int32(0)
			for i := range 4 * quads {
				want += int32(a[i]) * int32(int8(b[j/quant.Panel*quant.PanelBytes(quads)+i/4*64+j%quant.Panel*4+i%4]))
			}
			Expect(c[j]).To(Equal(want))
		}
	})
})
