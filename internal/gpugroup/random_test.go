package gpugroup_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/backendtest"
	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/gpugroup"
	"github.com/carve-dev/carve/internal/gpukernel"
	"github.com/carve-dev/carve/internal/gpukernel/fibre"
	"github.com/carve-dev/carve/internal/gpukernel/nvrtc"
)

var (
	operator = flag.String("operator", "", "operators to try instead, with commas between; all for every one that there are cases of")
	seeds    = flag.Int("seeds", 4, "random cases of each")
	library  = flag.String("nvrtc", "", "path of libnvrtc; empty: the loader searches")
	from     = flag.Uint64("from", 0, "the first seed")
)

// run is a node of a random case as launches.
type run struct {
	c      *backendtest.Case
	node   *graph.Node // in a graph of its own
	values map[*graph.Value]*tensor.Tensor
	group  *gpugroup.Group
}

// plan plans the nodes of a case that the device supports, each alone.
func plan(d *gpugroup.Device, c *backendtest.Case, wanted string) (list []*run) {
	GinkgoHelper()
	order, err := c.Graph.Topo()
	Expect(err).NotTo(HaveOccurred())
	for v, t := range c.Values { // fibres take long over large ones
		if t.Len() > 3000 || v.IsConst() && v.Const.Len() > 3000 {
			return nil
		}
	}
	for _, n := range order {
		if n.Op.Name != wanted || n.Op.Domain != "" {
			continue
		}
		r := &run{c: c, values: map[*graph.Value]*tensor.Tensor{}}
		g := graph.New("one")
		g.Opsets = c.Graph.Opsets
		spec := graph.NodeSpec{Op: n.Op, Name: "n", Attrs: n.Attrs}
		whole := true
		for i, v := range n.Inputs {
			var x *graph.Value
			switch {
			case v == nil:
			case v.IsConst():
				x = g.AddConst("", v.Const)
			case c.Values[v] == nil:
				whole = false
			default:
				x = g.AddInput(fmt.Sprintf("x%d", i), graph.TypeOf(c.Values[v]))
				x.Dims = v.Dims
				r.values[x] = c.Values[v]
			}
			spec.Inputs = append(spec.Inputs, x)
		}
		for i, v := range n.Outputs {
			name := ""
			if v != nil {
				name = fmt.Sprintf("y%d", i)
			}
			spec.Outputs = append(spec.Outputs, name)
		}
		if !whole {
			continue
		}
		r.node = g.AddNode(spec)
		var outputs []*graph.Value
		for i, v := range n.Outputs {
			if v != nil && c.Values[v] != nil {
				r.node.Outputs[i].Type = graph.TypeOf(c.Values[v])
				r.values[r.node.Outputs[i]] = c.Values[v]
				outputs = append(outputs, r.node.Outputs[i])
			} else if v != nil {
				whole = false
			}
		}
		if !whole {
			continue
		}
		g.SetOutputs(outputs...)
		s := d.Supports(r.node)
		if len(s.Signatures) == 0 || !formats(r.node, s.Signatures[0], d.ID) {
			continue
		}
		r.group, err = d.Plan(context.Background(), g, nil)
		Expect(err).NotTo(HaveOccurred(), "%v", c)
		list = append(list, r)
	}
	return list
}

// formats gives the values of a node the formats of a signature, row-major where it leaves a choice. It reports whether these tell how
// elements lie.
func formats(n *graph.Node, s graph.Signature, on tensor.DeviceID) bool {
	set := func(v *graph.Value, p graph.Port) bool {
		if v == nil {
			return true
		}
		if v.Format = p.Format; p.Var > 0 {
			v.Format = graph.Format{Device: on, Layout: graph.RowMajor}
		}
		return !v.Format.Layout.IsOpaque()
	}
	all := true
	for i, v := range n.Inputs {
		all = all && set(v, s.Inputs[i])
	}
	for i, v := range n.Outputs {
		all = all && set(v, s.Outputs[i])
	}
	return all
}

