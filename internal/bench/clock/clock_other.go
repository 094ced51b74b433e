//go:build !linux

package clock

import "time"

// Process returns the processor time of the process, 0 where it is not known.
func Process() time.Duration { return 0 }

// Thread returns the processor time of the calling thread; ok is false where it is not known.
func Thread() (t time.Duration, ok bool) { return 0, false }
