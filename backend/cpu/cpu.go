// Package cpu is the embedded backend: networks of float32, of integers of 8 bits and of float64 on the host's processor in pure Go and
// Go assembly, with AVX-512, AVX2, NEON and portable kernels chosen at run time.
//
// Convolutional parts run in the blocked layout NCHW16c, which its signatures expose at the boundaries of groups, over three
// axes in one whose depth is outside of the blocks (volume.go); everything else is row-major. Weights are packed when a
// model is compiled, as formats of constants. Bias, activation and residual addition are fused into convolutions and matrix
// products by the properties of this package.
//
// A subgraph is compiled to a list of nodes, and specialised to a list of steps over planned buffers: views alias their
// source, element-wise operators run in place, and concatenations are written in place by their producers, along
// inner axes too where kernels take strided rows. A run calls the steps one after the other, each spread over the worker
// pool in chunks; it allocates nothing.
// Results do not depend on the number of threads.
//
// Where to start: cpu.go has the Backend and the table of operators, each of which is two functions, one for its signatures
// and one that plans it, and a third where it takes strided rows (strided.go); planner.go turns a subgraph into steps over
// places in memory, which package place gives out, and runs them; fuse.go has the properties. Every other file holds a
// family of operators, and registers it: conv.go, winograd.go, pool.go, binary.go, activation.go, matmul.go, integers.go, rows.go, move.go and so
// on. double.go says what is different for float64, texts.go what is for strings, pairs.go and
// narrow.go what is for bfloat16 and for weights in half precision.
// A new operator is a registration and a spec against package reference.
//
// The package imports backend and what is below it, and internal/kernel.
package cpu