// alone gives the kernels of a group names that no other has.
func (r *run) alone(prefix string) (plans []*gpukernel.Plan) {
	for i, p := range r.group.Plans {
		for k := range p.Launches {
			kernel := p.Launches[k].Kernel
			if strings.HasPrefix(kernel.Name, prefix) {
				continue
			}
			name := fmt.Sprintf("%s_%d_%d_%s", prefix, i, k, kernel.Name)
			kernel.Support = strings.ReplaceAll(kernel.Support, kernel.Name+"_table", name+"_table")
			kernel.Body = strings.ReplaceAll(kernel.Body, kernel.Name+"_table", name+"_table")
			kernel.Name = name
		}
		plans = append(plans, p)
	}
	return plans
}

// check runs the launches on memory of the host, and compares results with the reference's.
func (r *run) check(p *fibre.Program, on tensor.DeviceID) {
	GinkgoHelper()
	var memory [][]byte
	place := func(b []byte, t *tensor.Tensor) *tensor.Tensor {
		memory = append(memory, b)
		x := &tensor.Tensor{Device: on, Handle: uintptr(len(memory))}
		if t != nil {
			x.DType, x.Shape = t.DType, t.Shape
		}
		return x
	}
	g := r.node.Graph()
	a := &backend.RunArgs{}
	for _, v := range g.Inputs {
		a.Inputs = append(a.Inputs, place(slices.Clone(reordered(r.values[v], graph.RowMajor, v.Format.Layout).Bytes()), r.values[v]))
	}
	for v := range g.Constants() {
		a.Constants = append(a.Constants, place(slices.Clone(reordered(v.Const, graph.RowMajor, v.Format.Layout).Bytes()), v.Const))
	}
	got := map[string]tensor.Value{}
	for i, v := range g.Outputs {
		t, err := tensor.New(v.Type.DType, r.values[v].Shape...)
		Expect(err).NotTo(HaveOccurred())
		for k := range t.Bytes() {
			t.Bytes()[k] = 0xff
		}
		a.Outputs = append(a.Outputs, place(t.Bytes(), t))
		got[g.Outputs[i].Name] = t
	}
	for _, b := range r.group.Requirements.Buffers {
		poison := make([]byte, b.Bytes)
		for k := range poison {
			poison[k] = 0xff
		}
		a.Buffers = append(a.Buffers, place(poison, nil))
	}
	launch(r.group, p, on, a, memory)
	for _, v := range g.Outputs {
		got[v.Name] = reordered(got[v.Name].(*tensor.Tensor), v.Format.Layout, graph.RowMajor)
	}
	one := &backendtest.Case{Name: r.c.Name, Seed: r.c.Seed, Graph: g, Values: r.values}
	Expect(one.Compare(got)).To(BeEmpty(), "%v", one)
	for _, v := range g.Outputs {
		want, is := r.values[v], got[v.Name].(*tensor.Tensor)
		for i := range want.Len() {
			if x, y := is.Float64At(i), want.Float64At(i); want.DType == tensor.Float64 && !(math.Abs(x-y) <= 1e-12*max(1, math.Abs(y)) || x == y || x != x && y != y) {
				Fail(fmt.Sprintf("%v: element %d is %.17g and not %.17g", one, i, x, y))
			}
		}
	}
}

// reordered returns a tensor in another order of its elements.
func reordered(t *tensor.Tensor, from, to graph.Layout) *tensor.Tensor {
	GinkgoHelper()
	if from == to {
		return t
	}
	y, err := tensor.New(t.DType, t.Shape...)
	Expect(err).NotTo(HaveOccurred())
	move, err := convert.PlanHost(from, to, t.DType, t.Shape)
	Expect(err).NotTo(HaveOccurred())
	Expect(move(context.Background(), y, t, convert.Exec{})).To(Succeed())
	return y
}

// launch runs the launches of a group on memory of the host, of which handles are the numbers.
func launch(g *gpugroup.Group, p *fibre.Program, on tensor.DeviceID, a *backend.RunArgs, memory [][]byte) {
	GinkgoHelper()
	bases := g.NewBases()
	Expect(g.Bind(on, a, bases)).To(Succeed())
	for _, s := range g.Steps {
		buffers := map[string][]byte{}
		for i, arg := range s.Launch.Args {
			if s.Args[i].Slot < 0 {
				continue
			}
			b := bases[s.Args[i].Slot]
			Expect(b.Handle).NotTo(BeZero(), "%v", s.Launch.Kernel.Name)
			at := memory[b.Handle-1][b.Offset+s.Args[i].Off:]
			buffers[arg.Buffer] = at[:min(len(at), max(s.Args[i].Size, 0))]
		}
		Expect(p.Run(&gpukernel.Plan{Launches: []gpukernel.Launch{*s.Launch}}, buffers)).To(Succeed(), "%v", s.Launch.Kernel.Name)
	}
}

