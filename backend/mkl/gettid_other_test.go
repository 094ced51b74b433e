//go:build !linux

package mkl

// threadID returns 0: not known here.
func threadID() int { return 0 }
