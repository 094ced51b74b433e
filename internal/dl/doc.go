// Package dl opens shared libraries at run time and calls C functions in them, without cgo.
//
// A program that imports the package is linked dynamically on Linux, whether it opens a library or not; so only native
// backends import it. Where the platform has no support, Open says so with an error that wraps ErrUnsupported.
//
// Two ways to call: Call, of any number of integer arguments, for set-up, and Invoke with a Frame, which allocates nothing,
// for what runs often. Neither knows C types: integers and pointers are machine words, and results have to be cut to the
// width that the function returns. Functions with floating-point parameters are bound with Bind.
//
// What C sees has to stay where it is: goroutine stacks move. Arguments of Call that are written as
// uintptr(unsafe.Pointer(x)) in the call itself are kept alive and in place by the compiler; Frames and whatever they point
// at lie in the heap, as At has it, or in memory outside of it. Libraries are never unloaded: their threads and exit handlers may still run.
package dl
