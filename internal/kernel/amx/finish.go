package amx

import (
	"unsafe"

	"github.com/carve-dev/carve/internal/kernel/isa"
)

// Finish writes sums of float32, rows of panels beside each other, to where results lie, on the way adding a residual to them and bounding them:
// max(Lo, min(Hi, x)), NaN stays NaN. Distances are in bytes. The generator knows the offsets of the fields.
type Finish struct {
	// Rows and Panels are how many there are, at least one of each.
	Rows, Panels int
	// LDS, LDR and LDC are the distances of rows of sums, of the residual and of results, PanelR and PanelC those of panels of the latter two.
	LDS, LDR, LDC  int
	PanelR, PanelC int
	Lo, Hi         float32
	// Sums has the lanes of the last panel that are results, from bit 0, and Stored those that are written, and read of the residual: 0 where they
	// are no results.
	Sums, Stored uint32
}

// Run finishes sums, with a residual where that is not nil. It may be where results are.
func (f *Finish) Run(sums, residual, results unsafe.Pointer) {
	finish(isa.AVX512, f, (*float32)(sums), (*float32)(residual), (*float32)(results))
}

// genericFinish is Run in Go.
func genericFinish(f *Finish, sums, residual, results *float32) {
	at := func(x *float32, bytes int) *float32 { return (*float32)(unsafe.Add(unsafe.Pointer(x), bytes)) }
	for row := range f.Rows {
		for i := range f.Panels * Panel {
			panel, lane := i/Panel, i%Panel
			x := *at(sums, row*f.LDS+4*i)
			if panel == f.Panels-1 {
				if f.Stored>>lane&1 == 0 {
					continue
				}
				if f.Sums>>lane&1 == 0 {
					*at(results, row*f.LDC+panel*f.PanelC+4*lane) = 0
					continue
				}
			}
			if residual != nil {
				x += *at(residual, row*f.LDR+panel*f.PanelR+4*lane)
			}
			*at(results, row*f.LDC+panel*f.PanelC+4*lane) = f.bounded(x)
		}
	}
}

// bounded returns a number within the bounds, NaN where it is that.
func (f *Finish) bounded(x float32) float32 {
	switch {
	case x < f.Lo:
		return f.Lo
	case x > f.Hi:
		return f.Hi
	}
	return x
}
