package mkl

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"unsafe"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/internal/dl"
)

// library is an open oneDNN with its engine. It is immutable but for its caches, safe for concurrent use, and lives until
// the process ends: neither the library nor what hangs on it may be unloaded.
type library struct {
	path                string
	major, minor, patch int
	runtime             string // "sequential", "OpenMP" or "TBB"
	fn                  map[string]uintptr
	fl                  floats
	setData             uintptr // dnnl_memory_set_data_handle
	setThreads          uintptr // omp_set_num_threads, 0 where the library has other threads
	engine              uintptr
	saturates           atomic.Bool // set by specs: products of bytes count as inexact

	tags       tagTable
	primitives cache
	teams      teams
}

// floats are the functions with floating-point parameters, by their Go types. Pointers and handles are machine words.
type floats struct {
	sum2       func(ops uintptr, scale float32) int32
	sum3       func(ops uintptr, scale float32, zero, dtype int32) int32
	eltwisePO2 func(ops uintptr, scale float32, alg int32, alpha, beta float32) int32
	eltwisePO3 func(ops uintptr, alg int32, alpha, beta float32) int32
	eltwise2   func(desc uintptr, prop, alg int32, data uintptr, alpha, beta float32) int32
	eltwise3   func(pd, engine uintptr, prop, alg int32, src, dst uintptr, alpha, beta float32, attr uintptr) int32
	lrn2       func(desc uintptr, prop, alg int32, data uintptr, size int64, alpha, beta, k float32) int32
	lrn3       func(pd, engine uintptr, prop, alg int32, src, dst uintptr, size int64, alpha, beta, k float32, attr uintptr) int32
	batchNorm2 func(desc uintptr, prop int32, data uintptr, eps float32, flags int32) int32
	batchNorm3 func(pd, engine uintptr, prop int32, src, dst uintptr, eps float32, flags int32, attr uintptr) int32
	layerNorm2 func(desc uintptr, prop int32, data, stat uintptr, eps float32, flags int32) int32
	layerNorm3 func(pd, engine uintptr, prop int32, src, dst, stat uintptr, eps float32, flags int32, attr uintptr) int32
	reduction2 func(desc uintptr, alg int32, src, dst uintptr, p, eps float32) int32
	reduction3 func(pd, engine uintptr, alg int32, src, dst uintptr, p, eps float32, attr uintptr) int32
}

// sonames are tried where no path is given, in this order.
func sonames() []string {
	switch runtime.GOOS {
	case "darwin":
		return []string{"libdnnl.3.dylib", "libdnnl.2.dylib", "libdnnl.dylib", "/opt/homebrew/lib/libdnnl.dylib", "/usr/local/lib/libdnnl.dylib"}
	case "windows":
		return []string{"dnnl.dll"}
	}
	return []string{"libdnnl.so.3", "libdnnl.so.2", "libdnnl.so"}
}

// Oldest and newest major versions, and the oldest minor one of the oldest major.
const (
	oldestMajor, oldestMinor = 2, 6
	newestMajor              = 3
)

// common are the functions that both versions have with the same parameters.
var common = strings.Fields(`
	dnnl_engine_create dnnl_stream_create dnnl_stream_destroy
	dnnl_memory_create dnnl_memory_set_data_handle dnnl_memory_destroy dnnl_memory_desc_get_size dnnl_memory_desc_equal
	dnnl_primitive_desc_query dnnl_primitive_desc_query_md dnnl_primitive_desc_destroy
	dnnl_primitive_create dnnl_primitive_execute dnnl_primitive_destroy
	dnnl_primitive_attr_create dnnl_primitive_attr_destroy dnnl_primitive_attr_set_scratchpad_mode
	dnnl_primitive_attr_set_post_ops dnnl_post_ops_create dnnl_post_ops_destroy dnnl_post_ops_append_binary
	dnnl_post_ops_append_sum dnnl_post_ops_append_eltwise
	dnnl_reorder_primitive_desc_create dnnl_concat_primitive_desc_create dnnl_sum_primitive_desc_create
	dnnl_get_effective_cpu_isa`)

