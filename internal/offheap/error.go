package offheap

import (
	"errors"
	"fmt"
)

var (
	// ErrSize is the cause for a negative size, or one that the platform cannot address.
	ErrSize = errors.New("size out of range")
	// ErrNoMemory is the cause for a size beyond what the system has left.
	ErrNoMemory = errors.New("more memory than there is")
	// ErrAlign is the cause for an alignment that is not a power of two of at most 1 GiB.
	ErrAlign = errors.New("alignment is not a power of two up to 1 GiB")
	// ErrNotRegular is the cause for a file that is a directory, pipe, device or socket: its size says nothing.
	ErrNotRegular = errors.New("not a regular file")
	// ErrOutsideFile is the cause for a range that does not lie inside the file.
	ErrOutsideFile = errors.New("range lies outside the file")
)

// Error says which operation failed on what. It unwraps to its cause: one of the sentinels above or the system's error.
type Error struct {
	Op     string // "alloc", "free", "map", "unmap", "evict"
	File   string // name of the file, "" for anonymous memory
	Offset int64  // bytes, into the file
	Bytes  int64  // the size asked for
	Err    error
}

// Error names the operation, the file and the range.
func (e *Error) Error() string {
	if e.File == "" {
		return fmt.Sprintf("offheap: %s %d bytes: %v", e.Op, e.Bytes, e.Err)
	}
	return fmt.Sprintf("offheap: %s %s [%d, +%d): %v", e.Op, e.File, e.Offset, e.Bytes, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
