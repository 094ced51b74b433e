package plugin

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"
	"unsafe"

	"github.com/carve-dev/carve/backend/plugin/internal/isolate"
	"github.com/carve-dev/carve/internal/offheap"
)

// page hands out zeroed memory outside of Go's heap, for what a plugin reads or writes: it stays where it is, and all of it
// ends at once. The zero page is ready. It is used by one goroutine at a time.
type page struct {
	region *isolate.Region // where it lies, nil for memory of this process alone
	blocks []block
	free   []byte           // what is left of the last block
	copies map[*byte][]byte // of constants, see writer.constant
}

// block is memory that the system has given.
type block interface {
	Bytes() []byte
	Free() error
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
		_ = b.Free()
	}
	p.blocks, p.free = p.blocks[:1], all
	clear(all[:used])
}

const pageBytes = 16 << 10

// take returns n zeroed bytes, aligned to 16.
func (p *page) take(n int) (unsafe.Pointer, error) {
	n = (max(n, 1) + 15) &^ 15
	if n > len(p.free) {
		b, err := p.block(max(n, pageBytes))
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

func (p *page) block(n int) (block, error) {
	if p.region != nil {
		return p.region.Alloc(n, 0)
	}
	return offheap.Alloc(n, 0)
}

// end gives everything back. A nil page has nothing.
func (p *page) end() {
	if p == nil {
		return
	}
	for _, b := range p.blocks {
		_ = b.Free()
	}
	*p = page{region: p.region}
}

// writer puts structs into a page, and remembers the first error: what it returns is then in Go's heap, and must not be
// given to C.
type writer struct {
	*page
	side       // whose functions are called with them
	keep *page // where copies of constants go that live longer than the page; nil: there is none that does
	err  error
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

// first is the address of a slice's first element, nil for none.
func first(b []byte) *byte { return unsafe.SliceData(b) }

// structSize is what a struct says of its size.
func structSize[T any](v T) uintptr { return unsafe.Sizeof(v) }

// address is the machine word of a pointer to memory outside of Go's heap.
func address[T any](p *T) uintptr { return uintptr(unsafe.Pointer(p)) }

// pointer is the pointer of a machine word that C has given.
func pointer(a uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&a)) }

// view reads a struct of the plugin's that begins with its size: what it does not have is zero. The error wraps ErrPlugin, or
// ErrProcess.
func view[T any](from side, a uintptr, what string) (T, error) {
	var out T
	if a == 0 {
		return out, fmt.Errorf("%w: %s is NULL", ErrPlugin, what)
	}
	if a%8 != 0 {
		return out, fmt.Errorf("%w: %s lies at %#x", ErrPlugin, what, a)
	}
	to := unsafe.Slice((*byte)(unsafe.Pointer(&out)), unsafe.Sizeof(out))
	size, err := from.readStruct(a, to)
	if err != nil {
		return out, err
	}
	return out, checkSize(size, what)
}

// checkSize checks what a struct of the plugin's says of its size: one that is no multiple of 8 would end within a pointer or a number.
func checkSize(size uint32, what string) error {
	if size < 8 || size > maxStruct || size%8 != 0 {
		return fmt.Errorf("%w: %s says that it has %d bytes", ErrPlugin, what, size)
	}
	return nil
}

// Bounds of what a plugin may answer with.
const (
	maxStruct = 1 << 16
	maxList   = 1 << 22
	maxText   = 1 << 16
)

// words reads a list of n elements of fixed size.
func words[T any](from side, a uintptr, n uint64, what string) ([]T, error) {
	if n == 0 {
		return nil, nil
	}
	if n > maxList || a == 0 {
		return nil, fmt.Errorf("%w: %s: %d elements at %#x", ErrPlugin, what, n, a)
	}
	out := make([]T, n)
	return out, from.read(a, unsafe.Slice((*byte)(unsafe.Pointer(&out[0])), uintptr(n)*unsafe.Sizeof(out[0])))
}

// dims reads a shape of the plugin's, of at most maxRank dims.
func (from side) dims(at uintptr, ndim uint64, what string) ([]int, error) {
	if ndim > maxRank {
		return nil, fmt.Errorf("%w: %s: rank %d", ErrPlugin, what, ndim)
	}
	list, err := words[int64](from, at, ndim, what)
	out := make([]int, len(list))
	for i, n := range list {
		out[i] = int(n)
	}
	return out, err
}

// views reads a list of pointers to structs.
func views[T any](from side, a uintptr, n uint64, what string) ([]T, error) {
	if from.proc != nil {
		return farViews[T](from, a, n, what)
	}
	list, err := words[uintptr](from, a, n, what)
	if err != nil {
		return nil, err
	}
	out := make([]T, len(list))
	for i, p := range list {
		if out[i], err = view[T](from, p, fmt.Sprintf("%s %d", what, i)); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// farViews reads a list of pointers to structs of another process at once.
func farViews[T any](from side, a uintptr, n uint64, what string) ([]T, error) {
	if n == 0 {
		return nil, nil
	}
	if n > maxList || a == 0 {
		return nil, fmt.Errorf("%w: %s: %d elements at %#x", ErrPlugin, what, n, a)
	}
	out := make([]T, n)
	size := unsafe.Sizeof(out[0])
	if err := from.readStructs(a, int(n), int(size), unsafe.Slice((*byte)(unsafe.Pointer(&out[0])), uintptr(n)*size)); err != nil {
		return nil, err
	}
	for i := range out {
		switch has := *(*uint32)(unsafe.Pointer(&out[i])); {
		case has == 0:
			return nil, fmt.Errorf("%w: %s %d is NULL", ErrPlugin, what, i)
		default:
			if err := checkSize(has, fmt.Sprintf("%s %d", what, i)); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// text reads a text of the plugin's, of which no more than maxText bytes are taken; what is no UTF-8 is replaced. What cannot
// be read is "".
func (from side) text(s cStr) string {
	if s.data == 0 || s.len == 0 {
		return ""
	}
	b := make([]byte, min(s.len, maxText))
	if from.read(s.data, b) != nil {
		return "" // its process has ended, as the next call will find
	}
	return text(b)
}

// written is the text of n bytes that a plugin says to have written into a buffer of the host's, up to the first NUL.
func written(buffer []byte, n uint64) string {
	b := buffer[:min(n, uint64(len(buffer)))]
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return text(b)
}

// text is a text that a plugin has written into memory of the host's.
func text(b []byte) string {
	if !utf8.Valid(b) {
		return strings.ToValidUTF8(string(b), "�")
	}
	return string(b)
}
