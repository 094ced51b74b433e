package gradient_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

const head = "graph {\n  opset %d\n  opset \"ai.onnx.preview.training\" 1\n"

// part is what is differentiated, as text: types of inputs by name, float64 ones drawn from [low, high), and nodes that make %y of them.
type part struct {
	opset     int
	inputs    []string // "x: f64[2,3]"; others are constants: "i: i64[2]{0,1}"
	nodes     string
	low, high float64
	order     int // derivatives of up to this order
}

// differences compares the derivatives of a part, with its shapes and with others in their place, with differences of its values.
func differences(p part) func(SpecContext) {
	return func(ctx SpecContext) {
		p.check(ctx, func(typ string) string { return typ })
		number := regexp.MustCompile(`\d+`)
		seen := 0
		open := func(typ string) string { // each dim is a symbol of its own
			at := strings.Index(typ, "[")
			return typ[:at] + number.ReplaceAllStringFunc(typ[at:], func(string) string { seen++; return "d" + strconv.Itoa(seen) })
		}
		p.check(ctx, open)
	}
}

// closed is differences for parts whose shapes have to be known.
func closed(p part) func(SpecContext) {
	return func(ctx SpecContext) { p.check(ctx, func(typ string) string { return typ }) }
}

func (p *part) check(ctx context.Context, types func(string) string) {
	GinkgoHelper()
	var text strings.Builder
	fmt.Fprintf(&text, head, p.opset)
	feeds, names := map[string]tensor.Value{}, []string{}
	r := rand.New(rand.NewPCG(uint64(p.opset), uint64(len(p.nodes))))
	for _, in := range p.inputs {
		name, typ, _ := strings.Cut(in, ": ")
		if strings.Contains(typ, "{") {
			fmt.Fprintf(&text, "  const %%%s = %s\n", name, typ)
			continue
		}
		t := drawn(r, typ, p.low, p.high)
		feeds[name], names = t, append(names, name)
		fmt.Fprintf(&text, "  input %%%s: %s\n", name, types(typ))
	}
	// Elements of y count differently, so that none is taken for another.
	fmt.Fprintf(&text, "  %s\n  const %%factor = f64[]{1.3}\n  %%inside = Mul(%%y, %%factor)\n  %%order0 = Sin(%%inside)\n", p.nodes)
	outputs := "  output %order0\n"
	list := func(format string) string {
		out := make([]string, len(names))
		for i, name := range names {
			out[i] = fmt.Sprintf(format, name)
		}
		return strings.Join(out, ", ")
	}
	for k := 1; k <= p.order; k++ {
		fmt.Fprintf(&text, "  %s = ai.onnx.preview.training::Gradient(%s; xs=[%s], y=\"order%d\") \"grad%d\"\n", list(fmt.Sprintf("%%%%d%d_%%s", k)),
			list("%%%s"), list("%q"), k-1, k)
		for _, name := range names {
			fmt.Fprintf(&text, "  %%t%d_%s = Sin(%%d%d_%s)\n  %%s%d_%s = ReduceSum(%%t%d_%s; keepdims=0)\n", k, name, k, name, k, name, k, name)
			outputs += fmt.Sprintf("  output %%d%d_%s\n", k, name)
		}
		fmt.Fprintf(&text, "  %%order%d = Sum(%s)\n", k, list(fmt.Sprintf("%%%%s%d_%%s", k)))
		outputs += fmt.Sprintf("  output %%order%d\n", k)
	}
	source := text.String() + outputs + "}"
	g, err := graph.Parse(source)
	Expect(err).NotTo(HaveOccurred(), "%s", source)
	prog, err := carve.Compile(ctx, carve.FromGraph(g), &carve.Options{Backends: []backend.Config{{Name: "reference"}}, Verify: true})
	Expect(err).NotTo(HaveOccurred(), "%s", source)
	defer prog.Close()
	value := func(k int) float64 {
		got, err := prog.Run(ctx, feeds)
		Expect(err).NotTo(HaveOccurred(), "%s", source)
		sum := 0.
		for _, v := range tensor.Elements[float64](got[fmt.Sprintf("order%d", k)].(*tensor.Tensor)) {
			sum += v
		}
		return sum
	}
	got, err := prog.Run(ctx, feeds)
	Expect(err).NotTo(HaveOccurred(), "%s", source)
	const h = 1e-5
	for k := 1; k <= p.order; k++ {
		for _, name := range names {
			x, d := feeds[name].(*tensor.Tensor), got[fmt.Sprintf("d%d_%s", k, name)].(*tensor.Tensor)
			Expect(d.Shape).To(Equal(x.Shape), name)
			v, by := tensor.Elements[float64](x), append([]float64{}, tensor.Elements[float64](d)...)
			for i, at := range v {
				v[i] = at + h
				up := value(k - 1)
				v[i] = at - h
				down := value(k - 1)
				v[i] = at
				want := (up - down) / (2 * h)
				Expect(math.Abs(by[i]-want)).To(BeNumerically("<=", 1e-6*(1+math.Abs(want))*float64(k*k*k)),
					"order %d by %s[%d]: %v, differences %v\n%s", k, name, i, by[i], want, source)
			}
		}
	}
}

// drawn returns a tensor of a type of the text form with numbers of [low, high).
func drawn(r *rand.Rand, typ string, low, high float64) *tensor.Tensor {
	t, err := graph.ParseType(typ)
	Expect(err).NotTo(HaveOccurred())
	shape, ok := t.Shape.Static()
	Expect(ok).To(BeTrue())
	out, err := tensor.New(t.DType, shape...)
	Expect(err).NotTo(HaveOccurred())
	v := tensor.Elements[float64](out)
	for i := range v {
		v[i] = low + (high-low)*r.Float64()
	}
	return out
}
