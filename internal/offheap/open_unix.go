//go:build unix

package offheap

import "syscall"

// openFlags keeps open from waiting where a FIFO took the file's place after it was looked at.
const openFlags = syscall.O_NONBLOCK