// own are the functions that only one of the major versions has, or whose parameters differ.
var own = map[int][]string{
	2: strings.Fields(`
	dnnl_memory_desc_init_by_strides dnnl_memory_desc_init_by_tag dnnl_memory_desc_init_submemory
	dnnl_primitive_attr_set_output_scales dnnl_primitive_attr_set_zero_points
	dnnl_primitive_desc_create dnnl_dilated_convolution_forward_desc_init dnnl_dilated_deconvolution_forward_desc_init
	dnnl_matmul_desc_init dnnl_inner_product_forward_desc_init dnnl_pooling_v2_forward_desc_init dnnl_binary_desc_init
	dnnl_softmax_forward_desc_init dnnl_logsoftmax_forward_desc_init dnnl_shuffle_forward_desc_init
	dnnl_resampling_forward_desc_init dnnl_reduction_desc_init dnnl_eltwise_forward_desc_init dnnl_lrn_forward_desc_init
	dnnl_batch_normalization_forward_desc_init dnnl_layer_normalization_forward_desc_init`),
	3: strings.Fields(`
	dnnl_memory_desc_create_with_strides dnnl_memory_desc_create_with_tag dnnl_memory_desc_create_submemory
	dnnl_memory_desc_clone dnnl_memory_desc_destroy dnnl_memory_desc_query
	dnnl_primitive_attr_set_scales_mask dnnl_primitive_attr_set_zero_points_mask
	dnnl_convolution_forward_primitive_desc_create dnnl_deconvolution_forward_primitive_desc_create
	dnnl_matmul_primitive_desc_create dnnl_inner_product_forward_primitive_desc_create
	dnnl_pooling_forward_primitive_desc_create dnnl_binary_primitive_desc_create dnnl_softmax_forward_primitive_desc_create
	dnnl_shuffle_forward_primitive_desc_create dnnl_resampling_forward_primitive_desc_create
	dnnl_reduction_primitive_desc_create dnnl_eltwise_forward_primitive_desc_create dnnl_lrn_forward_primitive_desc_create
	dnnl_batch_normalization_forward_primitive_desc_create dnnl_layer_normalization_forward_primitive_desc_create`),
}

// opened are the libraries of the process.
var opened dl.Opened[library]

// openLibrary opens the library of a path, or the first that the system finds under its names. The error wraps
// backend.ErrUnavailable and says what is wrong with each that was tried.
func openLibrary(path string) (*library, error) {
	names := sonames()
	if path != "" {
		names = []string{path}
	}
	l, err := opened.First(names, load)
	if err == nil {
		return l, nil
	}
	if path != "" && filepath.Base(path) == path {
		if _, none := os.Stat(path); none == nil {
			err = errors.Join(err, fmt.Errorf("the system looks for a name in folders of its own; the file in this folder is .%c%s", filepath.Separator, path))
		}
	}
	return nil, fmt.Errorf("%w: %w", backend.ErrUnavailable, err)
}

// cell is a word that C writes to. It lies in the heap.
type cell struct{ v uintptr }

// pointer turns an address that C gave into a pointer.
func pointer(p uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&p)) }

// ErrLibrary is wrapped by the reasons why a library that could be opened does not serve.
var ErrLibrary = errors.New("library does not serve")

func load(name string) (*library, error) {
	h, err := openPatient(name)
	if err != nil {
		return nil, err
	}
	l := &library{path: name, fn: map[string]uintptr{}}
	version, err := h.Symbol("dnnl_version")
	if err != nil {
		return nil, fmt.Errorf("%w: this is no oneDNN: %w", ErrLibrary, err)
	}
	v := (*struct {
		major, minor, patch int32
		_                   int32
		hash                uintptr
		cpu, gpu            uint32
	})(pointer(dl.Call(version)))
	if v == nil {
		return nil, fmt.Errorf("%w: %s: this is no oneDNN: dnnl_version returns nothing", ErrLibrary, name)
	}
	l.major, l.minor, l.patch = int(v.major), int(v.minor), int(v.patch)
	if l.major < oldestMajor || l.major > newestMajor || l.major == oldestMajor && l.minor < oldestMinor {
		return nil, fmt.Errorf("%w: %s has version %s; %d.%d to %d.x are known", ErrLibrary, name, l.version(), oldestMajor, oldestMinor, newestMajor)
	}
	switch v.cpu {
	case 1:
		l.runtime = "sequential"
	case 2:
		l.runtime = "OpenMP"
	case 4:
		l.runtime = "TBB"
	default:
		return nil, fmt.Errorf("%w: %s has processor runtime %#x; sequential, OpenMP and TBB are known", ErrLibrary, name, v.cpu)
	}
	for _, list := range [][]string{common, own[l.major]} {
		for _, s := range list {
			p, err := h.Symbol(s)
			if err != nil {
				return nil, fmt.Errorf("%w: version %s: %w", ErrLibrary, l.version(), err)
			}
			l.fn[s] = p
		}
	}
	if l.runtime == "OpenMP" {
		if l.setThreads, err = h.Symbol("omp_set_num_threads"); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrLibrary, err)
		}
	}
	l.bindFloats()
	l.setData = l.fn["dnnl_memory_set_data_handle"]
	engine := new(cell)
	if err := l.call("dnnl_engine_create", uintptr(unsafe.Pointer(engine)), engineCPU, 0); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrLibrary, name, err)
	}
	l.engine = engine.v
	return l, nil
}

