package amx

import (
	"unsafe"

	"github.com/carve-dev/carve/internal/kernel/isa"
)

// Portable computes what Run does, in Go.
func (p *Product) Portable(first, second int, pairs []Pair, b unsafe.Pointer) {
	p.run(isa.Portable, first, second, pairs, b)
}

// Portable computes what Run does, in Go.
func (f *Finish) Portable(sums, residual, results unsafe.Pointer) {
	finish(isa.Portable, f, (*float32)(sums), (*float32)(residual), (*float32)(results))
}
