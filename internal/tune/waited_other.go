//go:build !linux

package tune

import "time"

// waited returns how long the calling thread has been ready to run without a processor to run on, and how long all other threads of
// this process have run, since they began; false where the system does not say.
func waited() (alone, others time.Duration, ok bool) { return 0, 0, false }
