package reference_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/backend/reference"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/onnx"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/zootest"
)

var hostileInts = []int64{-1, 0, 1, 2, 3, 7, -2, -3, 255, 1 << 20, 1 << 31, 1 << 40, 1 << 62, math.MaxInt64, math.MinInt64}

var hostileFloats = []float64{0, -1, 1, 0.5, -0.5, 1e30, -1e30, 1e-30, math.Inf(1), math.Inf(-1), math.NaN(), 1 << 31, 3}

// mutateShape returns t with another shape of few elements, zeros behind what t had.
func mutateShape(r *rand.Rand, t *tensor.Tensor) *tensor.Tensor {
	shape := slices.Clone(t.Shape)
	switch r.IntN(5) {
	case 0:
		if len(shape) > 0 {
			shape[r.IntN(len(shape))] = r.IntN(4)
		}
	case 1:
		if len(shape) > 0 {
			i := r.IntN(len(shape))
			shape = slices.Delete(shape, i, i+1)
		}
	case 2:
		shape = slices.Insert(shape, r.IntN(len(shape)+1), r.IntN(3))
	case 3:
		if len(shape) > 1 {
			i, j := r.IntN(len(shape)), r.IntN(len(shape))
			shape[i], shape[j] = shape[j], shape[i]
		}
	case 4:
		if len(shape) > 0 {
			shape[r.IntN(len(shape))]++
		}
	}
	n, err := tensor.New(t.DType, shape...)
	if err != nil {
		return t
	}
	copy(n.Data, t.Bytes())
	copy(n.Strings, t.Strings)
	return n
}

// mutateContent returns t with one element replaced.
func mutateContent(r *rand.Rand, t *tensor.Tensor) *tensor.Tensor {
	c, err := t.Clone()
	if err != nil || c.Len() == 0 {
		return t
	}
	i := r.IntN(c.Len())
	switch {
	case c.DType == tensor.String:
		c.Strings[i] = []string{"", "\xff\xfe", "a b  c", strings.Repeat("x", 100)}[r.IntN(4)]
	case c.DType.IsComplex():
	case c.DType.IsFloat():
		v := make([]float64, c.Len())
		_ = tensor.Decode(v, c)
		v[i] = hostileFloats[r.IntN(len(hostileFloats))]
		_ = tensor.Encode(c, v)
	default:
		v := make([]int64, c.Len())
		_ = tensor.DecodeInts(v, c)
		v[i] = hostileInts[r.IntN(len(hostileInts))]
		_ = tensor.EncodeInts(c, v)
	}
	return c
}

func mutateAttr(r *rand.Rand, n *graph.Node) graph.Attrs {
	var names []graph.AttrSpec
	if n.Schema != nil {
		names = n.Schema.Attrs
	}
	if len(names) == 0 || r.IntN(3) == 0 && len(n.Attrs) > 0 {
		if len(n.Attrs) == 0 {
			return n.Attrs
		}
		a := n.Attrs[r.IntN(len(n.Attrs))]
		if r.IntN(3) == 0 {
			return n.Attrs.Without(a.Name)
		}
		names = []graph.AttrSpec{{Name: a.Name, Kind: a.Kind}}
	}
	s := names[r.IntN(len(names))]
	a := graph.Attr{Name: s.Name, Kind: s.Kind}
	if old := n.Attrs.Lookup(s.Name); old != nil {
		a = *old
	}
	some := func() int64 { return hostileInts[r.IntN(len(hostileInts))] }
	switch a.Kind {
	case graph.AttrInt:
		a.Int = some()
	case graph.AttrFloat:
		a.Float = float32(hostileFloats[r.IntN(len(hostileFloats))])
	case graph.AttrString:
		a.Str = []string{"", "x", "SAME_UPPER", "reflect", "cubic", "(((", "i,j->", "...a->...", "->"}[r.IntN(9)]
	case graph.AttrInts:
		a.Ints = slices.Clone(a.Ints)
		if len(a.Ints) == 0 || r.IntN(3) == 0 {
			a.Ints = append(a.Ints, some())
		} else {
			a.Ints[r.IntN(len(a.Ints))] = some()
		}
	case graph.AttrFloats:
		a.Floats = append(slices.Clone(a.Floats), float32(hostileFloats[r.IntN(len(hostileFloats))]))
	case graph.AttrStrings:
		a.Strs = append(slices.Clone(a.Strs), "LEAF")
	case graph.AttrTensor:
		if a.Tensor == nil {
			a.Tensor = tensor.From([]float32{1, 2})
		} else {
			a.Tensor = mutateShape(r, a.Tensor)
		}
	default:
		return n.Attrs
	}
	return n.Attrs.With(a)
}

