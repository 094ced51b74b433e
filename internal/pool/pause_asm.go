//go:build amd64 || arm64

package pool

// pause tells the processor that the goroutine spins: about 10–40 ns in which a sibling hardware thread has the core.
//
//go:noescape
func pause()
