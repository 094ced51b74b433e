package fakecuda

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"unsafe"

	"github.com/carve-dev/carve/internal/dl"
	"github.com/carve-dev/carve/internal/gpukernel"
	"github.com/carve-dev/carve/internal/gpukernel/nvrtc"
	"github.com/carve-dev/carve/internal/testcache"
)

// ErrNoCompiler is returned where the host has no C compiler, or libraries cannot be opened here.
var ErrNoCompiler = errors.New("no C compiler (gcc) for the fake driver")

//go:embed source/*.c source/*.h
var sources embed.FS

// Options say what is built. The zero value is the whole driver.
type Options struct {
	Omit []string // symbols that the driver shall lack, as old ones do
}

// Driver is a fake driver and a fake compiler that this process has opened. Its methods are safe for concurrent use. What they
// set and count is the process's: specs that share a Driver run one after another.
type Driver struct {
	CUDA, NVRTC   string // paths of the libraries
	CUBLAS, CUDNN string // those of cuBLASLt and cuDNN, which are in the driver's
	cuda, nvrtc   *dl.Library
}

// table parts the dialect of the fibre build from its runtime.
const table = "\nstatic const kernel_entry kernel_table[] = {\n};\n"

// flags are the compiler's, for driver and compiler.
var flags = []string{"-std=gnu11", "-O2", "-g1", "-Wall", "-Wno-unused-function", "-Wno-unused-variable", "-Wno-address-of-packed-member", "-shared", "-fPIC",
	"-fvisibility=hidden", "-fwrapv", "-ffp-contract=off", "-D_GNU_SOURCE", "-DFIBRE_LIBRARY", "-DMACHINE=\"-march=native\""}

// Build writes both libraries to dir, which has to exist and to last as long as the process uses them, and opens them. What is
// compiled later is kept there too, and for later processes in the user's cache (see testcache). Each folder has a driver of its own, with its own
// devices. It takes about two seconds the first time.
func Build(ctx context.Context, dir string, o Options) (*Driver, error) {
	gcc, err := exec.LookPath("gcc")
	if err != nil || !dl.Supported || runtime.GOOS != "linux" {
		return nil, ErrNoCompiler
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	texts, err := write(dir)
	if err != nil {
		return nil, err
	}
	kept, err := testcache.Folder(ctx, "fakecuda", gcc, append(texts, flags...)...)
	if err != nil {
		kept = "" // every driver compiles its own
	}
	d := &Driver{CUDA: filepath.Join(dir, "libcuda.so.1"), NVRTC: filepath.Join(dir, "libnvrtc.so.12"),
		CUBLAS: filepath.Join(dir, "libcublasLt.so.12"), CUDNN: filepath.Join(dir, "libcudnn.so.9")}
	args := append(flags[:len(flags):len(flags)], fmt.Sprintf("-DCOMPILER=%q", gcc), fmt.Sprintf("-DKEPT=%q", kept))
	hidden := "{ local: " + strings.Join(append(o.Omit, "none_of_this_name"), "; ") + "; };\n"
	hide := filepath.Join(dir, "omit.map")
	if err := os.WriteFile(hide, []byte(hidden), 0o600); err != nil {
		return nil, err
	}
	args = append(args, "-Wl,--version-script="+hide)
	sum := sha256.Sum256([]byte(hidden))
	for _, b := range [][2]string{{"driver.c", d.CUDA}, {"nvrtc.c", d.NVRTC}} {
		build := func(out string) error {
			all := append(args[:len(args):len(args)], "-o", out, filepath.Join(dir, b[0]), "-lpthread", "-ldl", "-lm")
			if msg, err := exec.CommandContext(ctx, gcc, all...).CombinedOutput(); err != nil {
				return fmt.Errorf("gcc: %w\n%.6000s", err, msg)
			}
			return nil
		}
		if kept == "" {
			err = build(b[1])
		} else {
			err = copied(b[1], filepath.Join(kept, fmt.Sprintf("%s-%x.so", b[0], sum[:8])), build)
		}
		if err != nil {
			return nil, err
		}
	}
	for _, name := range []string{d.CUBLAS, d.CUDNN} {
		if err := os.Symlink(filepath.Base(d.CUDA), name); err != nil {
			return nil, err
		}
	}
	if d.cuda, err = dl.Open(d.CUDA); err != nil {
		return nil, err
	}
	if d.nvrtc, err = dl.Open(d.NVRTC); err != nil {
		return nil, err
	}
	return d, nil
}

// copied writes a copy of a file, so that the loader takes it for another library, and makes the file first where there is none yet.
func copied(to, from string, build func(out string) error) error {
	if _, err := os.Stat(from); err != nil {
		part := fmt.Sprintf("%s.%d", from, os.Getpid())
		if err := build(part); err != nil {
			return err
		}
		if err := os.Rename(part, from); err != nil {
			return err
		}
	}
	testcache.Touch(from)
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o600)
}

// write puts the sources into the folder, beside what they include of the fibre build, and returns the texts in the order of their names.
func write(dir string) ([]string, error) {
	dialect, fibres, found := strings.Cut(gpukernel.Source(gpukernel.Fibres), table)
	if !found {
		return nil, errors.New("the fibre build's text is not what it was")
	}
	files := map[string]string{"dialect.h": dialect, "fibres.h": fibres, "prelude.cu": gpukernel.Source(gpukernel.CUDA)}
	err := fs.WalkDir(sources, "source", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := sources.ReadFile(path)
		files[e.Name()] = string(b)
		return err
	})
	if err != nil {
		return nil, err
	}
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(files[name]), 0o600); err != nil {
			return nil, err
		}
		texts = append(texts, files[name])
	}
	return texts, nil
}

