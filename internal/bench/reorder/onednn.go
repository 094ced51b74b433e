package main

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"unsafe"

	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/dl"
	"github.com/carve-dev/carve/internal/offheap"
)

// library is oneDNN, as much of it as reorders need, in versions 2 and 3.
type library struct {
	version    string
	major      int
	fn         map[string]uintptr
	setThreads uintptr // omp_set_num_threads, 0 where the library has other threads
	engine     uintptr
	blocked    map[int]uintptr // the library's numbers of aBcd16b and aBcd8b, which differ from version to version
	owned      []*offheap.Block
}

var errLibrary = errors.New("oneDNN")

// descBytes is more than the size of version 2's memory descriptor.
const descBytes = 1024

var functions = []string{"dnnl_version", "dnnl_engine_create", "dnnl_stream_create", "dnnl_memory_create", "dnnl_memory_desc_get_size",
	"dnnl_reorder_primitive_desc_create", "dnnl_primitive_create", "dnnl_primitive_execute"}

// openLibrary opens oneDNN by path, or under the names that it usually has.
func openLibrary(path string) (*library, error) {
	names := []string{path}
	if path == "" {
		names = []string{"libdnnl.so.3", "libdnnl.so.2", "libdnnl.3.dylib", "libdnnl.2.dylib", "dnnl.dll"}
	}
	var tried []error
	for _, name := range names {
		l, err := load(name)
		if err == nil {
			return l, nil
		}
		tried = append(tried, err)
	}
	return nil, errors.Join(tried...)
}

func load(name string) (*library, error) {
	h, err := dl.Open(name)
	if err != nil {
		return nil, err
	}
	l := &library{fn: map[string]uintptr{}, blocked: map[int]uintptr{}}
	list := functions
	for i := 0; i < len(list); i++ {
		if l.fn[list[i]], err = h.Symbol(list[i]); err != nil {
			return nil, err
		}
		if i > 0 {
			continue
		}
		r := dl.Call(l.fn["dnnl_version"])
		v := *(**[3]int32)(unsafe.Pointer(&r))
		l.version, l.major = fmt.Sprintf("%d.%d.%d", v[0], v[1], v[2]), int(v[0])
		switch l.major {
		case 2:
			list = slices.Concat(functions, []string{"dnnl_memory_desc_init_by_strides", "dnnl_memory_desc_init_by_tag"})
		case 3:
			list = slices.Concat(functions, []string{"dnnl_memory_desc_create_with_strides", "dnnl_memory_desc_create_with_tag"})
		default:
			return nil, fmt.Errorf("%w: version %s is not known", errLibrary, l.version)
		}
	}
	if p, err := h.Symbol("omp_set_num_threads"); err == nil {
		l.setThreads = p
	}
	const cpu = 1
	out := l.cell()
	if err := l.call("dnnl_engine_create", l.at(out), cpu, 0); err != nil {
		return nil, err
	}
	l.engine = *out
	return l, errors.Join(l.findBlocked(16), l.findBlocked(8))
}

// cell returns a word that C may write to.
func (l *library) cell() *uintptr { return (*uintptr)(l.memory(8)) }

// memory returns memory that stays where it is, for as long as the program runs.
func (l *library) memory(n int) unsafe.Pointer {
	b, err := offheap.Alloc(n, 64)
	if err != nil {
		panic(err) // a few bytes
	}
	l.owned = append(l.owned, b)
	return unsafe.Pointer(unsafe.SliceData(b.Bytes()))
}

func (l *library) at(p *uintptr) uintptr { return uintptr(unsafe.Pointer(p)) }

func (l *library) call(name string, args ...uintptr) error {
	if s := int32(dl.Call(l.fn[name], args...)); s != 0 {
		return fmt.Errorf("%w: %s returns status %d", errLibrary, name, s)
	}
	return nil
}

// dtypes are the library's numbers of element types.
var dtypes = map[tensor.DType]uintptr{tensor.Float16: 1, tensor.BFloat16: 2, tensor.Float32: 3, tensor.Int32: 4, tensor.Int8: 5, tensor.Uint8: 6}

// byStrides and byTag return descriptors.
func (l *library) byStrides(dt tensor.DType, dims, strides []int) (uintptr, error) {
	words := unsafe.Slice((*int64)(l.memory(16*12)), 24)
	for i := range dims {
		words[i], words[12+i] = int64(dims[i]), int64(strides[i])
	}
	d, s := uintptr(unsafe.Pointer(&words[0])), uintptr(unsafe.Pointer(&words[12]))
	return l.desc("dnnl_memory_desc_init_by_strides", "dnnl_memory_desc_create_with_strides", uintptr(len(dims)), d, dtypes[dt], s)
}

