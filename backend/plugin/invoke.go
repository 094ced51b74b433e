package plugin

import (
	"sync"

	"github.com/carve-dev/carve/internal/dl"
)

// idle are frames that no call uses.
var idle = sync.Pool{New: func() any { return new(dl.Frame) }}

// invoke calls a C function with at most six arguments, which all functions of the interface are content with. It allocates
// nothing.
func invoke(fn uintptr, args ...uintptr) uintptr {
	f := idle.Get().(*dl.Frame)
	*f = dl.Frame{Fn: fn}
	copy(f.Args[:], args)
	dl.Invoke(f)
	ret := f.Ret
	idle.Put(f)
	return ret
}
