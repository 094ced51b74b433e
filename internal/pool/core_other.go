//go:build !linux || (!amd64 && !arm64)

package pool

import (
	"runtime"
	"time"
)

// core returns unknownCore: it is not known how this system tells on which processor a thread runs.
func core() int32 { return unknownCore }

// confirm does nothing: there is nothing to compare.
func confirm() {}

// nap lets other goroutines go first.
func nap(time.Duration) { runtime.Gosched() }
