//go:build !linux

package clock

import "time"

// Thread returns the processor time of the calling thread; ok is false where it is not known.
func Thread() (t time.Duration, ok bool) { return 0, false }
