//go:build !amd64 && !arm64

package pool

import "sync/atomic"

var spun atomic.Uint32

// pause passes a few nanoseconds without a store to shared memory.
func pause() {
	for range 8 {
		spun.Load()
	}
}