func (l *library) byTag(dt tensor.DType, dims []int, tag uintptr) (uintptr, error) {
	words := unsafe.Slice((*int64)(l.memory(8*12)), 12)
	for i := range dims {
		words[i] = int64(dims[i])
	}
	return l.desc("dnnl_memory_desc_init_by_tag", "dnnl_memory_desc_create_with_tag", uintptr(len(dims)), uintptr(unsafe.Pointer(&words[0])), dtypes[dt], tag)
}

// desc calls the function of the version: one fills in a descriptor, the other returns one.
func (l *library) desc(two, three string, args ...uintptr) (uintptr, error) {
	if l.major == 2 {
		d := uintptr(l.memory(descBytes))
		return d, l.call(two, slices.Concat([]uintptr{d}, args)...)
	}
	out := l.cell()
	err := l.call(three, slices.Concat([]uintptr{l.at(out)}, args)...)
	return *out, err
}

// findBlocked looks for the number of the layout with blocks of so many channels by what a reorder to it does.
func (l *library) findBlocked(block int) error {
	dims := []int{1, 32, 2, 3}
	src, dst := make([]float32, 192), make([]float32, 192)
	for i := range src {
		src[i] = float32(i)
	}
	from, err := l.byStrides(tensor.Float32, dims, []int{192, 6, 3, 1})
	if err != nil {
		return err
	}
	for tag := uintptr(2); tag < 512; tag++ {
		to, err := l.byTag(tensor.Float32, dims, tag)
		if err != nil || int(dl.Call(l.fn["dnnl_memory_desc_get_size"], to)) != 4*len(dst) {
			continue
		}
		run, err := l.reorder(1, from, to, bytesOf(dst), bytesOf(src))
		if err != nil {
			continue
		}
		run(1)
		same := true
		for i, x := range dst {
			same = same && int(x) == (i/(6*block)*block+i%block)*6+i/block%6
		}
		if same {
			l.blocked[block] = tag
			return nil
		}
	}
	return fmt.Errorf("%w: it has no layout aBcd%db", errLibrary, block)
}

func bytesOf(x []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), 4*len(x))
}

// reorder prepares the library's reorder from src to dst and returns a function that executes it n times on that many
// threads. It has to be called on the goroutine that called reorder, locked to its thread: a primitive keeps the number of
// threads that it was made with, and the library's workers belong to a thread.
func (l *library) reorder(threads int, from, to uintptr, dst, src []byte) (func(n int), error) {
	if l.setThreads != 0 {
		dl.Call(l.setThreads, uintptr(threads))
	}
	pd, pr, stream, a, b := l.cell(), l.cell(), l.cell(), l.cell(), l.cell()
	for _, call := range []func() error{
		func() error {
			return l.call("dnnl_reorder_primitive_desc_create", l.at(pd), from, l.engine, to, l.engine, 0)
		},
		func() error { return l.call("dnnl_primitive_create", l.at(pr), *pd) },
		func() error { return l.call("dnnl_stream_create", l.at(stream), l.engine, 1) },
		func() error {
			return l.call("dnnl_memory_create", l.at(a), from, l.engine, uintptr(unsafe.Pointer(unsafe.SliceData(src))))
		},
		func() error {
			return l.call("dnnl_memory_create", l.at(b), to, l.engine, uintptr(unsafe.Pointer(unsafe.SliceData(dst))))
		},
	} {
		if err := call(); err != nil {
			return nil, err
		}
	}
	const argSrc, argDst = 1, 17
	args := (*[2]struct {
		id     int32
		_      int32
		memory uintptr
	})(l.memory(32))
	args[0].id, args[0].memory, args[1].id, args[1].memory = argSrc, *a, argDst, *b
	f := (*dl.Frame)(l.memory(int(unsafe.Sizeof(dl.Frame{}))))
	f.Fn = l.fn["dnnl_primitive_execute"]
	f.Args = [dl.FrameArgs]uintptr{*pr, *stream, 2, uintptr(unsafe.Pointer(args))}
	return func(n int) {
		if l.setThreads != 0 {
			dl.Call(l.setThreads, uintptr(threads))
		}
		for range n {
			dl.Invoke(f)
		}
		runtime.KeepAlive(dst)
		runtime.KeepAlive(src)
	}, nil
}
