package cpu

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/kernel/conv"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/kernel/pairs"
	"github.com/carve-dev/carve/internal/place"
)

// Weights of groups that do not fall on blocks of channels are packed by the blocks of results, each with the channels of its groups
// and zeros where it spans some. No permutation and blocking describes that: their format is an opaque layout, named by the number of
// groups. So is that of weights in bfloat16 or float16, in groups or not.

const (
	groupsPrefix           = "cpu@" + Version + ":groups-"
	transposedGroupsPrefix = "cpu@" + Version + ":transposed-groups-"
	pairsPrefix            = "cpu@" + Version + ":bf16-groups-"
	transposedPairsPrefix  = "cpu@" + Version + ":bf16-transposed-groups-"
	halvesPrefix           = "cpu@" + Version + ":f16-groups-"
	transposedHalvesPrefix = "cpu@" + Version + ":f16-transposed-groups-"
)

// groupedWeights returns the format of the weights of a convolution in groups, transposed or not.
func groupedWeights(groups int, transposed bool) graph.Format {
	return weightPacker{groups: groups, transposed: transposed}.format()
}

func (w weightPacker) format() graph.Format {
	for prefix, x := range packers {
		if x.groups = w.groups; x == w {
			return mustFormat(prefix + strconv.Itoa(w.groups))
		}
	}
	panic("no such weights")
}

// packers are those of one group, by what their formats' names begin with.
var packers = map[string]weightPacker{groupsPrefix: {}, transposedGroupsPrefix: {transposed: true}, pairsPrefix: {pairs: pairs.BFloat16},
	transposedPairsPrefix: {transposed: true, pairs: pairs.BFloat16}, halvesPrefix: {pairs: pairs.Float16},
	transposedHalvesPrefix: {transposed: true, pairs: pairs.Float16}}

// weightPacker makes plans whose weights are in a layout.
type weightPacker struct {
	groups     int
	transposed bool
	pairs      pairs.Type
}

// packerOf returns what a layout's name says; ok is false for a layout that is not of grouped weights.
func packerOf(l graph.Layout) (w weightPacker, ok bool) {
	for prefix, w := range packers {
		if number, ok := strings.CutPrefix(l.String(), prefix); ok {
			n, err := strconv.Atoi(number)
			w.groups = n
			return w, err == nil && n > 0
		}
	}
	return w, false
}

// groupWeights are weights of known dims.
type groupWeights struct {
	*conv.Plan
	rows, slices, taps int // [rows, slices, taps] in the model; slices is 1 but for three axes
	pairs              pairs.Type
}

// plan returns a convolution with weights of these dims: OIHW, IOHW of a transposed one, or with one or three axes instead of
// two. Weights over three axes are packed slice by slice of the kernel's depth.
func (w weightPacker) plan(t isa.Target, dims []int) (g groupWeights, err error) {
	if len(dims) < 3 || len(dims) > 5 {
		return g, fmt.Errorf("%w: weights of %v", tensor.ErrShape, dims)
	}
	if _, err := tensor.NumElements(dims); err != nil {
		return g, err
	}
	g.rows, g.slices = dims[0]*dims[1], 1
	if len(dims) == 5 {
		g.slices = dims[2]
		dims = slices.Concat(dims[:2], dims[3:])
	}
	g.taps, g.pairs = product(dims[2:]), w.pairs
	kernel := [2]int{1, dims[len(dims)-1]}
	if len(dims) == 4 {
		kernel[0] = dims[2]
	}
	c, oc := dims[1]*w.groups, dims[0]
	window := conv.Map{H: kernel[0], W: kernel[1], Kernel: kernel} // a map of few pixels, each tap being read for one of them
	if w.transposed {
		c, oc = dims[0], dims[1]*w.groups
		window.H, window.W = 1, 1
	}
	g.Plan, err = conv.NewConv(t, conv.Spec{N: 1, C: c, OC: oc, Groups: w.groups, Transposed: w.transposed, Pairs: w.pairs,
		Map: window})
	return g, err
}

