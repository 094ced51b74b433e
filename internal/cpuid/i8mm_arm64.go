//go:build !windows

package cpuid

// systemI8MM adds nothing to what package cpu knows.
func systemI8MM() bool { return false }
