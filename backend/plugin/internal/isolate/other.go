//go:build !(linux && (amd64 || arm64))

package isolate

import "time"

// Supported reports whether the platform has such child processes.
const Supported = false

// Process is never there, see Start.
type Process struct{}

// Region is never there.
type Region struct{}

// Block is never there.
type Block struct{}

// Host is never there.
type Host struct{}

// Start returns ErrUnsupported.
func Start(Config) (*Process, error) { return nil, ErrUnsupported }

// Serve does nothing.
func Serve(func(path string, h *Host) Callee) int { return 2 }

// Region returns nil.
func (*Process) Region() *Region { return nil }

// Stats returns nothing.
func (*Process) Stats() Stats { return Stats{} }

// Life returns ErrUnsupported.
func (*Process) Life(time.Duration) (uint64, error) { return 0, ErrUnsupported }

// End does nothing.
func (*Process) End(uint64, *Failure) {}

// PID returns 0.
func (*Process) PID() int { return 0 }

// Close does nothing.
func (*Process) Close() {}

// Call returns ErrUnsupported.
func (*Process) Call(uint64, *string, uint32, [6]uintptr, time.Duration) (uintptr, error) {
	return 0, ErrUnsupported
}

// Read returns ErrUnsupported.
func (*Process) Read(uint64, uintptr, []byte, time.Duration) error { return ErrUnsupported }

// ReadStruct returns ErrUnsupported.
func (*Process) ReadStruct(uint64, uintptr, []byte, time.Duration) error { return ErrUnsupported }

// ReadStructs returns ErrUnsupported.
func (*Process) ReadStructs(uint64, uintptr, int, int, []byte, time.Duration) error {
	return ErrUnsupported
}

// Alloc returns ErrUnsupported.
func (*Region) Alloc(int, int) (*Block, error) { return nil, ErrUnsupported }

// Contains returns false.
func (*Region) Contains([]byte) bool { return false }

// Bytes returns nil.
func (*Block) Bytes() []byte { return nil }

// Free does nothing.
func (*Block) Free() error { return nil }

// Done does nothing.
func (*Host) Done(uint64, int32) {}

// Log does nothing.
func (*Host) Log(uint32, string) {}

// Upcall returns false.
func (*Host) Upcall([4]uint64) (uint64, bool) { return 0, false }
