package plugin

import (
	"fmt"
	"strings"
	"unicode/utf8"
	"unsafe"

	"github.com/carve-dev/carve/internal/offheap"
)

// page hands out zeroed memory outside of Go's heap, for what a plugin reads or writes: it stays where it is, and all of it
// ends at once. The zero page is ready. It is used by one goroutine at a time.
type page struct {
	blocks []*offheap.Block
	free   []byte // what is left of the last block
}

// reset begins anew, with the first block.
func (p *page) reset() {
	if len(p.blocks) == 0 {
		return
	}
	all := p.blocks[0].Bytes()
	used := len(all)
	if len(p.blocks) == 1 {
		used -= len(p.free)
	}
	for _, b := range p.blocks[1:] {
		b.Free()
	}
	p.blocks, p.free = p.blocks[:1], all
	clear(all[:used])
}

const pageBytes = 16 << 10

// take returns n zeroed bytes, aligned to 16.
func (p *page) take(n int) (unsafe.Pointer, error) {
	n = (max(n, 1) + 15) &^ 15
	if n > len(p.free) {
		b, err := offheap.Alloc(max(n, pageBytes), 0)
		if err != nil {
			return nil, err
		}
		p.blocks = append(p.blocks, b)
		p.free = b.Bytes()
	}
	at := unsafe.Pointer(unsafe.SliceData(p.free))
	p.free = p.free[n:]
	return at, nil
}

// end gives everything back.
func (p *page) end() {
	for _, b := range p.blocks {
		b.Free()
	}
	*p = page{}
}

// writer puts structs into a page, and remembers the first error: what it returns is then in Go's heap, and must not be
// given to C.
type writer struct {
	*page
	err error
}

// one returns a zeroed T.
func one[T any](w *writer) *T { return &many[T](w, 1)[0] }

// many returns n zeroed Ts. It holds no pointers of Go's.
func many[T any](w *writer, n int) []T {
	var zero T
	if w.err == nil {
		if size := int(unsafe.Sizeof(zero)); n > offheapLimit/size {
			w.err = fmt.Errorf("%w: %d elements", offheap.ErrSize, n)
		} else if at, err := w.take(n * size); err != nil {
			w.err = err
		} else {
			return unsafe.Slice((*T)(at), n)
		}
	}
	return make([]T, n)
}

const offheapLimit = 1 << 40

// list copies a slice and returns its address, 0 for an empty one.
func list[T any](w *writer, s []T) uintptr {
	if len(s) == 0 {
		return 0
	}
	out := many[T](w, len(s))
	copy(out, s)
	return address(&out[0])
}

// text copies a string.
func (w *writer) text(s string) cStr {
	if s == "" {
		return cStr{}
	}
	b := many[byte](w, len(s))
	copy(b, s)
	return cStr{address(&b[0]), uint64(len(s))}
}

// address is the machine word of a pointer to memory outside of Go's heap.
func address[T any](p *T) uintptr { return uintptr(unsafe.Pointer(p)) }

// pointer is the pointer of a machine word that C has given.
func pointer(a uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&a)) }

// view reads a struct of the plugin's that begins with its size: what it does not have is zero. The error wraps ErrPlugin.
func view[T any](a uintptr, what string) (T, error) {
	var out T
	if a == 0 {
		return out, fmt.Errorf("%w: %s is NULL", ErrPlugin, what)
	}
	if a%8 != 0 {
		return out, fmt.Errorf("%w: %s lies at %#x", ErrPlugin, what, a)
	}
	size := *(*uint32)(pointer(a))
	if size < 4 || size > maxStruct {
		return out, fmt.Errorf("%w: %s says that it has %d bytes", ErrPlugin, what, size)
	}
	n := min(int(size), int(unsafe.Sizeof(out)))
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&out)), n), unsafe.Slice((*byte)(pointer(a)), n))
	return out, nil
}

// Bounds of what a plugin may answer with.
const (
	maxStruct = 1 << 16
	maxList   = 1 << 22
	maxText   = 1 << 16
)

// words reads a list of n elements of fixed size.
func words[T any](a uintptr, n uint64, what string) ([]T, error) {
	if n == 0 {
		return nil, nil
	}
	if n > maxList || a == 0 {
		return nil, fmt.Errorf("%w: %s: %d elements at %#x", ErrPlugin, what, n, a)
	}
	return append([]T(nil), unsafe.Slice((*T)(pointer(a)), n)...), nil
}

// views reads a list of pointers to structs.
func views[T any](a uintptr, n uint64, what string) ([]T, error) {
	list, err := words[uintptr](a, n, what)
	if err != nil {
		return nil, err
	}
	out := make([]T, len(list))
	for i, p := range list {
		if out[i], err = view[T](p, fmt.Sprintf("%s %d", what, i)); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// string reads a text, of which no more than maxText bytes are taken; what is no UTF-8 is replaced.
func (s cStr) string() string {
	if s.data == 0 {
		return ""
	}
	b := unsafe.Slice((*byte)(pointer(s.data)), min(s.len, maxText))
	if !utf8.Valid(b) {
		return strings.ToValidUTF8(string(b), "�")
	}
	return string(b)
}