func symbol(lib *dl.Library, name string) uintptr {
	fn, err := lib.Symbol(name)
	if err != nil {
		panic(err) // a name that is written in this package
	}
	return fn
}

// named calls a function with a C string and a number.
func named(lib *dl.Library, function, name string, value int) int {
	b := append([]byte(name), 0)
	return int(dl.Call(symbol(lib, function), uintptr(unsafe.Pointer(&b[0])), uintptr(value)))
}

// Know makes the driver take texts of the assembler's language, each of which ends with a zero, for what the compiler makes of a source
// for an architecture such as "sm_80". That they are the same is for somebody else to show.
func (d *Driver) Know(texts [][]byte, source, arch string) error {
	compiler, err := nvrtc.Open(d.NVRTC)
	if err != nil {
		return err
	}
	image, _, err := compiler.Compile(source, arch)
	if err != nil {
		return err
	}
	const hash = 9 // where the header of an image has one
	clear(image[hash : hash+4])
	dir := filepath.Dir(d.CUDA)
	if err := os.WriteFile(filepath.Join(dir, "known-"+arch+".so"), image, 0o600); err != nil {
		return err
	}
	for _, t := range texts {
		h := fnv.New64a()
		_, _ = h.Write(bytes.TrimRight(t, "\x00")) // it cannot fail
		if err := os.Symlink("known-"+arch+".so", filepath.Join(dir, fmt.Sprintf("text%016x.so", h.Sum64()))); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

// Set changes a setting of the driver; it panics where there is none of that name.
//
// devices, memory (bytes of each), driver (12090 for 12.9), capability (80 for 8.0), processors: what there is. seed: of the
// order of streams and work items. early: percent of the queued commands at which some begin to run (25). worker: 1 runs commands
// on a thread of the driver's, without anybody's waiting. slow_us: what each kernel takes longer, slow_library_us: what each work of a library does. fail_at, fail_every: the calls
// from now on that fail, with fail_code (999), each call from then on where fail_sticky is 1. fault_at: the kernel from now on
// that ends with an illegal address, which loses the context. no_pools: 1 where there are no pools of memory. trace: 1 writes
// calls to standard error. blas_version (120901), dnn_version (92800): what the libraries say. no_algorithms: 1 where they have none.
func (d *Driver) Set(name string, value int) {
	if int32(named(d.cuda, "fakecuda_set", name, value)) == 0 {
		panic("fakecuda: no setting " + name)
	}
}

// FailIn has fail_at and fail_every count the calls of one function only, of all where it is empty.
func (d *Driver) FailIn(function string) { named(d.cuda, "fakecuda_fail_in", function, 0) }

// Count returns how often a function was called since the last Reset; for "kernels" and "executed" how many kernels and commands
// have run, for "early" how many commands had when the last one was queued, and for "" the calls that could have failed since
// fail_at, fail_every or FailIn was set.
func (d *Driver) Count(name string) int { return named(d.cuda, "fakecuda_count", name, 0) }

// Live returns what has not been given back, a line a kind; "" is nothing. Functions live as long as their modules.
func (d *Driver) Live() string { return text(d.cuda, "fakecuda_live") }

// Calls returns how often each function was called since the last Reset, a line each.
func (d *Driver) Calls() string { return text(d.cuda, "fakecuda_calls") }

// Report returns what was done wrong since the last Reset, a line each.
func (d *Driver) Report() string { return text(d.cuda, "fakecuda_report") }

// Reset runs what is queued, and makes settings, counts and the report what they were at first, and lost contexts sound. Live
// objects stay.
func (d *Driver) Reset() {
	dl.Call(symbol(d.cuda, "fakecuda_reset"))
	d.SetCompiler("fail_at", 0)
	d.SetCompiler("version", 12090)
	d.SetCompiler("wrong_tanh", 0)
}

// SetCompiler changes a setting of the compiler: fail_at, the compilation from now on that fails, version (12090 for 12.9), or
// wrong_tanh: 1 has what is compiled from now on calculate sinh for tanh. It panics where there is none of that name.
func (d *Driver) SetCompiler(name string, value int) {
	if int32(named(d.nvrtc, "fakenvrtc_set", name, value)) == 0 {
		panic("fakecuda: no setting " + name)
	}
}

// CompilerCount returns a count of the compiler's: of calls, of programs compiled, of those found in the folder, and of those that
// are live.
func (d *Driver) CompilerCount(name string) int { return named(d.nvrtc, "fakenvrtc_count", name, 0) }

// Sources returns the texts that the compiler has compiled so far, each once, in an order that says nothing.
func (d *Driver) Sources() ([]string, error) {
	names, err := filepath.Glob(filepath.Join(filepath.Dir(d.NVRTC), "k*.cu"))
	if err != nil {
		return nil, err
	}
	list := make([]string, len(names))
	for i, n := range names {
		b, err := os.ReadFile(n)
		if err != nil {
			return nil, err
		}
		list[i] = string(b)
	}
	return list, nil
}

func text(lib *dl.Library, function string) string {
	b := make([]byte, 1<<15)
	n := dl.Call(symbol(lib, function), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
	return string(b[:min(int(n), len(b)-1)])
}
