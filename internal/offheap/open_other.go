//go:build !unix

package offheap

// openFlags is empty where there are no FIFOs among the files.
const openFlags = 0
