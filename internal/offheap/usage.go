package offheap

import "sync/atomic"

var anonymous, files atomic.Int64

// Usage is how much memory the process holds through this package, in bytes as asked for by its callers.
type Usage struct {
	Anonymous int64 // Blocks
	Files     int64 // Mappings, whether or not their pages are in memory
}

// Total returns the current Usage. It is safe for concurrent use.
func Total() Usage { return Usage{Anonymous: anonymous.Load(), Files: files.Load()} }
