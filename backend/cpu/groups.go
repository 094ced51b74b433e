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
	"github.com/carve-dev/carve/internal/place"
)

// Weights of groups that do not fall on blocks of channels are packed by the blocks of results, each with the channels of its groups
// and zeros where it spans some. No permutation and
// blocking describes that: their format is an opaque layout, named by the number of groups.

const (
	groupsPrefix           = "cpu@" + Version + ":groups-"
	transposedGroupsPrefix = "cpu@" + Version + ":transposed-groups-"
)

// groupedWeights returns the format of the weights of a convolution in groups, transposed or not.
func groupedWeights(groups int, transposed bool) graph.Format {
	prefix := groupsPrefix
	if transposed {
		prefix = transposedGroupsPrefix
	}
	l, err := graph.ParseLayout(prefix + strconv.Itoa(groups))
	if err != nil {
		panic(err) // the name is well-formed for every number
	}
	return graph.On(l)
}

// weightPacker makes plans whose weights are in a layout.
type weightPacker struct {
	groups     int
	transposed bool
}

// packerOf returns what a layout's name says; ok is false for a layout that is not of grouped weights.
func packerOf(l graph.Layout) (w weightPacker, ok bool) {
	s := l.String()
	number, ok := strings.CutPrefix(s, groupsPrefix)
	if !ok {
		if number, ok = strings.CutPrefix(s, transposedGroupsPrefix); !ok {
			return w, false
		}
		w.transposed = true
	}
	n, err := strconv.Atoi(number)
	w.groups = n
	return w, err == nil && n > 0
}

// groupWeights are weights of known dims.
type groupWeights struct {
	*conv.Plan
	rows, slices, taps int // [rows, slices, taps] in the model; slices is 1 but for three axes
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
	g.taps = product(dims[2:])
	c, oc := dims[1]*w.groups, dims[0]
	if w.transposed {
		c, oc = dims[0], dims[1]*w.groups
	}
	g.Plan, err = conv.NewConv(t, conv.Spec{N: 1, C: c, OC: oc, Groups: w.groups, Transposed: w.transposed,
		Map: conv.Map{H: 1, W: g.taps, Kernel: [2]int{1, g.taps}}})
	return g, err
}

// bytes is the size of the packed weights.
func (g groupWeights) bytes() int { return 4 * g.slices * g.WeightFloats() }

// ConvertersOf implements convert.Source.
func (b cpu) ConvertersOf(l graph.Layout) []convert.Converter {
	if m := winogradOf(l); m > 0 {
		return b.winogradConverters(l, m)
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
		return convert.Converter{Name: name, From: from, To: to, Cost: convert.HostCost, Size: size,
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

// unpackGroups packs the numbers of the weights' places, and follows them back.
func unpackGroups(g groupWeights, dst, src []byte) error {
	if len(src) < g.bytes() {
		return place.ErrShort
	}
	weights, packed := place.Elements[uint32](dst), place.Elements[uint32](src)
	numbers, at := make([]float32, len(weights)), make([]float32, g.slices*g.WeightFloats())
	for i := range numbers {
		numbers[i] = math.Float32frombits(uint32(i) + 1)
	}
	if err := packGroups(g, conv.Float32s(at), conv.Float32s(numbers)); err != nil {
		return err
	}
	for k, i := range place.Elements[uint32](conv.Float32s(at)) {
		if i > 0 {
			weights[i-1] = packed[k]
		}
	}
	return nil
}
