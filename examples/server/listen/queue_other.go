//go:build !linux

package listen

// refuse does nothing on this system.
func refuse(uintptr) bool { return false }

// queues reports nothing on this system: connections that nobody has accepted when a port closes are cut off.
func queues(uintptr) bool { return false }
