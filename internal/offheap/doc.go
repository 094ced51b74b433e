// Package offheap hands out aligned memory outside the Go heap, and files mapped read-only.
//
// Arenas and packed weights are large and live long. On the heap they would raise the collector's goal (256 MiB of weights
// put the next collection at 512 MiB), and a C library that keeps pointers into them would need them pinned; mapped memory
// has neither trouble. First touch of fresh pages is slow (0.4–0.9 GB/s on a virtual machine), so callers allocate once,
// keep their blocks, and [Populate] what they are about to write.
//
// Linux, macOS and the BSDs use mmap, Windows uses VirtualAlloc and file views; elsewhere (js/wasm, for example) blocks are
// over-allocated Go slices and files are read. The package depends on the standard library and golang.org/x/sys.
package offheap
