//go:build !linux

package cpuid

// tilesAllowed reports whether the process may use the registers of AMX: other systems ask for it in ways that were not tried.
func tilesAllowed() bool { return false }
