package carve_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/backendtest/fake"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/testshare"
	"github.com/carve-dev/carve/property"
)

// onDevices is options for a fake backend on some of its devices, with operators pinned to them.
func onDevices(b *fake.Backend, devices []int, pins map[string]string) *carve.Options {
	name := b.Info().Name
	o := &carve.Options{Verify: true, Backends: []backend.Config{{Name: name}}, Open: map[string]backend.Backend{name: b}}
	if devices != nil {
		o.Devices = map[string][]int{name: devices}
	}
	for op, to := range pins {
		o.Pins = append(o.Pins, property.Pin{Op: op, Backend: to})
	}
	return o
}

// whereChained returns the backend, and the device, of each operator of chained.
func whereChained(ctx context.Context, p *carve.Program) map[string]string {
	GinkgoHelper()
	r, err := p.Report(ctx, nil)
	Expect(err).NotTo(HaveOccurred())
	out := map[string]string{}
	for _, g := range r.Groups {
		for _, op := range g.Ops {
			if op != "Convert" {
				out[op] = g.Backend
				if g.Device != "" {
					out[op] += " on " + g.Device
				}
			}
		}
	}
	return out
}

const chained = `graph {
  opset 17
  input %x: f32[8,16]
  %a = Relu(%x) "first"
  %b = Sigmoid(%a) "second"
  %c = Exp(%b) "third"
  output %c
}`

var names atomic.Int32

// registered makes a fake backend known under a new name, to be opened by Programs.
func registered(o fake.Options) (name string, made func() []*fake.Backend) {
	name = fmt.Sprintf("fakereg%d", names.Add(1))
	o.Name = name
	var list []*fake.Backend
	backend.Register(name, func(backend.Config) (backend.Backend, error) {
		list = append(list, fake.New(o))
		return list[len(list)-1], nil
	})
	return name, func() []*fake.Backend { return list }
}

