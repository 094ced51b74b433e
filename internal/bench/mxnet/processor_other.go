//go:build !unix

package main

import "time"

// processorTime is wall time where the system does not tell.
func processorTime() time.Duration { return time.Since(began) }
