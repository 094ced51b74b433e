package winograd

import "unsafe"

// inputCall is the argument of the transform of one tile of source pixels, over all channel blocks. The generator checks the
// offsets of the fields, so change them together.
type inputCall struct {
	src    unsafe.Pointer // image
	dst    unsafe.Pointer // the tile's place in the first point's matrix
	temp   unsafe.Pointer // side² pixels
	plane  int            // bytes between channel blocks of the source
	point  int            // bytes between the matrices of points
	blocks int            // channel blocks; zero afterwards
	rows   int            // bit i: row i of the tile lies within the map
	cols   int            // the same of columns
	off    [6]int         // bytes from src to the tile's first pixel in each row, which need not lie within the map
}

// outputCall is the argument of the transform of one tile of products to results, over some channel blocks.
type outputCall struct {
	src, dst  unsafe.Pointer
	res, bias unsafe.Pointer // residual where dst has the result, nil: none; bias of the first channel block
	temp      unsafe.Pointer
	point     int // bytes between the matrices of points
	plane     int // bytes between channel blocks of the destination, and of the residual
	row       int // bytes between their rows
	blocks    int
	rows      int // results within the map
	cols      int
	flags     int // of all channel blocks but the last
	last      int // flags of that
	lo, hi    float32
	mask      [16]uint32 // lanes of the last channel block, where its flags say so
}

// Flags of an outputCall.
const (
	flagMax  = 1 << iota // result = max(result, lo)
	flagMin              // result = min(result, hi)
	flagMask             // and with mask
)

// pixel is the channels of a block at one place.
type pixel = [16]float32
