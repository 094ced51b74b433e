// Package reorder moves float32 tensors between layouts: row-major NCHW, NHWC, the blocked NCHW16c of package conv and NCHW8c,
// transposes matrices, changes types of elements on the way, or moves shorter ones (Cast), and picks channels out of blocked tensors (split,
// concat, shuffle) where channel counts are not multiples of 16.
//
// A Plan or Gather is made once from shapes, is immutable and safe for concurrent use; Run moves a range of its chunks,
// which write disjoint parts of the destination, and allocates nothing. Kernels read and write exactly the tensors, so
// that sources may be callers' buffers and mapped files and need no alignment beyond the element's on most machines
// (amd64: none at all). Lanes behind the last channel of a blocked destination become zero.
//
// # Kernels
//
// A generator program for each kind writes them, and what calls them: tiles of floats that are transposed in registers (gen_tiles.go, ragged ones
// gen_transpose.go), two to four planes to pixels and back (gen_weave.go), blocks of 8 channels (gen_eights.go), rows that are copied or picked from
// (gen_lanes.go), changes of type (gen_cast.go, in tiles gen_casttiles.go), and elements of one and two bytes that are transposed as they are
// (gen_moves.go, few planes gen_shortweave.go). A large result goes past the caches, in whole lines: by tiles that write such (streamed), by way of
// memory of its own where tiles are smaller (stage.go), or where its rows begin anywhere (ragged.go, planes.go). Rows of smaller results that begin
// anywhere are made of whole lines too where the processor stores whole vectors (lined.go, gen_lined.go).
//
// The package depends on package isa of internal/kernel alone.
package reorder

//go:generate go run gen_main.go gen_transpose.go gen_tiles.go gen_eights.go gen_weave.go gen_lanes.go gen_cast.go gen_casttiles.go gen_moves.go gen_shortweave.go gen_lined.go gen_neon.go