// bytes is the size of the packed weights.
func (g groupWeights) bytes() int { return 4 * g.slices * g.WeightFloats() }

// ConvertersOf implements convert.Source.
func (b cpu) ConvertersOf(l graph.Layout) []convert.Converter {
	if m := winogradOf(l); m > 0 {
		return b.winogradConverters(l, m)
	}
	if n, ok := narrowLayoutOf(l); ok {
		return b.narrowConverters(l, n)
	}
	w, ok := packerOf(l)
	if !ok {
		return nil
	}
	size := func(_ graph.Format, _ tensor.DType, dims []int) (int64, error) {
		p, err := w.plan(b.target, dims)
		if err != nil {
			return 0, err
		}
		return int64(p.bytes()), nil
	}
	one := func(name string, from, to graph.Format, move func(g groupWeights, dst, src []byte) error) convert.Converter {
		return convert.Converter{Name: name, From: from, To: to, Cost: convert.HostCost, Rounds: w.pairs != pairs.Float32, Size: size,
			Supports: func(dt tensor.DType, rank int) bool { return dt == tensor.Float32 && rank >= 3 && rank <= 5 },
			Plan: func(dt tensor.DType, dims []int) (convert.Move, error) {
				p, err := w.plan(b.target, dims)
				if err != nil {
					return nil, err
				}
				return func(_ context.Context, dst, src *tensor.Tensor, _ convert.Exec) error {
					return move(p, dst.Data[dst.Offset:], src.Data[src.Offset:])
				}, nil
			}}
	}
	return []convert.Converter{one("cpu-pack-groups", graph.HostFormat, graph.On(l), packGroups),
		one("cpu-unpack-groups", graph.On(l), graph.HostFormat, unpackGroups)}
}

func packGroups(g groupWeights, dst, src []byte) error {
	if len(dst) < g.bytes() {
		return place.ErrShort
	}
	out, one := place.Elements[float32](dst[:g.bytes()]), g.WeightFloats()
	slice := src
	if g.slices > 1 {
		slice = make([]byte, 4*g.rows*g.taps)
	}
	for k := range g.slices {
		if g.slices > 1 {
			for r := range g.rows {
				copy(slice[4*r*g.taps:4*(r+1)*g.taps], src[4*(r*g.slices+k)*g.taps:])
			}
		}
		if err := g.PackWeights(out[k*one:(k+1)*one], slice, 0, g.PackChunks()); err != nil {
			return err
		}
	}
	return nil
}

// unpackGroups packs the numbers of the weights' places, 8 bits at a time, which 16 bits hold, and follows them back.
func unpackGroups(g groupWeights, dst, src []byte) error {
	if len(src) < g.bytes() {
		return place.ErrShort
	}
	weights, packed := place.Elements[uint32](dst), place.Elements[uint32](src[:g.bytes()])
	count, bits := len(packed), func(words []uint32, k int) uint32 { return words[k] }
	if g.pairs != pairs.Float32 {
		count = 2 * len(packed)
		bits = func(words []uint32, k int) uint32 {
			return math.Float32bits(g.pairs.At(words, k/pairs.Lanes, k%pairs.Lanes))
		}
	}
	digits, at, places := make([]float32, len(weights)), make([]float32, len(packed)), make([]int, count)
	for shift := 0; len(weights)>>shift > 0; shift += 8 {
		for i := range digits {
			digits[i] = float32((i + 1) >> shift & 255)
		}
		if err := packGroups(g, conv.Float32s(at), conv.Float32s(digits)); err != nil {
			return err
		}
		words := place.Elements[uint32](conv.Float32s(at))
		for k := range places {
			places[k] |= int(math.Float32frombits(bits(words, k))) << shift
		}
	}
	for k, i := range places {
		if i > 0 {
			weights[i-1] = bits(packed, k)
		}
	}
	return nil
}
