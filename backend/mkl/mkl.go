// Package mkl is the oneDNN backend: Intel's Math Kernel Library for deep neural networks, found at run time. Nothing of it
// is needed to build, and where it is absent, too old or not what its name says, the backend is unavailable and says why.
//
// Importing the package registers the backend as "mkl", and makes a program on Linux a dynamic one. The library is looked
// for under the path that the option "library" gives, or under the system's names for it: libdnnl.so.3, libdnnl.so.2 and
// libdnnl.so on Linux. Versions 2.6 and later and 3.x are told apart by what the library says of itself.
//
// Options:
//
//	library   path of the library
//	layout    of activations inside of convolutional parts: NCHW16c, NCHW8c, NHWC or row-major; what suits the library's
//	          kernels on this processor by default
//	fail      the backend fails, to try what happens then: "compile"; "primitive", when the first primitive of a group is
//	          made; "run"; "execute", when the last primitive of a group runs, which the library refuses
//
// The library is asked which layout it prefers for weights; what it answers is decoded into carve's terms, or named where
// these do not suffice, so that constants are packed when a model is compiled, once per constant and format. Activations are in a layout that
// cpu has too, so that nothing stands between the two. Reorders inside of a group are the library's own.
//
// A group is handed over to the library at once: runs execute on fixed threads of their own, because the library's teams
// belong to operating-system threads, while carve's pool is parked; there are at most as many at a time as processors allow.
// A group whose primitives all have one thread needs no team, and runs on its caller's thread, as one of as many.
// Primitives that take little time are made for one thread, whatever the number of a run (work.go). Threads of GNU's OpenMP
// library sleep soon when they are idle, unless GOMP_SPINCOUNT or OMP_WAIT_POLICY is set (spin.go).
// Where shapes depend on data, primitives are made in the run that finds them, and kept for the last few shapes. A primitive takes
// the library 0.1 to 0.4 ms to make, as long as package cpu, which needs none, multiplies by 256 by 256: only convolutions and
// products that do much more are taken there (late.go).
// Scratch memory is planned with the group's buffers, primitives are shared between sessions and programs, and a run
// allocates nothing once it is warm.
package mkl

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/internal/fuse"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

func init() { backend.Register("mkl", Open) }

// mkl is an opened backend.
type mkl struct {
	l       *library
	blocked graph.Layout // of activations with two spatial dims; row-major where the library has no other
	block   int          // channels in a block of it, 0 where it is not blocked
	answers *answers
	packed  packedLayouts
	quants  *fuse.Quants
	fail    string
}

// Open opens the backend. The error wraps backend.ErrUnavailable where there is no library that serves.
func Open(c backend.Config) (backend.Backend, error) {
	for k := range c.Options {
		if k != "library" && k != "layout" && k != "fail" {
			return nil, fmt.Errorf("%w: %q, expected library or layout", backend.ErrOption, k)
		}
	}
	b := &mkl{answers: &answers{}, quants: &fuse.Quants{Counts: true}, fail: c.Options["fail"]}
	switch b.fail {
	case "", "compile", "primitive", "run", "execute":
	default:
		return nil, fmt.Errorf("%w: fail %q", backend.ErrOption, b.fail)
	}
	var err error
	if b.l, err = openLibrary(c.Options["library"]); err != nil {
		return nil, err
	}
	return b, b.chooseLayout(c.Options["layout"])
}

// chooseLayout sets the layout of activations: the first in which the library has a fast kernel for a usual convolution.
func (b *mkl) chooseLayout(name string) error {
	list := []string{"NCHW16c", "NCHW8c", "NHWC", "row-major"}
	if name != "" {
		list = []string{name}
	}
	for i, s := range list {
		l, err := graph.ParseLayout(s)
		if err != nil {
			return fmt.Errorf("%w: layout: %w", backend.ErrOption, err)
		}
		if d, err := l.Describe(4); err != nil || len(d.Blocks) > 1 || len(d.Blocks) == 1 && (d.Blocks[0].Dim != 1 || d.Order[1] != 1) {
			return fmt.Errorf("%w: layout %q is none of activations with channels in one block", backend.ErrOption, s)
		} else if b.block = 0; len(d.Blocks) == 1 {
			b.block = d.Blocks[0].Size
		}
		b.blocked = l
		if i == len(list)-1 {
			return nil
		}
		dims := []int{1, 64, 56, 56}
		w := window{kernel: []int{3, 3}, strides: []int{1, 1}, dilations: []int{1, 1}, padL: []int{1, 1}, padR: []int{1, 1}}
		a := b.l.ask(b.answers, b.l.convolution(convDirect, w, in(l, dims), anyOf([]int{64, 64, 3, 3}), plain(64), in(l, dims), nil))
		if a.err == nil && (strings.HasPrefix(a.impl, "jit") || strings.HasPrefix(a.impl, "br")) {
			return nil
		}
	}
	return nil
}

