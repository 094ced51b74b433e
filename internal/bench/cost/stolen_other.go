//go:build !linux

package main

import "time"

// threadTime returns the processor time of the calling thread; ok is false where it is not known.
func threadTime() (t time.Duration, ok bool) { return 0, false }