var _ = Describe("a backend on several devices", func() {
	input := map[string]tensor.Value{}
	BeforeEach(func() { input["x"] = wave(8, 16) })

	It("is an entry for each, named by pins and reports", func(ctx SpecContext) {
		b := fake.New(fake.Options{Devices: 3})
		m := carve.FromGraph(parseGraph(chained))
		p := mustCompile(ctx, m, onDevices(b, []int{0, 2}, map[string]string{"Relu": "fake:0", "Sigmoid": "fake:2"}))
		Expect(whereChained(ctx, p)).To(Equal(map[string]string{"Relu": "fake on device12:100", "Sigmoid": "fake:2 on device12:102", "Exp": "fake on device12:100"}))
		got, err := p.Run(ctx, input)
		Expect(err).NotTo(HaveOccurred())
		Expect(floats(got["c"])).To(Equal(floats(referenceOutputs(ctx, m, input)["c"])))
		Expect(b.Stats().CopiesAcross).To(Equal(2), "there and back, without the host")
		Expect(b.Stats()).To(And(HaveField("CopiesTo", 1), HaveField("CopiesFrom", 1)))
		Expect(p.Close()).To(Succeed())
		Expect(b.Faults()).To(BeEmpty())
		Expect(b.Leaks()).To(BeEmpty())
	})

	It("has values go through the host where its devices do not copy to each other", func(ctx SpecContext) {
		b := fake.New(fake.Options{Devices: 2, NoPeers: true})
		m := carve.FromGraph(parseGraph(chained))
		p := mustCompile(ctx, m, onDevices(b, []int{0, 1}, map[string]string{"Sigmoid": "fake:1"}))
		got, err := p.Run(ctx, input)
		Expect(err).NotTo(HaveOccurred())
		Expect(floats(got["c"])).To(Equal(floats(referenceOutputs(ctx, m, input)["c"])))
		Expect(b.Stats()).To(And(HaveField("CopiesAcross", 0), HaveField("CopiesTo", 3), HaveField("CopiesFrom", 3)))
		Expect(p.Close()).To(Succeed())
		Expect(b.Leaks()).To(BeEmpty())
	})

	DescribeTable("has nodes by list, pins and priority", func(ctx SpecContext, list []string, devices []int, pins []property.Pin, want string) {
		b := fake.New(fake.Options{Devices: 3})
		o := &carve.Options{Open: map[string]backend.Backend{"fake": b}, Pins: pins}
		for _, name := range list {
			o.Backends = append(o.Backends, backend.Config{Name: name})
		}
		if devices != nil {
			o.Devices = map[string][]int{"fake": devices}
		}
		p := mustCompile(ctx, carve.FromGraph(parseGraph(chained)), o)
		where := whereChained(ctx, p)
		Expect(fmt.Sprint(where["Relu"], ", ", where["Sigmoid"], ", ", where["Exp"])).To(Equal(want))
		Expect(p.Close()).To(Succeed())
		Expect(b.Leaks()).To(BeEmpty())
	},
		Entry("the first device by default", []string{"fake"}, nil, nil, "fake on device12:100, fake on device12:100, fake on device12:100"),
		Entry("an index of 0 says the same", []string{"fake:0"}, nil, nil, "fake on device12:100, fake on device12:100, fake on device12:100"),
		Entry("one by its name in the list", []string{"fake:2"}, nil, nil, "fake:2 on device12:102, fake:2 on device12:102, fake:2 on device12:102"),
		Entry("the first of the list of devices", []string{"fake"}, []int{2, 0}, nil, "fake:2 on device12:102, fake:2 on device12:102, fake:2 on device12:102"),
		Entry("a pin to the backend is to any of its devices", []string{"fake"}, []int{2, 0}, []property.Pin{{Op: "Relu", Backend: "fake"}}, "fake:2 on device12:102, fake:2 on device12:102, fake:2 on device12:102"),
		Entry("a pin to one", []string{"fake"}, []int{2, 0}, []property.Pin{{Op: "Relu", Backend: "fake:0"}}, "fake on device12:100, fake:2 on device12:102, fake:2 on device12:102"),
		Entry("kept away from one", []string{"fake", "fake:1"}, nil, []property.Pin{{Op: "Exp", Backend: "fake:0", Exclude: true}}, "fake on device12:100, fake on device12:100, fake:1 on device12:101"),
		Entry("kept away from all", []string{"fake", "fake:1"}, nil, []property.Pin{{Op: "Exp", Backend: "fake", Exclude: true}}, "fake on device12:100, fake on device12:100, cpu"),
	)

	DescribeTable("is refused where it cannot be", func(ctx SpecContext, change func(*carve.Options), want error) {
		b := fake.New(fake.Options{Devices: 2})
		o := onDevices(b, nil, nil)
		change(o)
		_, err := carve.Compile(ctx, carve.FromGraph(parseGraph(chained)), o)
		Expect(err).To(HaveOccurred())
		if want != nil {
			Expect(errors.Is(err, want)).To(BeTrue(), "%v", err)
		}
		Expect(b.Leaks()).To(BeEmpty())
	},
		Entry("no such device", func(o *carve.Options) { o.Devices = map[string][]int{"fake": {0, 2}} }, backend.ErrNoDevice),
		Entry("no such device, by name", func(o *carve.Options) { o.Backends[0].Name = "fake:7" }, backend.ErrNoDevice),
		Entry("a negative index", func(o *carve.Options) { o.Devices = map[string][]int{"fake": {-1}} }, backend.ErrNoDevice),
		Entry("a pin to a device that is not among the backends", func(o *carve.Options) { o.Pins = []property.Pin{{Op: "Relu", Backend: "fake:1"}} }, backend.ErrNoDevice),
		Entry("a backend of one memory", func(o *carve.Options) { o.Devices = map[string][]int{"cpu": {0, 1}} }, backend.ErrPlaceable),
		Entry("a backend that is not listed", func(o *carve.Options) { o.Devices = map[string][]int{"other": {0, 1}} }, backend.ErrUnknown),
		Entry("twice the same", func(o *carve.Options) { o.Devices = map[string][]int{"fake": {1, 1}} }, nil),
		Entry("twice the same, by name", func(o *carve.Options) { o.Backends = append(o.Backends, backend.Config{Name: "fake:0"}) }, nil),
		Entry("no index", func(o *carve.Options) { o.Backends[0].Name = "fake:01" }, backend.ErrUnknown),
		Entry("other options for the same backend", func(o *carve.Options) {
			o.Backends = append(o.Backends, backend.Config{Name: "fake:1", Options: map[string]string{"a": "b"}})
		}, backend.ErrOption),
	)

	It("is opened and closed once by the Program, and constants there end with it", func(ctx SpecContext) {
		name, made := registered(fake.Options{Devices: 2})
		m := digits(ctx)
		o := &carve.Options{Backends: []backend.Config{{Name: name + ":1"}, {Name: name}}, Pins: []property.Pin{{Op: "Conv", Backend: name + ":0"}}}
		p := mustCompile(ctx, m, o)
		Expect(made()).To(HaveLen(1))
		got, err := p.Run(ctx, digitsInput(2))
		Expect(err).NotTo(HaveOccurred())
		Expect(floats(got["probabilities"])).To(Equal(floats(referenceOutputs(ctx, m, digitsInput(2))["probabilities"])))
		r, err := p.Report(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		used := map[string]bool{}
		for _, g := range r.Groups {
			used[g.Backend] = true
		}
		Expect(used).To(Equal(map[string]bool{name: true, name + ":1": true}))
		Expect(p.Close()).To(Succeed())
		Expect(made()[0].Leaks()).To(BeEmpty())
		Expect(made()[0].Faults()).To(BeEmpty())
		Expect(m.Close()).To(Succeed())
	})

	It("has the properties of the backend on all its devices, and those of one there", func(ctx SpecContext) {
		b := fake.New(fake.Options{Devices: 2})
		groups := func(o *carve.Options) int {
			p := mustCompile(ctx, carve.FromGraph(parseGraph(chained)), o)
			defer p.Close()
			r, err := p.Report(ctx, nil)
			Expect(err).NotTo(HaveOccurred())
			return len(r.Groups)
		}
		o := onDevices(b, []int{1, 0}, nil)
		Expect(groups(o)).To(Equal(1))
		o.Properties = map[string][]property.SubgraphProperty{"fake": {alone{}}}
		Expect(groups(o)).To(Equal(3))
		o.Properties = map[string][]property.SubgraphProperty{"fake:1": {alone{}}}
		Expect(groups(o)).To(Equal(3))
		o.Properties = map[string][]property.SubgraphProperty{"fake:0": {alone{}}}
		Expect(groups(o)).To(Equal(1))
		o.Devices["fake"] = []int{1}
		o.Properties = map[string][]property.SubgraphProperty{"fake": {alone{}}}
		Expect(groups(o)).To(Equal(3))
		o.DisabledProperties = map[string][]string{"fake": {"alone"}}
		Expect(groups(o)).To(Equal(1))
	})

	It("computes what the reference does, for random networks and pins", func(ctx SpecContext) {
		ops := []string{"Conv", "Relu", "Sigmoid", "Add", "Mul", "Concat", "Split", "MaxPool", "Gemm", "Transpose", "GlobalAveragePool", "Exp", "Sub", "Flatten"}
		across, networks := 0, testshare.Of(60)
		for seed := range uint64(networks) {
			r := rand.New(rand.NewPCG(seed, 23))
			m := carve.FromGraph(newNetwork(seed, 4+int(seed%24)))
			b := fake.New(fake.Options{Devices: 2, Seed: seed, Delay: 30 * time.Microsecond, NoPeers: seed%4 == 0})
			pins := map[string]string{}
			for _, op := range ops {
				if to := []string{"fake:0", "fake:1", "cpu", ""}[r.IntN(4)]; to != "" {
					pins[op] = to
				}
			}
			o := onDevices(b, []int{int(seed % 2), 1 - int(seed%2)}, pins)
			o.Streams = 1 + int(seed%3)
			p := mustCompile(ctx, m, o)
			plain := mustCompile(ctx, m, &carve.Options{Backends: onReference})
			dims, err := plain.Inputs()[0].Type.Shape.Eval(graph.Bindings{"N": 2}, nil)
			Expect(err).NotTo(HaveOccurred())
			in := map[string]tensor.Value{"x": wave(dims...)}
			want, err := plain.Run(ctx, in)
			Expect(err).NotTo(HaveOccurred())
			for range 3 {
				got, err := p.Run(ctx, in)
				Expect(err).NotTo(HaveOccurred(), "seed %d", seed)
				Expect(apart(got, want)).To(BeEmpty(), "seed %d", seed)
			}
			across += b.Stats().CopiesAcross
			Expect(p.Close()).To(Succeed())
			Expect(plain.Close()).To(Succeed())
			Expect(m.Close()).To(Succeed())
			Expect(b.Faults()).To(BeEmpty(), "seed %d", seed)
			Expect(b.Leaks()).To(BeEmpty(), "seed %d", seed)
		}
		Expect(across).To(BeNumerically(">", networks))
	})
})
