//go:build !linux

package offheap

// adviseHuge does nothing: the system decides by itself or has no huge pages for ordinary processes.
func adviseHuge([]byte) {}

// adviseScattered does nothing.
func adviseScattered([]byte) {}
