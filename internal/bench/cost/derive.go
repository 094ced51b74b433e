package main

import (
	"github.com/carve-dev/carve/backend"
)

// derived is the section of an instruction set that was not measured, made of one that was.
type derived struct {
	set, of string
	rule    string // as the file says it
	make    func(measured map[string]*backend.Efficiency) *backend.Efficiency
}

// Factors from eight lanes to sixteen and to four: arithmetic by what convolutions and products of both widths were seen to
// reach (90 and 50 operations a nanosecond), elementwise work a little less, and memory not at all.
const (
	wideWork, wideItems, wideRows       = 0.55, 0.6, 0.8
	narrowWork, narrowItems, narrowRows = 2.2, 2, 1.5
)

// derivations are the rules for a backend.
func derivations(name string) []derived {
	wide := derived{"avx512", "avx2", "work x0.55, items x0.6, rows x0.8", func(m map[string]*backend.Efficiency) *backend.Efficiency {
		return scaled(m["avx2"], wideWork, wideItems, wideRows)
	}}
	switch name {
	case "cpu":
		return []derived{wide, {"neon", "avx2 and portable",
			"products, recurrences and attention of avx2 with work x2.2, items x2, rows x1.5; everything else portable",
			func(m map[string]*backend.Efficiency) *backend.Efficiency {
				e, products := scaled(m["portable"], 1, 1, 1), scaled(m["avx2"], narrowWork, narrowItems, narrowRows)
				for _, class := range []string{"product", "product-thin", "product-batch", "recurrent", "attention"} {
					if l, ok := products.Laws[class]; ok {
						e.Laws[class] = l
					}
				}
				return e
			}}}
	case "mkl":
		return []derived{wide, {"neon", "avx2", "work x2.2, items x2, rows x1.5", func(m map[string]*backend.Efficiency) *backend.Efficiency {
			return scaled(m["avx2"], narrowWork, narrowItems, narrowRows)
		}}}
	}
	return nil
}

// scaled returns a copy with coefficients multiplied.
func scaled(e *backend.Efficiency, work, items, rows float64) *backend.Efficiency {
	out := *e
	out.Laws = map[string]backend.Law{}
	scale := func(l backend.Law) backend.Law {
		l.Work, l.Items, l.Rows = l.Work*work, l.Items*items, l.Rows*rows
		return l
	}
	for class, l := range e.Laws {
		x := scale(l)
		x.Variants = nil
		for prefix, v := range l.Variants {
			if x.Variants == nil {
				x.Variants = map[string]backend.Law{}
			}
			x.Variants[prefix] = scale(v)
		}
		out.Laws[class] = x
	}
	return &out
}
