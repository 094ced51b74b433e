package offheap

// Plenty is the size in bytes up to which an allocation is not checked against the memory that is left.
const Plenty = 256 << 20

// Available returns how many bytes the process may still take before the system is out of memory: an estimate, which
// counts what the system would give up for it, and the limit of the process's control group. Where nothing is known it
// returns 1<<46, more than any machine has. It costs some 20 µs.
func Available() int64 { return min(available(), mostMemory) }

// Fits reports whether n more bytes are there. Small sizes always fit: a system that overcommits gives any size, and ends
// the process when it is used; an operator asked for that much has to end in an error before.
func Fits(n int64) bool { return n <= Plenty || n <= Available() }

const mostMemory = 1 << 46
