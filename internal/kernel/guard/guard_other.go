//go:build !unix

package guard

// allocate returns memory with a margin on each side.
func allocate(n int) (whole []float32, pages []byte, err error) {
	pages = make([]byte, (4*n+4096)/4096*4096+4096)
	return floats(pages), pages, nil
}

// Free does nothing here: the memory is Go's.
func (b *Buffer) Free() error { return nil }
