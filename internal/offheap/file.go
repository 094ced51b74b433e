package offheap

import (
	"io"
	"math"
	"os"
	"runtime"
	"sync/atomic"
)

// Mapping is a range of a file as read-only memory. Bytes may be used by several goroutines; Close must not run at the
// same time as any other use.
type Mapping struct {
	data    []byte
	raw     []byte // the pages around data, nil when the file was read
	name    string
	offset  int64
	cleanup runtime.Cleanup
	closed  atomic.Bool
}

// MapFile maps bytes [off, off+n) of a regular file. The range must lie inside the file as it is now: an *Error wraps
// ErrNotRegular, ErrOutsideFile, ErrSize or the system's error. Where files cannot be mapped the range is read. The file may
// be closed afterwards. The first byte is aligned in memory as off is in the file, up to the page size.
//
// Writing to the memory is a fault that ends the process, and so is reading pages that another process has cut off the file
// since: callers that cannot trust the file copy what they need.
func MapFile(f *os.File, off, n int64) (*Mapping, error) {
	fail := func(err error) (*Mapping, error) {
		return nil, &Error{Op: "map", File: f.Name(), Offset: off, Bytes: n, Err: err}
	}
	info, err := f.Stat()
	if err != nil {
		return nil, &Error{Op: "map", Offset: off, Bytes: n, Err: err}
	}
	if !info.Mode().IsRegular() {
		return fail(ErrNotRegular)
	}
	if off < 0 || n < 0 || off > info.Size() || n > info.Size()-off {
		return fail(ErrOutsideFile)
	}
	granule := int64(granularity())
	if n > math.MaxInt-granule {
		return fail(ErrSize)
	}
	m := &Mapping{data: []byte{}, name: f.Name(), offset: off}
	if n == 0 {
		return m, nil
	}
	lead := off % granule
	raw, err := view(f, off-lead, int(lead+n))
	if err != nil { // file systems without mapping, platforms without it
		data, err := read(f, off, int(n))
		if err != nil {
			return fail(err)
		}
		m.data = data
	} else {
		m.raw, m.data = raw, raw[lead:lead+n:lead+n]
	}
	files.Add(n)
	m.cleanup = runtime.AddCleanup(m, func(v memory) { _ = v.unmap() }, memory{m.raw, int(n)})
	return m, nil
}

// Bytes returns the range. It is nil after Close. The slice does not keep the Mapping alive: hold the Mapping for as long
// as the memory is in use.
func (m *Mapping) Bytes() []byte { return m.data }

// Mapped reports whether the memory is the file's own pages and not a copy.
func (m *Mapping) Mapped() bool { return m.raw != nil }

// Evict tells the system that the pages will not be read soon, so that they stop counting as the process's memory; reading
// them again loads them again. It does nothing where the system has no such call.
func (m *Mapping) Evict() error {
	if m.raw == nil {
		return nil
	}
	if err := evict(m.raw); err != nil {
		return &Error{Op: "evict", File: m.name, Offset: m.offset, Bytes: int64(len(m.data)), Err: err}
	}
	return nil
}

// Scattered tells the system that bytes [off, off+n) of the range are read here and there, such as rows of a table: pages that lie in the
// page cache as large ones would otherwise become the process's memory as a whole, two megabytes for a row. What lies outside of the
// range, and on systems without such a call everything, is left as it is.
func (m *Mapping) Scattered(off, n int64) {
	size := int64(len(m.data))
	if m.raw == nil || off < 0 || n <= 0 || off > size || n > size-off {
		return
	}
	page := int64(os.Getpagesize())
	lead := int64(len(m.raw)) - size // of the first page, before the range
	first, end := (lead+off+page-1)/page*page, (lead+off+n)/page*page
	if first < end {
		adviseScattered(m.raw[first:end])
	}
}

// Close unmaps the range; no slice of it may be used afterwards. Closing again, or a nil Mapping, does nothing.
func (m *Mapping) Close() error {
	if m == nil || m.closed.Swap(true) {
		return nil
	}
	v := memory{m.raw, len(m.data)}
	m.data, m.raw = nil, nil
	if v.n == 0 {
		return nil
	}
	m.cleanup.Stop()
	if err := v.unmap(); err != nil {
		return &Error{Op: "unmap", File: m.name, Offset: m.offset, Bytes: int64(v.n), Err: err}
	}
	return nil
}

func (m memory) unmap() error {
	files.Add(-int64(m.n))
	if m.raw == nil {
		return nil
	}
	return unview(m.raw)
}

// read is the fallback of view.
func read(f *os.File, off int64, n int) ([]byte, error) {
	data, err := slice(n)
	if err != nil {
		return nil, err
	}
	if _, err := io.ReadFull(io.NewSectionReader(f, off, int64(n)), data); err != nil {
		return nil, err
	}
	return data, nil
}

// slice makes a Go slice and turns the panic over an impossible length into ErrSize.
func slice(n int) (data []byte, err error) {
	defer func() {
		if recover() != nil {
			data, err = nil, ErrSize
		}
	}()
	return make([]byte, n), nil
}
