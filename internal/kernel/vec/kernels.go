package vec

import "github.com/carve-dev/carve/internal/kernel/isa"

// Kernels are the functions of this package for one target. It is a value of one byte, made once by who plans (For) and
// copied into what runs; the zero value is those in portable Go. Safe for concurrent use.
type Kernels struct{ set isa.Set }

// For returns the kernels of a target.
func For(t isa.Target) Kernels { return Kernels{t.Set} }
