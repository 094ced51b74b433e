package exec

import "runtime"

// depth is about how many bytes of stack the calls of a run take.
const depth = 12 << 10

// never is not set; the compiler does not know that.
var never bool

// deepen makes room on the goroutine's stack for a run. A goroutine begins with a small stack, which is copied to one of twice the size,
// with all frames adjusted, whenever it is full: in the midst of a run that happens at a depth of dozens of calls, and several times. Servers
// have a new goroutine for each request, and there it took longer than a small model's run itself. Here it happens once, with few frames. The
// buffer is only declared: its size makes the function ask for that much stack, and nothing is written to it.
//
//go:noinline
func deepen() {
	if never {
		var room [depth]byte
		runtime.KeepAlive(&room)
	}
}
