package mkl_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

const (
	quantizedProduct = "quantized-product"
	quantizedAdd     = "quantized-sum"
)

// integers is the text of a tensor of reproducible integers in [lo, hi].
func integers(dtype string, lo, hi int, dims ...int) string {
	n, shape := 1, make([]string, len(dims))
	rng := rand.New(rand.NewPCG(uint64(lo*1000+hi), uint64(len(dims))))
	for i, d := range dims {
		n *= d
		shape[i] = fmt.Sprint(d)
	}
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprint(lo + rng.IntN(hi-lo+1))
	}
	return fmt.Sprintf("%s[%s]{%s}", dtype, strings.Join(shape, ","), strings.Join(list, ", "))
}

// scales is the text of n reproducible scales around s.
func scales(n int, s float64) string {
	rng := rand.New(rand.NewPCG(uint64(n), 5))
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprint(float32(s * (0.5 + rng.Float64())))
	}
	return fmt.Sprintf("f32[%d]{%s}", n, strings.Join(list, ", "))
}

// quantizedFeeds are random operands over the whole range of integers, and floats of unit deviation.
func quantizedFeeds(g *graph.Graph, seed uint64) map[string]tensor.Value {
	GinkgoHelper()
	rng := rand.New(rand.NewPCG(seed, 1))
	out := map[string]tensor.Value{}
	for _, v := range g.Inputs {
		dims, err := v.Type.Shape.Eval(graph.Bindings{"N": 3}, nil)
		Expect(err).NotTo(HaveOccurred())
		t, err := tensor.New(v.Type.DType, dims...)
		Expect(err).NotTo(HaveOccurred())
		data := make([]float64, t.Len())
		for i := range data {
			switch v.Type.DType {
			case tensor.Uint8:
				data[i] = float64(rng.IntN(256))
			case tensor.Int8:
				data[i] = float64(rng.IntN(256) - 128)
			default:
				data[i] = rng.NormFloat64()
			}
		}
		Expect(tensor.Encode(t, data)).To(Succeed())
		out[v.Name] = t
	}
	return out
}

// steps compares results with the reference's: integers by quantisation steps, floats by a step of the result's size.
func steps(got, want map[string]tensor.Value, step float64) {
	GinkgoHelper()
	Expect(got).To(HaveLen(len(want)))
	for name, w := range want {
		a, b := got[name].(*tensor.Tensor), w.(*tensor.Tensor)
		Expect(a.DType).To(Equal(b.DType))
		Expect(a.Shape).To(Equal(b.Shape))
		unit := 1.0
		if b.DType.IsFloat() {
			unit = step
		}
		off := 0
		for i := range b.Len() {
			d := (a.Float64At(i) - b.Float64At(i)) / unit
			Expect(d).To(BeNumerically("~", 0, 2), "%s[%d]: %v, was %v", name, i, a.Float64At(i), b.Float64At(i))
			if d > 1 || d < -1 {
				off++
			}
		}
		Expect(off).To(BeNumerically("<=", b.Len()/1000), "%s: values more than a step off, of %d", name, b.Len())
	}
}

// agreesInSteps runs a graph with backends and with the reference alone, which keeps every node of the model.
func agreesInSteps(ctx context.Context, g *graph.Graph, step float64, backends ...backend.Config) *carve.Program {
	GinkgoHelper()
	p := program(ctx, g, carve.Options{Verify: true, Backends: backends})
	ref := program(ctx, g, carve.Options{Backends: []backend.Config{{Name: "reference"}}})
	for seed := range uint64(3) {
		in := quantizedFeeds(g, seed)
		want, err := ref.Run(ctx, in)
		Expect(err).NotTo(HaveOccurred())
		got, err := p.Run(ctx, in)
		Expect(err).NotTo(HaveOccurred())
		steps(got, want, step)
	}
	return p
}

// mklWith is the configuration of mkl with a library.
func mklWith(library string) backend.Config {
	return backend.Config{Name: "mkl", Options: options(library)}
}

// quantizedConv is a graph of a convolution between quantisations. w and its scale replace those of the model where they
// are given.
func quantizedConv(x, xz, w, ws, conv, y, yz string) string {
	return `
  input %x: ` + x + `
  const %xs = f32[]{0.02}
  const %xz = ` + xz + `
  const %wq = ` + w + `
  const %ws = ` + ws + `
  const %ys = f32[]{0.5}
  const %yz = ` + yz + `
  %xd = DequantizeLinear(%x, %xs, %xz)
  %w = DequantizeLinear(%wq, %ws; axis=0)
  ` + conv + `
  %y = QuantizeLinear(` + y + `, %ys, %yz) "y"
  output %y`
}

// multiples is the text of a matrix of floats that are multiples of one number.
func multiples(rows, columns int) string {
	list := strings.Split(strings.TrimSuffix(strings.SplitN(integers("i8", -127, 127, rows, columns), "{", 2)[1], "}"), ", ")
	for i, s := range list {
		var k int
		_, _ = fmt.Sscan(s, &k)
		list[i] = fmt.Sprint(float32(k) * 0.004)
	}
	return fmt.Sprintf("f32[%d,%d]{%s}", rows, columns, strings.Join(list, ", "))
}

// quantizedSum is a graph of a sum of a and b between quantisations; body ends with s.
func quantizedSum(x, z, zz, body, yz string) string {
	return `
  input %x: ` + x + `
  input %z: ` + z + `
  const %xs = f32[]{0.02}
  const %xz = ` + strings.Split(x, "[")[0] + `[]{100}
  const %zs = f32[]{0.03}
  const %zz = ` + zz + `
  const %ys = f32[]{0.04}
  const %yz = ` + yz + `
  %a = DequantizeLinear(%x, %xs, %xz)
  %b = DequantizeLinear(%z, %zs, %zz)
  ` + body + `
  %y = QuantizeLinear(%s, %ys, %yz) "y"
  output %y`
}

// product is a graph of a matrix product between quantisations; rest follows %m and y is quantised.
func product(op, x, xz, w, ws string, rest, y string) string {
	return fmt.Sprintf(`
  input %%x: %s
  const %%xs = f32[]{0.02}
  const %%xz = %s
  const %%wq = %s
  const %%ws = %s
  const %%ys = f32[]{0.3}
  const %%yz = %s[]{21}
  %%xd = DequantizeLinear(%%x, %%xs, %%xz)
  %%w = DequantizeLinear(%%wq, %%ws; axis=1)
  %%m = %s(%%xd, %%w)
  %s
  %%y = QuantizeLinear(%s, %%ys, %%yz) "y"
  output %%y`, x, xz, w, ws, strings.Split(x, "[")[0], op, strings.TrimPrefix(rest, "\n  "), y)
}
