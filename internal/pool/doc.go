// Package pool is the process-wide worker pool that carve's host kernels run their loops on.
//
// Waking a parked goroutine costs about 20 µs, which is as long as a whole operator, so the workers spin while a Run is
// active and for a short time after the last one ended. They do not for a Run whose last had no loop that was worth more
// than its caller's thread, as a small model's: its first such loop wakes them. A loop is cut into about four chunks per worker; the calling
// goroutine and the workers claim chunks one by one from a single atomic word, and the caller waits only for chunks that
// were claimed and are not finished yet. When the operating system takes a worker off its core, the caller therefore does
// the rest of the loop itself; a static split would wait for the sleeper.
//
// Where other programs keep processors busy, Linux may leave a worker on the caller's own for seconds, and give each slices of
// some milliseconds by turns: twice the time of one thread, and more. So a worker that finds itself there sleeps, and may wake
// up elsewhere; it has to tell on which processor it is, which it can on Linux. For the same reason a caller that has waited
// for a chunk far longer than chunks take sleeps, too: the worker that has it may need the caller's processor.
//
// Which chunk a claim stands for depends on the worker: each begins in a range of its own, in equal parts of the loop, and goes on
// in others' when that is done. So a core meets what it wrote in the loop before where two loops divide alike, and finds it in
// its own caches. (Two cores that share no third-level cache pass data on at a quarter of its speed.)
//
// One loop at a time uses the workers. A loop that starts while another one runs, from a concurrent Run or from inside a
// loop body, runs serially on its own goroutine, which keeps all cores busy without any queue. Where GOMAXPROCS is one
// (js/wasm, for example) every loop is serial and no goroutine is started.
//
// The pool lives as long as somebody holds it: Acquire and Release count its users, and the last Release ends the workers
// before it returns. The package depends on the standard library alone.
package pool
