//go:build unix

package guard

import "golang.org/x/sys/unix"

// allocate maps enough pages for n floats and one float more, between two forbidden pages.
func allocate(n int) (whole []float32, pages []byte, err error) {
	page := unix.Getpagesize()
	size := (4*n + page) / page * page
	pages, err = unix.Mmap(-1, 0, size+2*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, nil, err
	}
	for _, edge := range [][]byte{pages[:page], pages[page+size:]} {
		if err := unix.Mprotect(edge, unix.PROT_NONE); err != nil {
			return nil, nil, err
		}
	}
	return floats(pages[page : page+size]), pages, nil
}

// Free gives the memory back; Data must not be used after.
func (b *Buffer) Free() error { return unix.Munmap(b.pages) }
