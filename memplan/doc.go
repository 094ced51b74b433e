// Package memplan packs buffers with known sizes and lifetimes into one
// arena: it chooses an offset for every buffer so that buffers alive at the
// same time do not overlap, and the arena is as low as can be found. The
// problem is dynamic storage allocation, which is NP-complete.
//
// Pack is the entry point. It runs fast heuristics first, proves the result
// optimal where it meets the lower bound (the largest sum of sizes alive at
// one time), and searches exactly only where the two differ. Greedy never
// searches. Verify checks any plan independently of how it was made.
// ReadCSV, WriteCSV and WriteSVG read and write instances and plans.
//
// Terms: a buffer's lifetime is the half-open interval [Lower, Upper) in
// arbitrary time units; its offset, size and alignment are in bytes (or in
// any other unit, as long as it is one); the height of a plan is the largest
// offset plus size, and so the size of the arena; a section is a maximal set
// of buffers that are all alive at one time.
//
// The package knows nothing of graphs and imports nothing of carve.
package memplan
