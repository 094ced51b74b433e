package vec

import "github.com/carve-dev/carve/internal/kernel/isa"

// Kernels are the functions of this package for one target. It is a small value, made once by who plans (For) and
// copied into what runs; the zero value is those in portable Go. Safe for concurrent use.
type Kernels struct {
	set     isa.Set
	fetched int  // elements of the longest row behind which the next is fetched while it is computed
	past    bool // see Past
}

// For returns the kernels of a target.
func For(t isa.Target) Kernels {
	const held = 4 * 4 // bytes for each element of a row: it, its result, and those of the next row
	return Kernels{set: t.Set, fetched: t.SecondCache() / held}
}
