package offheap

import "golang.org/x/sys/unix"

// available returns the machine's memory: the system compresses and swaps, and tells no useful rest.
func available() int64 {
	n, err := unix.SysctlUint64("hw.memsize")
	if err != nil || n > mostMemory {
		return mostMemory
	}
	return int64(n)
}
