package oipgrpc

import (
	"math/bits"
	"sync"
)

// pool is memory for what connections read. grpc-go's own sets every buffer to zero before it is used again, twice for each read from a
// connection and once for each frame; here a buffer has what was there before, which whoever takes it writes over.
type pool struct {
	sizes [maxPooled + 1]sync.Pool // by the power of two
}

// Powers of two of the sizes that are kept: grpc-go takes those of 1 KiB and less elsewhere, and none beyond a megabyte.
const (
	minPooled = 10
	maxPooled = 20
)

// Get implements mem.BufferPool.
func (p *pool) Get(length int) *[]byte {
	class := max(bits.Len(uint(max(length-1, 0))), minPooled)
	if class > maxPooled {
		b := make([]byte, length)
		return &b
	}
	if b, ok := p.sizes[class].Get().(*[]byte); ok {
		*b = (*b)[:length]
		return b
	}
	b := make([]byte, length, 1<<class)
	return &b
}

// Put implements mem.BufferPool.
func (p *pool) Put(b *[]byte) {
	if class := bits.Len(uint(cap(*b))) - 1; class >= minPooled && class <= maxPooled && cap(*b) == 1<<class {
		p.sizes[class].Put(b)
	}
}

// buffers are those of all connections.
var buffers pool