func mutateInput(r *rand.Rand, v tensor.Value) tensor.Value {
	t, ok := v.(*tensor.Tensor)
	if !ok {
		return nil
	}
	switch r.IntN(8) {
	case 0:
		return nil
	case 1:
		dt := tensor.DType(1 + r.IntN(26))
		if c, err := tensor.Convert(t, dt, nil); err == nil {
			return c
		}
		return t
	case 2:
		return &tensor.Sequence{DType: t.DType, Items: []tensor.Value{t}}
	case 3, 4:
		return mutateContent(r, t)
	}
	return mutateShape(r, t)
}

// provoke runs a single-node case with mutated attributes and operands.
func provoke(ctx context.Context, dir string, rounds int) error {
	m, err := onnx.Load(ctx, filepath.Join(dir, "model.onnx"), nil)
	if err != nil {
		return err
	}
	defer m.Close()
	if m.Graph.NumNodes() != 1 {
		return nil
	}
	var types []graph.Type
	for _, v := range m.Graph.Inputs {
		types = append(types, v.Type)
	}
	in, err := readValues(filepath.Join(dir, "test_data_set_0"), "input", types)
	if err != nil {
		return err
	}
	order, err := m.Graph.Topo()
	if err != nil {
		return err
	}
	n := order[0]
	if len(n.Regions) > 0 {
		return nil
	}
	h := fnv.New64()
	_, _ = h.Write([]byte(filepath.Base(dir)))
	r := rand.New(rand.NewPCG(h.Sum64(), 1))
	attrs := n.Attrs
	for round := range rounds {
		var args []tensor.Value
		for _, v := range n.Inputs {
			var arg tensor.Value
			if v != nil && v.IsConst() {
				arg = v.Const
			} else if v != nil {
				for k, g := range m.Graph.Inputs {
					if g == v && k < len(in) {
						arg = in[k]
					}
				}
			}
			args = append(args, arg)
		}
		n.Attrs = attrs
		for range 1 + r.IntN(3) {
			if len(args) == 0 || r.IntN(2) == 0 {
				n.Attrs = mutateAttr(r, n)
			} else {
				i := r.IntN(len(args))
				args[i] = mutateInput(r, args[i])
			}
		}
		limit, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
		c := reference.Call{Ctx: limit, Node: n, Inputs: args, MaxBytes: 1 << 22}
		before := zootest.ProcessorTime()
		_, err := c.Run()
		cancel()
		if errors.Is(err, reference.ErrKernel) {
			return fmt.Errorf("round %d: %v %v: %w", round, n.Attrs, args, err)
		}
		if d := zootest.ProcessorTime() - before; d > 20*time.Second {
			return fmt.Errorf("round %d took %v: %v %v: %w", round, d, n.Attrs, args, err)
		}
	}
	return nil
}

var _ = Describe("hostile nodes", func() {
	It("end with results or errors, soon", func(ctx SpecContext) {
		root := filepath.Join("..", "..", "..", "shared", "onnx-backend-tests", "node")
		entries, err := os.ReadDir(root)
		if err != nil {
			Skip("the ONNX backend tests are not here: " + root)
		}
		for _, e := range entries {
			Expect(provoke(ctx, filepath.Join(root, e.Name()), 30)).To(Succeed(), e.Name())
		}
	})
})
