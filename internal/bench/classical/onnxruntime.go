package main

import (
	"fmt"
	"runtime"
	"slices"
	"unsafe"

	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/dl"
)

// Functions of ONNX Runtime's C interface, by their places in OrtApi, which versions only add to.
const (
	apiVersion          = 13
	getErrorMessage     = 2
	createEnv           = 3
	createSession       = 7
	runSession          = 9
	createOptions       = 10
	setExecutionThreads = 24
	allocateTensor      = 48
	createTensor        = 49
	fillStrings         = 52
	createCPUMemory     = 69
	defaultAllocator    = 78
	releaseValue        = 96
)

// library is ONNX Runtime, through its C interface.
type library struct {
	api       *[128]uintptr
	env, info uintptr
}

// shown is what pointer was last asked for: what a variable points to lies in Go's heap, and does not move as stacks do.
var shown unsafe.Pointer

// pointer returns the address of something that the caller keeps.
func pointer[T any](p *T) uintptr {
	shown = unsafe.Pointer(p)
	return uintptr(shown)
}

func text(s string) *byte { return unsafe.SliceData(append([]byte(s), 0)) }

// call calls a function of the interface, and returns the message of its status.
func (l *library) call(index int, args ...uintptr) error {
	status := dl.Call(l.api[index], args...)
	if status == 0 {
		return nil
	}
	p := (*byte)(*(*unsafe.Pointer)(unsafe.Pointer(new(dl.Call(l.api[getErrorMessage], status)))))
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(p), n)) != 0 {
		n++
	}
	return fmt.Errorf("ONNX Runtime: %s", unsafe.String(p, n))
}

func openLibrary(path string) (*library, error) {
	lib, err := dl.Open(path)
	if err != nil {
		return nil, err
	}
	get, err := lib.Symbol("OrtGetApiBase")
	if err != nil {
		return nil, err
	}
	base := dl.Call(get)
	getAPI := **(**uintptr)(unsafe.Pointer(&base))
	api := dl.Call(getAPI, apiVersion)
	if api == 0 {
		return nil, fmt.Errorf("%s: no version %d of the interface", path, apiVersion)
	}
	l := &library{api: *(**[128]uintptr)(unsafe.Pointer(&api))}
	name, out := text("bench"), new([2]uintptr)
	if err := l.call(createEnv, 3, pointer(name), pointer(&out[0])); err != nil {
		return nil, err
	}
	err = l.call(createCPUMemory, 0, 0, pointer(&out[1]))
	runtime.KeepAlive(name)
	l.env, l.info = out[0], out[1]
	return l, err
}

// rival runs a model into results that it was given, where these are tensors.
type rival struct {
	l             *library
	frame         *dl.Frame
	names         []*byte
	ins, outs     *[16]uintptr // the names
	values        *[32]uintptr // of inputs, and of results behind them
	tensors       []tensor.Named
	shapes        [][]int64
	own           []int // results that ONNX Runtime makes in each run
	session, opts uintptr
}

// elements are the numbers of ONNX's element types.
var elements = map[tensor.DType]uintptr{
	tensor.Float32: 1, tensor.Uint8: 2, tensor.Int8: 3, tensor.Uint16: 4, tensor.Int16: 5, tensor.Int32: 6, tensor.Int64: 7, tensor.String: 8, tensor.Bool: 9, tensor.Float16: 10,
	tensor.Float64: 11, tensor.Uint32: 12, tensor.Uint64: 13, tensor.BFloat16: 16,
}

func (r *rival) tensor(t *tensor.Tensor, out *uintptr) error {
	shape := make([]int64, len(t.Shape))
	for i, d := range t.Shape {
		shape[i] = int64(d)
	}
	r.shapes = append(r.shapes, shape)
	if t.DType == tensor.String {
		return r.strings(t, shape, out)
	}
	b := t.Bytes()
	return r.l.call(createTensor, r.l.info, pointer(unsafe.SliceData(b)), uintptr(len(b)), pointer(unsafe.SliceData(shape)), uintptr(len(shape)), elements[t.DType], pointer(out))
}

// strings makes a tensor of ONNX Runtime's own with the strings of t.
func (r *rival) strings(t *tensor.Tensor, shape []int64, out *uintptr) error {
	allocator := new(uintptr)
	if err := r.l.call(defaultAllocator, pointer(allocator)); err != nil {
		return err
	}
	if err := r.l.call(allocateTensor, *allocator, pointer(unsafe.SliceData(shape)), uintptr(len(shape)), elements[t.DType], pointer(out)); err != nil {
		return err
	}
	kept, list := make([]*byte, len(t.Strings)), make([]uintptr, len(t.Strings)+1)
	for i, s := range t.Strings {
		kept[i] = text(s)
		list[i] = pointer(kept[i])
	}
	err := r.l.call(fillStrings, *out, pointer(&list[0]), uintptr(len(kept)))
	runtime.KeepAlive(kept)
	return err
}

// load makes a session of a model file that has the inputs x, and these outputs.
func (l *library) load(path string, threads int, x, results []tensor.Named) (*rival, error) {
	r := &rival{l: l, frame: new(dl.Frame), ins: new([16]uintptr), outs: new([16]uintptr), values: new([32]uintptr), tensors: slices.Concat(x, results)}
	if len(x) > len(r.ins) || len(results) > len(r.outs) {
		return nil, fmt.Errorf("%d inputs, %d outputs", len(x), len(results))
	}
	file, made := text(path), new([2]uintptr)
	if err := l.call(createOptions, pointer(&made[0])); err != nil {
		return nil, err
	}
	if err := l.call(setExecutionThreads, made[0], uintptr(threads)); err != nil {
		return nil, err
	}
	if err := l.call(createSession, l.env, pointer(file), made[0], pointer(&made[1])); err != nil {
		return nil, err
	}
	runtime.KeepAlive(file)
	r.opts, r.session = made[0], made[1]
	for i, t := range r.tensors {
		r.names = append(r.names, text(t.Name))
		if i < len(x) {
			r.ins[i] = pointer(r.names[i])
		} else {
			r.outs[i-len(x)] = pointer(r.names[i])
		}
		if t.Tensor == nil {
			r.own = append(r.own, i)
		} else if err := r.tensor(t.Tensor, &r.values[i]); err != nil {
			return nil, err
		}
	}
	f := r.frame
	f.Fn = l.api[runSession]
	f.Args = [dl.FrameArgs]uintptr{r.session, 0, pointer(&r.ins[0]), pointer(&r.values[0]), uintptr(len(x)), pointer(&r.outs[0]), uintptr(len(results)), pointer(&r.values[len(x)])}
	return r, nil
}

func (r *rival) run() error {
	for _, i := range r.own {
		if r.values[i] != 0 {
			dl.Call(r.l.api[releaseValue], r.values[i])
			r.values[i] = 0
		}
	}
	if dl.Invoke(r.frame); r.frame.Ret != 0 {
		return fmt.Errorf("ONNX Runtime fails to run")
	}
	return nil
}