// planned plans random cases of operators; each has to have some, unless all are tried.
func planned(d *gpugroup.Device, names []string, all bool) (list []*run, plans []*gpukernel.Plan, count map[string]int) {
	GinkgoHelper()
	count = map[string]int{}
	for _, op := range names {
		for seed := *from; seed < *from+uint64(*seeds); seed++ {
			c, err := random(op, seed)
			if err != nil {
				GinkgoWriter.Println(op, seed, err)
				continue
			}
			for _, r := range plan(d, c, strings.Fields(op)[0]) {
				plans = append(plans, r.alone(fmt.Sprintf("c%d", len(list)))...)
				list = append(list, r)
				count[op]++
			}
		}
		if !all {
			Expect(count[op]).To(BeNumerically(">", 0), "no case of %s is on the device", op)
		}
	}
	return list, plans, count
}

var _ = Describe("Nodes on a device", func() {
	d := &gpugroup.Device{ID: tensor.DeviceID{Type: 77}, Kernels: gpukernel.Generic(8, 32<<10)}
	d.Kernels.Double = true

	It("compute what the reference computes, on random operands, shapes, attributes and types", func(ctx SpecContext) {
		names := operators
		if *operator != "" {
			names = strings.Split(*operator, ",")
		}
		all := *operator == "all"
		if all {
			names = backendtest.RandomOperators()
		}
		list, plans, count := planned(d, names, all)
		p, err := fibre.Start(ctx, GinkgoT().TempDir(), fibre.Address, fibre.Kernels(plans...)...)
		if errors.Is(err, fibre.ErrNoCompiler) {
			Skip(err.Error())
		}
		Expect(err).NotTo(HaveOccurred())
		for _, r := range list {
			r.check(p, d.ID)
		}
		Expect(p.Close()).To(Succeed())
		AddReportEntry("cases on the device", fmt.Sprint(count))
		GinkgoWriter.Println(count)
	})
})

var _ = It("The kernels of nodes are compiled by NVRTC, without spills", Label("nvrtc"), func() {
	lib, err := nvrtc.Open(*library)
	if err != nil {
		Skip(err.Error())
	}
	for _, capability := range []int{75, 90} {
		for _, op := range operators {
			d := &gpugroup.Device{ID: tensor.DeviceID{Type: 77}, Kernels: gpukernel.NVIDIA(capability, 132)}
			_, plans, _ := planned(d, []string{op}, true)
			_, log, err := lib.Compile(gpukernel.Source(gpukernel.CUDA, fibre.Kernels(plans...)...), fmt.Sprintf("sm_%d", capability))
			Expect(err).NotTo(HaveOccurred(), op)
			all := nvrtc.ParseResources(log)
			Expect(all).NotTo(BeEmpty(), log)
			for _, r := range all {
				Expect(r.SpillLoads+r.SpillStores).To(BeZero(), "%s of %s", r.Kernel, op)
			}
		}
	}
})

// random returns a random case of an operator.
func random(op string, seed uint64) (*backendtest.Case, error) {
	if make := makers[op]; make != nil {
		m := newMaker(op, seed)
		make(m)
		return m.c, m.err
	}
	return backendtest.RandomOperator(op, seed)
}

// operators are those that have more than one kernel, or kernels of their own here.
var operators = []string{"Attention", "BitCast", "CausalConvWithState", "ConvTranspose", "DynamicQuantizeLinear", "GRU", "GridSample", "LSTM", "MatMulInteger", "QLinearMatMul",
	"RNN", "GRU with batches first", "LSTM with batches first", "RNN with batches first", "RotaryEmbedding", "Scatter", "ScatterElements", "ScatterND", "SwiGLU", "TensorScatter", "Trilu"}