// bindFloats gives the functions with floats their Go types.
func (l *library) bindFloats() {
	bind := func(f any, name string) { dl.Bind(f, l.fn[name]) }
	if l.major == 2 {
		bind(&l.fl.sum2, "dnnl_post_ops_append_sum")
		bind(&l.fl.eltwisePO2, "dnnl_post_ops_append_eltwise")
		bind(&l.fl.eltwise2, "dnnl_eltwise_forward_desc_init")
		bind(&l.fl.lrn2, "dnnl_lrn_forward_desc_init")
		bind(&l.fl.batchNorm2, "dnnl_batch_normalization_forward_desc_init")
		bind(&l.fl.layerNorm2, "dnnl_layer_normalization_forward_desc_init")
		bind(&l.fl.reduction2, "dnnl_reduction_desc_init")
		return
	}
	bind(&l.fl.sum3, "dnnl_post_ops_append_sum")
	bind(&l.fl.eltwisePO3, "dnnl_post_ops_append_eltwise")
	bind(&l.fl.eltwise3, "dnnl_eltwise_forward_primitive_desc_create")
	bind(&l.fl.lrn3, "dnnl_lrn_forward_primitive_desc_create")
	bind(&l.fl.batchNorm3, "dnnl_batch_normalization_forward_primitive_desc_create")
	bind(&l.fl.layerNorm3, "dnnl_layer_normalization_forward_primitive_desc_create")
	bind(&l.fl.reduction3, "dnnl_reduction_primitive_desc_create")
}

func (l *library) version() string { return fmt.Sprintf("%d.%d.%d", l.major, l.minor, l.patch) }

// isa names the instructions that the library uses on this processor.
func (l *library) isa() string {
	names := map[int32]string{0x1: "SSE4.1", 0x3: "AVX", 0x7: "AVX2", 0xf: "AVX2-VNNI", 0x1f: "AVX2-VNNI-2", 0x27: "AVX-512",
		0x67: "AVX-512 VNNI", 0x6f: "AVX-512 VNNI", 0xe7: "AVX-512 BF16", 0xef: "AVX-512 BF16", 0x1ef: "AVX-512 FP16", 0x3e7: "AMX", 0xfef: "AMX"}
	isa := l.isaBits()
	if s := names[isa]; s != "" {
		return s
	}
	return fmt.Sprintf("instruction set %#x", isa)
}

// isaBits is the library's number of those instructions: a bit for each of its steps.
func (l *library) isaBits() int32 { return int32(dl.Call(l.fn["dnnl_get_effective_cpu_isa"])) }

// call calls a function that returns a status.
//
//go:uintptrescapes
func (l *library) call(name string, args ...uintptr) error {
	return status(name, int32(dl.Call(l.fn[name], args...)))
}

// withThreads calls f on a locked thread for which the library's number of threads is set: primitives keep the number with
// which they were created.
func (l *library) withThreads(threads int, f func() error) error {
	if l.setThreads == 0 {
		return f()
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	dl.Call(l.setThreads, uintptr(threads))
	return f()
}

// alone calls f on a locked thread for which the library has one thread.
func (l *library) alone(f func() error) error { return l.withThreads(1, f) }
