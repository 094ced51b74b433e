//go:build !linux

package tune

import "time"

// waited returns how long the calling thread has been ready to run without a processor to run on, since it began; false where the
// system does not say.
func waited() (time.Duration, bool) { return 0, false }
