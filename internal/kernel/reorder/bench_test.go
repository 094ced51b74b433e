package reorder_test

import (
	"fmt"
	"testing"

	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/kernel/reorder"
)

func filled(n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(i % 251)
	}
	return x
}

// BenchmarkReorder counts bytes read plus bytes written; the copy of the same size is the bound.
func BenchmarkReorder(b *testing.B) {
	shapes := []struct{ c, hw int }{{64, 56 * 56}, {256, 14 * 14}, {512, 7 * 7}, {60, 56 * 56}}
	for _, s := range shapes {
		dst, src := filled(s.c*s.hw), filled(s.c*s.hw)
		b.Run(fmt.Sprintf("copy/%dx%d", s.c, s.hw), func(b *testing.B) {
			b.SetBytes(int64(8 * s.c * s.hw))
			for b.Loop() {
				copy(dst, src)
			}
		})
	}
	for _, target := range isa.Targets() {
		for _, s := range shapes {
			for from := reorder.NCHW; from <= reorder.NCHW16c; from++ {
				for to := reorder.NCHW; to <= reorder.NCHW16c; to++ {
					if from == to {
						continue
					}
					b.Run(fmt.Sprintf("target=%v/%v-%v/%dx%d", target, from, to, s.c, s.hw), func(b *testing.B) {
						p, err := reorder.New(target, reorder.Spec{N: 1, C: s.c, HW: s.hw, From: from, To: to})
						if err != nil {
							b.Fatal(err)
						}
						dst, src := filled(to.Floats(s.c, s.hw)), filled(from.Floats(s.c, s.hw))
						b.SetBytes(int64(8 * s.c * s.hw))
						for b.Loop() {
							if err := p.Run(0, p.Chunks(), dst, src); err != nil {
								b.Fatal(err)
							}
						}
					})
				}
			}
		}
	}
}

// BenchmarkGather concatenates 28 and 36 channels and shuffles 116 as ShuffleNet does.
func BenchmarkGather(b *testing.B) {
	var concat, shuffle []reorder.Channel
	for c := range 64 {
		if c < 28 {
			concat = append(concat, reorder.Channel{Channel: c})
		} else {
			concat = append(concat, reorder.Channel{Tensor: 1, Channel: c - 28})
		}
	}
	for c := range 116 {
		shuffle = append(shuffle, reorder.Channel{Channel: c%2*58 + c/2})
	}
	const hw = 28 * 28
	for _, target := range isa.Targets() {
		for _, row := range []struct {
			name     string
			block    int
			channels []int
			table    []reorder.Channel
		}{
			{"concat", 16, []int{28, 36}, concat}, {"shuffle", 16, []int{116}, shuffle},
			{"concat", 8, []int{28, 36}, concat}, {"shuffle", 8, []int{116}, shuffle},
		} {
			b.Run(fmt.Sprintf("target=%v/%s/block=%d", target, row.name, row.block), func(b *testing.B) {
				var sources []reorder.Source
				var data [][]float32
				for _, c := range row.channels {
					sources = append(sources, reorder.Source{C: c})
					data = append(data, filled(reorder.NCHW16c.Floats(c, hw)))
				}
				g, err := reorder.NewGather(target, row.block, 1, hw, sources, row.table, 0)
				if err != nil {
					b.Fatal(err)
				}
				dst := filled(reorder.NCHW16c.Floats(len(row.table), hw))
				b.SetBytes(int64(8 * len(row.table) * hw))
				for b.Loop() {
					if err := g.Run(0, g.Chunks(), dst, data); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
