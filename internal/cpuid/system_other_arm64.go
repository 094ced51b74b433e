//go:build arm64 && !linux && !darwin && !windows

package cpuid

// system adds nothing to what package cpu knows.
func system() Features { return 0 }