import (
	"context"
	"fmt"
	"runtime"
	"slices"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/fuse"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/kernel/pairs"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

func init() { backend.Register("cpu", Open) }

// Version changes with the kernels and formats of the backend.
const Version = "3"

// cpu is the backend with kernels for a target. Whatever it plans is handed the target; nothing asks the processor later.
type cpu struct {
	target  isa.Target
	pairs   pairs.Type   // of what products and convolutions are
	weights string       // the option: of products in float32
	unmet   string       // an option that has no effect on the target, and why
	direct  bool         // convolutions in their order of definition alone
	quants  *fuse.Quants // what weights of quantised models are
	best    *winogradChoices
	halves  *halfValues
	laws    *backend.Efficiency
}

// Open opens the backend. Its options:
//
// "isa" is the instruction set of its kernels, "portable", "avx2", "avx512" or "neon". The default is the best that the
// processor runs; one that it does not run is an error.
//
// "precision" is that of products and convolutions: "f32", exact, by default. "bf16" rounds their operands to bfloat16, to nearest, ties
// to even, and adds up in float32: products with constant weights, those of recurrent layers and attention, and convolutions but
// for depthwise ones, groups of 2, 4 or 8 channels, up to 4 channels, three axes, and those that Winograd's algorithms in float32 make faster.
// Weights take half the memory. It needs AVX-512 BF16, or FEAT_BF16 on arm64. Where the processor has AMX for bfloat16 too, products of several rows and
// convolutions but for transposed ones and those in groups are computed by its tiles, which count numbers below 2⁻¹²⁶ as 0. "f16" does so in float16, with FEAT_FP16 on arm64, where up
// to 64 products, of every other number, are added up in float16 before they are added to others in float32: numbers above 65504, and such sums, become
// infinity, and weights that float16 does not hold stay exact. Both are done by
// portable Go where that is the set; a processor, or a set of the option "isa", without the instructions stays exact. backend.Info and the report name the
// precision where it has effect, and backend.Info.Unmet says where it has none.
//
// "weights" is how constant weights of products and recurrent layers are kept: "f32", or "f16", rounded to float16 and multiplied in float32, for half
// of the bytes where few rows wait for memory; weights that float16 does not hold stay. It goes with precision "f32" alone. By default large ones
// whose numbers are the same in float16, as in models of that type, are kept so, and all others in float32: results are the same.
//
// "winograd" says whether convolutions of 3 by 3 taps may be computed by Winograd's algorithms, "on" (default) or "off": where that
// is faster, which needs sizes of images that are known when the model is compiled. Results then differ from those of the
// direct convolution within a bound, which the documentation of package internal/kernel/winograd states; weights take 1.8 or 4
// times their memory.
//
// "amx" says whether tiles of AMX multiply where the processor has them and Linux permits it, "on" (default) or "off": integers of 8 bits, with the same
// results, and bfloat16 under that precision, which is rounded in another order. backend.Info and the report name AMX where it is used.
//
// Errors wrap backend.ErrOption.
func Open(c backend.Config) (backend.Backend, error) {
	var precision, weights, tiles string
	b := cpu{target: isa.Host(), quants: &fuse.Quants{}, best: &winogradChoices{}, halves: &halfValues{}}
	for k, v := range c.Options {
		var err error
		switch {
		case k == "isa":
			if b.target, err = isa.Named(v); err != nil {
				return nil, fmt.Errorf("%w: %q: %w", backend.ErrOption, k, err)
			}
		case k == "precision" && (v == "f32" || v == "bf16" || v == "f16"):
			precision = v
		case k == "precision":
			return nil, fmt.Errorf("%w: %q: %q, expected f32, bf16 or f16", backend.ErrOption, k, v)
		case k == "weights" && (v == "f32" || v == "f16"):
			weights = v
		case k == "weights":
			return nil, fmt.Errorf("%w: %q: %q, expected f32 or f16", backend.ErrOption, k, v)
		case k == "winograd" && (v == "on" || v == "off"):
			b.direct = v == "off"
		case k == "winograd":
			return nil, fmt.Errorf("%w: %q: %q is neither on nor off", backend.ErrOption, k, v)
		case k == "amx" && (v == "on" || v == "off"):
			tiles = v
		case k == "amx":
			return nil, fmt.Errorf("%w: %q: %q is neither on nor off", backend.ErrOption, k, v)
		default:
			return nil, fmt.Errorf("%w: %q, expected isa, precision, weights, winograd or amx", backend.ErrOption, k)
		}
	}
	if tiles == "off" {
		b.target = b.target.WithoutTiles()
	}
	if precision != "" && precision != "f32" && weights == "f16" {
		return nil, fmt.Errorf("%w: precision=%s and weights=f16 exclude each other", backend.ErrOption, precision)
	}
	b.narrowed(precision, weights)
	b.laws = b.efficiency()
	return b, nil
}

// narrowed sets what options ask for, as far as there are kernels for the target.
func (b *cpu) narrowed(precision, weights string) {
	if b.weights = weights; weights == "" && b.target.Set == isa.Portable {
		b.weights = "f32" // numbers that are widened one by one cost more than their bytes
	}
	var needs string
	switch precision {
	case "bf16":
		b.pairs, needs = pairs.BFloat16, "AVX-512 BF16 and no FEAT_BF16 of arm64"
	case "f16":
		b.pairs, needs = pairs.Float16, "FEAT_FP16 of arm64"
	}
	if !b.pairs.On(b.target) {
		b.pairs, b.unmet = pairs.Float32, fmt.Sprintf("precision=%s: no %s, products stay in f32", precision, needs)
	}
}

// Info implements backend.Backend.
func (b cpu) Info() backend.Info {
	info := backend.Info{Name: "cpu", Version: Version, Processor: fmt.Sprintf("%s, %v", runtime.GOARCH, b.target), Kernels: true,
		Layouts: []graph.Layout{graph.NCHW16c}, Efficiency: b.laws}
	switch {
	case b.pairs != pairs.Float32:
		info.Precision = b.pairs.String()
	case b.weights == "f16":
		info.Precision = "f32 with f16 weights"
	}
	if b.target.Int8Tiles() {
		info.Processor += " with AMX"
	}
	if info.Unmet = b.unmet; info.Precision != "" {
		info.Processor += ", products in " + info.Precision
	}
	if b.pairs == pairs.BFloat16 && b.target.BFloat16Tiles() {
		info.Processor += " by AMX"
	}
	return info
}

// Devices implements backend.Backend: the host.
func (cpu) Devices() []device.Device { return host }

// host is what runs use; asking for it is no allocation.
var host = []device.Device{device.Host}

// Converters implements backend.Backend: its layouts are described, so that convert's own reorders serve.
func (cpu) Converters() []convert.Converter { return nil }

// Close implements backend.Backend.
func (cpu) Close() error { return nil }

// operator is what the backend knows of one kind of node. Package operators says more.
type operator = operators.Operator[func(n *graph.Node) ([]graph.Signature, *property.Reason), *planner]

// table has the operators of the default domain, and those of patterns.
var table = operators.Table[func(n *graph.Node) ([]graph.Signature, *property.Reason), *planner]{}

// Supports implements backend.Backend.
func (b cpu) Supports(n *graph.Node) backend.Support {
	check := unfit
	if n.IsCarve(graph.OpFused) && n.Str("pattern", "") == nibbleProductName {
		check = unfitNibbles
	}
	if hasTexts(n) {
		check = unfitText
	}
	if findsAxes(n) { // which may tell the rank of the result
		unfitOperand := check
		check = func(v *graph.Value) *property.Reason {
			if v == n.Outputs[0] && v.Type.IsTensor() && !v.Type.Shape.Known() {
				return nil
			}
			return unfitOperand(v)
		}
	}
	return tableOf(n).Supports(n, "kernel", check, func(signatures func(*graph.Node) ([]graph.Signature, *property.Reason)) ([]graph.Signature, *property.Reason) {
		if v := place.Unfounded(n); v != nil && !chooses(n) && !place.ReadsContents(n) {
			return nil, property.Because(property.DynamicShape, "the shape of %v depends on data", v)
		}
		list, why := signatures(n)
		return withColumns(b.withNarrow(b.withWinograd(n, list), n), n), why
	})
}

// unfit is the reason why a value is none for kernels, nil where it may be one.
func unfit(v *graph.Value) *property.Reason {
	if !v.Type.IsTensor() || !v.Type.Shape.Known() {
		return property.Because(property.DynamicShape, "the rank of %v depends on data", v)
	}
	if v.Type.DType.Size() == 0 {
		return property.Because(property.DTypeReason, "%v has element type %v", v, v.Type.DType)
	}
	return nil
}

// Compile implements backend.Backend.
func (b cpu) Compile(ctx context.Context, sub *graph.Graph, o backend.CompileOptions) (backend.Executable, error) {
	e, err := b.compile(sub, o)
	if err != nil {
		return nil, err
	}
	return e, ctx.Err()
}

func (b cpu) compile(sub *graph.Graph, o backend.CompileOptions) (*executable, error) {
	e := &executable{target: b.target, pairs: b.pairs, sub: sub, ops: make([]operator, sub.NodeIDs()), threads: max(o.Threads, 1),
		kernels: place.KernelsOf(o.Properties)}
	var err error
	if e.order, err = operators.Order(sub, "kernel", e.find); err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(e.order, chooses); i >= 0 && len(e.order) > 1 {
		return nil, fmt.Errorf("%w: %v in a group with others, whose memory cannot be planned", backend.ErrUnavailable, e.order[i])
	}
	for _, n := range e.order {
		if operators.Of(n.Op.Domain, n.Op.Name) == nbitsName {
			e.packNBits(n)
		}
	}
	return e, nil
}

var (
	blocked = graph.On(graph.NCHW16c)
	rowMaj  = graph.HostFormat
)

// is4D reports whether v is a float32 tensor of rank 4, which may be blocked.
func is4D(v *graph.Value) bool {
	return v != nil && v.Type.DType == tensor.Float32 && len(v.Type.Shape) == 4
}
