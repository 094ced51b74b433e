package amx

import (
	"unsafe"

	"github.com/carve-dev/carve/internal/kernel/isa"
)

// Portable computes what Run does, in Go.
func (p *Product) Portable(first, second int, pairs []Pair, b unsafe.Pointer) {
	p.run(isa.Portable, first, second, pairs, b)
}
