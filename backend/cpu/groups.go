package cpu

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/kernel/conv"
	"github.com/carve-dev/carve/internal/place"
)

// Weights of groups that do not fall on blocks of channels are packed with zeros between the groups. No permutation and
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

// plan returns a convolution with weights of these dims: OIHW, IOHW of a transposed one, or with one axis instead of two.
func (w weightPacker) plan(dims []int) (*conv.Plan, error) {
	if len(dims) < 3 || len(dims) > 4 {
		return nil, fmt.Errorf("%w: weights of %v", tensor.ErrShape, dims)
	}
	taps, err := tensor.NumElements(dims[2:])
	if err != nil {
		return nil, err
	}
	c, oc := dims[1]*w.groups, dims[0]
	if w.transposed {
		c, oc = dims[0], dims[1]*w.groups
	}
	return conv.NewConv(conv.Spec{N: 1, C: c, OC: oc, Groups: w.groups, Transposed: w.transposed,
		Map: conv.Map{H: 1, W: taps, Kernel: [2]int{1, taps}}})
}

// ConvertersOf implements convert.Source.
func (cpu) ConvertersOf(l graph.Layout) []convert.Converter {
	w, ok := packerOf(l)
	if !ok {
		return nil
	}
	size := func(_ graph.Format, _ tensor.DType, dims []int) (int64, error) {
		p, err := w.plan(dims)
		if err != nil {
			return 0, err
		}
		return 4 * int64(p.WeightFloats()), nil
	}
	one := func(name string, from, to graph.Format, move func(p *conv.Plan, dst, src []byte) error) convert.Converter {
		return convert.Converter{Name: name, From: from, To: to, Cost: convert.HostCost, Size: size,
			Supports: func(dt tensor.DType, rank int) bool { return dt == tensor.Float32 && (rank == 3 || rank == 4) },
			Plan: func(dt tensor.DType, dims []int) (convert.Move, error) {
				p, err := w.plan(dims)
				if err != nil {
					return nil, err
				}
				return func(_ context.Context, dst, src *tensor.Tensor, _ device.Stream) error {
					return move(p, dst.Data[dst.Offset:], src.Data[src.Offset:])
				}, nil
			}}
	}
	return []convert.Converter{one("cpu-pack-groups", graph.HostFormat, graph.On(l), packGroups),
		one("cpu-unpack-groups", graph.On(l), graph.HostFormat, unpackGroups)}
}

func packGroups(p *conv.Plan, dst, src []byte) error {
	if len(dst) < 4*p.WeightFloats() {
		return place.ErrShort
	}
	return p.PackWeights(place.Elements[float32](dst[:4*p.WeightFloats()]), src, 0, p.PackChunks())
}

// unpackGroups packs the numbers of the weights' places, and follows them back.
func unpackGroups(p *conv.Plan, dst, src []byte) error {
	if len(src) < 4*p.WeightFloats() {
		return place.ErrShort
	}
	weights, packed := place.Elements[uint32](dst), place.Elements[uint32](src)
	numbers, at := make([]float32, len(weights)), make([]float32, p.WeightFloats())
	for i := range numbers {
		numbers[i] = math.Float32frombits(uint32(i) + 1)
	}
	if err := p.PackWeights(at, conv.Float32s(numbers), 0, p.PackChunks()); err != nil {
		return err
	}
	for k, i := range place.Elements[uint32](conv.Float32s(at)) {
		if i > 0 {
			weights[i-1] = packed[k]
		}
	}
	return nil
}
