// Command accelerator is a plugin for tests: a shared library that offers every operator of carve's own backends, by
// carve_plugin.h, as an accelerator with memory of its own and queues would.
//
//	go build -buildmode=c-shared -o accelerator.so ./backend/plugin/testdata/accelerator
//
// A group is compiled by carve itself, for the backends cpu and reference, and is one run of that program on the blocks that
// its operands lie in. The handles of blocks are tickets, the work is done in queues (option synchronous=true: before the calls
// return), and errors of the work come late, with the events.
//
// The library has a Go runtime of its own, beside that of the program that opens it: each has its own threads, heap and
// collector, and a goroutine of neither is seen by the other. Faults are passed on to the host's handler by the library's
// runtime. The signal by which a runtime interrupts its own goroutines is not, so that table.c gives it to both. In its own
// threads the library blocks no signal, and it opens no files.
package main

// main is what a library has to have, and is never called.
func main() {}