// activations returns the format of activations of that rank inside of convolutional parts.
func (b *mkl) activations(rank int) graph.Format {
	if rank == 4 {
		return graph.On(b.blocked)
	}
	d, err := b.blocked.Describe(4)
	if err != nil || rank < 3 || rank > 5 || b.blocked.IsRowMajor() {
		return graph.HostFormat
	}
	last := d.Order[3] == 1 // channels last
	order := []int{0}
	if !last {
		order = append(order, 1)
	}
	for i := 2; i < rank; i++ {
		order = append(order, i)
	}
	if last {
		order = append(order, 1)
	}
	var blocks []graph.Block
	for _, x := range d.Blocks {
		blocks = append(blocks, graph.Block{Dim: x.Dim, Size: x.Size})
	}
	l, ok := tagLayout(order, blocks)
	if !ok {
		return graph.HostFormat
	}
	return graph.On(l)
}

// Info implements backend.Backend.
func (b *mkl) Info() backend.Info {
	return backend.Info{Name: "mkl", Version: "oneDNN " + b.l.version(), Path: b.l.path, Threads: true, Kernels: true, Layouts: b.layouts(),
		Processor: fmt.Sprintf("%s, %s, %s, %s", runtime.GOARCH, b.l.isa(), b.l.runtime, b.blocked.Name(4)), Efficiency: b.efficiency()}
}

// layouts returns those of images: of floats, and of integers.
func (b *mkl) layouts() []graph.Layout {
	list := []graph.Layout{b.blocked, graph.NHWC}
	return slices.Compact(slices.DeleteFunc(list, graph.Layout.IsRowMajor))
}

// Devices implements backend.Backend: the host.
func (*mkl) Devices() []device.Device { return []device.Device{device.Host} }

// Converters implements backend.Backend: its layouts are described, so that convert's own reorders serve.
func (*mkl) Converters() []convert.Converter { return nil }

// Close implements backend.Backend. The library stays open: its threads and exit handlers may still run.
func (*mkl) Close() error { return nil }

// operator is what the backend knows of one kind of node. Package operators says more.
type operator = operators.Operator[func(b *mkl, n *graph.Node) ([]graph.Signature, *property.Reason), *planner]

// table has the operators of the default domain, and those of patterns.
var table = operators.Table[func(b *mkl, n *graph.Node) ([]graph.Signature, *property.Reason), *planner]{}

// Supports implements backend.Backend. It asks the library for an implementation where the operator has one of its own, and
// leaves nodes for which the library has none but its plain one to other backends.
func (b *mkl) Supports(n *graph.Node) backend.Support {
	return table.Supports(n, "primitive", b.fit(n), func(signatures func(*mkl, *graph.Node) ([]graph.Signature, *property.Reason)) ([]graph.Signature, *property.Reason) {
		sigs, why := signatures(b, n)
		return b.priced(n, sigs), why
	})
}

// unfit is the reason why no primitive is made for a value, nil where one may be.
func unfit(v *graph.Value) *property.Reason {
	if !v.Type.Backed() {
		return property.Because(property.DynamicShape, "the shape of %v depends on data: primitives are made before runs", v)
	}
	return empty(v)
}

// empty is the reason why no primitive is made for a value without elements, nil for others.
func empty(v *graph.Value) *property.Reason {
	for _, d := range v.Type.Shape {
		if x, known := d.Const(); known && x == 0 {
			return property.Because(property.ShapeReason, "%v is empty", v)
		}
	}
	return nil
}

// errInjected is what the option "fail" asks for.
var errInjected = errors.New("failure by option")

// Compile implements backend.Backend.
func (b *mkl) Compile(ctx context.Context, sub *graph.Graph, o backend.CompileOptions) (backend.Executable, error) {
	if b.fail == "compile" {
		return nil, errInjected
	}
	e, err := b.prepare(sub, o)
	if err != nil {
		return nil, err
	}
	e.threads = threadsOf(o)
	e.team = b.l.teams.acquire(b.l, e.threads)
	return e, ctx.Err()
}

// prepare returns what is known of a subgraph without asking the library.
func (b *mkl) prepare(sub *graph.Graph, o backend.CompileOptions) (*executable, error) {
	e := &executable{b: b, sub: sub, kernels: place.KernelsOf(o.Properties)}
	var err error
	e.order, err = operators.Order(sub, "primitive", func(n *graph.Node) bool {
		_, ok := e.lookup(n)
		return ok
	})
	return e, err
}

// threadsOf returns the most threads that primitives are made for.
func threadsOf(o backend.CompileOptions) int {
	if o.Threads <= 0 {
		return runtime.GOMAXPROCS(0)
	}
	return min(o.Threads, runtime.GOMAXPROCS(0))
}

// followSignatures has the first few inputs and all outputs in one format, that of activations or row-major, and the rest
// row-major.
func (b *mkl) followSignatures(n *graph.Node, follow int) []graph.Signature {
	rank := len(n.Outputs[0].Type.Shape)
	f := b.activations(rank)
	if f == graph.HostFormat {
		return operators.RowMajor(n)
	}
	for _, v := range n.Inputs[:follow] {
		if v == nil || len(v.Type.Shape) != rank {
			return operators.RowMajor(n)
		}
	}
	return operators.Follow(n, follow, f)
}

func product(dims []int) int {
	n := 1
	for _, d := range dims {
		n *= d
	}
	return n
}
