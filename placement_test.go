package carve_test

import (
	"fmt"
	"log/slog"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/reference"
	"github.com/carve-dev/carve/partition"
)

var _ = Describe("Placement by cost", func() {
	const text = "graph {\n  opset 17\n  input %x: f32[8,8]\n  %a = Relu(%x) \"a\"\n  %b = RandomNormalLike(%a) \"b\"\n  output %b\n}"

	It("is in the report, with a bound", func(ctx SpecContext) {
		p := compile(ctx, textModel(text), &carve.Options{Placement: carve.Modelled, Verify: true})
		defer p.Close()
		r, err := p.Report(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Placement.Nanoseconds).To(BeNumerically(">", 0))
		Expect(r.Placement.Bound).To(Equal(r.Placement.Nanoseconds), "two nodes are chosen exactly")
		Expect(r.Placement.Corrected).To(BeNumerically(">", r.Placement.Nanoseconds/2), "launches counted otherwise")
		where, reasons, found := r.Why("b")
		Expect(found).To(BeTrue())
		Expect(where).To(Equal("reference"), "cpu has no kernel")
		Expect(reasons).To(ConsistOf(HaveField("Backend", "cpu")))
	})

	It("is warned of pins that match no node, once, and of no others", func(ctx SpecContext) {
		var log journal
		o := &carve.Options{Logger: slog.New(&log), Pins: []partition.Pin{{Node: "a", Backend: "reference"}, {Node: "c?", Backend: "reference"}, {Op: "Gelu", Backend: "cpu"},
			{Node: "**", Op: "Relu", Backend: "cpu", Exclude: true}}}
		compile(ctx, textModel(text), o).Close()
		Expect(log.lines).To(HaveExactElements(
			And(HavePrefix("a pin has no effect"), HaveSuffix("node=c? op= backend=reference")), HaveSuffix("node= op=Gelu backend=cpu")))
	})

	It("tells of a node of a fused set what it would cost elsewhere by itself: as much as where it is pinned there", func(ctx SpecContext) {
		text := "graph {\n  opset 17\n  input %x: f32[1,16,24,24]\n  " + constant("w", 16, 16, 3, 3) + `
  %a = Conv(%x, %w; pads=[1,1,1,1]) "conv"
  %b = Relu(%a) "relu"
  output %b
}`
		report := func(pins ...partition.Pin) *carve.Report {
			GinkgoHelper()
			p := compile(ctx, textModel(text), &carve.Options{Placement: carve.Modelled, Threads: 1, Pins: pins})
			defer p.Close()
			r, err := p.Report(ctx, nil)
			Expect(err).NotTo(HaveOccurred())
			return r
		}
		free := report()
		where, reasons, found := free.Why("conv")
		Expect(found).To(BeTrue())
		Expect(where).To(Equal("cpu"))
		Expect(free.Groups).To(HaveExactElements(HaveField("Ops", Equal([]string{"conv-tail"}))), "one node for both")
		var more float64
		var unit string
		for _, why := range reasons {
			if why.Backend == "reference" {
				_, err := fmt.Sscanf(strings.TrimPrefix(why.Reason, "cost: "), "%g %s more than on cpu", &more, &unit)
				Expect(err).NotTo(HaveOccurred(), "%v", why)
			}
		}
		more *= map[string]float64{"ns": 1, "µs": 1e3, "ms": 1e6}[unit]
		pinned := report(partition.Pin{Node: "conv", Backend: "reference"})
		Expect(pinned.Placement.Nanoseconds - free.Placement.Nanoseconds).To(BeNumerically("~", more, 0.02*more))
	})

	It("is not in the report where the order of the list decides", func(ctx SpecContext) {
		p := compile(ctx, textModel(text), nil)
		defer p.Close()
		r, err := p.Report(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Placement).To(BeNil())
	})

	It("is the default where several backends say what they achieve", func(ctx SpecContext) {
		report := func(o *carve.Options) *carve.Report {
			GinkgoHelper()
			o.Verify = true
			p := compile(ctx, textModel(text), o)
			defer p.Close()
			r, err := p.Report(ctx, nil)
			Expect(err).NotTo(HaveOccurred())
			return r
		}
		slow, quick := achieving("slow", 1e6), achieving("quick", 1e3)
		list := func(names ...string) (list []backend.Config) {
			for _, n := range names {
				list = append(list, backend.Config{Name: n})
			}
			return list
		}
		open := map[string]backend.Backend{"slow": slow, "quick": quick, "silent": &reference.Backend{Name: "silent"}}
		for _, names := range [][]string{{"slow", "quick"}, {"quick", "slow"}} {
			r := report(&carve.Options{Backends: list(names...), Open: open, Strict: true})
			Expect(r.Placement).NotTo(BeNil())
			Expect(r.Placement.Nanoseconds).To(BeNumerically("~", 2e3, 1), "in either order")
			Expect(r.Groups).To(HaveExactElements(HaveField("Backend", "quick")))
		}
		r := report(&carve.Options{Backends: list("slow", "quick"), Open: open, Strict: true, Placement: carve.Priority})
		Expect(r.Placement).To(BeNil())
		Expect(r.Groups).To(HaveExactElements(HaveField("Backend", "slow")))
		Expect(report(&carve.Options{Backends: list("slow"), Open: open}).Placement).NotTo(BeNil(), "cpu follows implicitly")
		Expect(report(&carve.Options{Backends: list("slow", "reference"), Open: open, Strict: true}).Placement).To(BeNil(), "one and the last resort")
		Expect(report(&carve.Options{Backends: list("silent", "quick"), Open: open, Strict: true}).Placement).To(BeNil(), "one does not say")
	})

	It("is compared with plans that prefer one backend, which the report lists", func(ctx SpecContext) {
		// Each is the faster one at one node, by more than a launch, and by less than two.
		law := func(add, other float64) backend.Efficiency {
			return backend.Efficiency{Launch: 800, Laws: map[string]backend.Law{"add": {Fixed: add}, "other": {Fixed: other}}}
		}
		near, far := law(1e3, 2e3), law(2e3, 1e3)
		p := compile(ctx, textModel(text), &carve.Options{Strict: true, Backends: []backend.Config{{Name: "near"}, {Name: "far"}},
			Open: map[string]backend.Backend{"near": &told{&reference.Backend{Name: "near"}, &near}, "far": &told{&reference.Backend{Name: "far"}, &far}}})
		defer p.Close()
		r, err := p.Report(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Groups).To(HaveExactElements(HaveField("Backend", "near"), HaveField("Backend", "far")))
		Expect(r.Placement.Corrected).To(BeNumerically("~", 3600, 1))
		Expect(r.Placement.Regrouped).To(BeZero())
		Expect(r.Placement.Rivals).To(ConsistOf(
			carve.RivalReport{Backend: "far", Nanoseconds: 3800}, carve.RivalReport{Backend: "near", Nanoseconds: 3800}))
	})

	It("counts symbols with their bounds", func(ctx SpecContext) {
		open := "graph {\n  opset 17\n  input %x: f32[rows,8]\n  %a = Relu(%x) \"a\"\n  output %a\n}"
		ready := backend.Efficiency{Laws: map[string]backend.Law{"add": {Fixed: 10, Items: 100}}}
		large := backend.Efficiency{Laws: map[string]backend.Law{"add": {Fixed: 1e6, Items: 1}}}
		on := func(bounds map[string]int) (string, float64) {
			GinkgoHelper()
			p := compile(ctx, textModel(open), &carve.Options{Strict: true, Threads: 1, Bounds: bounds, Backends: []backend.Config{{Name: "ready"}, {Name: "large"}},
				Open: map[string]backend.Backend{"ready": &told{&reference.Backend{Name: "ready"}, &ready}, "large": &told{&reference.Backend{Name: "large"}, &large}}})
			defer p.Close()
			r, err := p.Report(ctx, map[string][]int{"x": {2, 8}})
			Expect(err).NotTo(HaveOccurred())
			return r.Groups[0].Backend, r.Placement.Nanoseconds
		}
		where, ns := on(nil)
		Expect(where).To(Equal("ready"))
		Expect(ns).To(BeNumerically("~", 10+100*32*8, 1), "32 rows are assumed")
		where, ns = on(map[string]int{"rows": 100_000})
		Expect(where).To(Equal("large"))
		Expect(ns).To(BeNumerically("~", 1e6+100_000*8, 1))
		where, ns = on(map[string]int{"rows": 100})
		Expect(where).To(Equal("ready"))
		Expect(ns).To(BeNumerically("~", 10+100*100*8, 1))
	})

	It("has names", func(ctx SpecContext) {
		for _, p := range []carve.Placement{carve.Automatic, carve.Priority, carve.Modelled, carve.Measured} {
			Expect(carve.ParsePlacement(p.String())).To(Equal(p))
		}
		_, err := carve.ParsePlacement("fastest")
		Expect(err).To(MatchError(carve.ErrInput))
		for _, o := range []carve.Options{{Placement: 4}, {Placement: -1}, {Budget: -1}} {
			_, err := carve.Compile(ctx, textModel(text), &o)
			Expect(err).To(MatchError(carve.ErrInput), o.Placement.String())
		}
	})
})

// told is a backend that says what it achieves.
type told struct {
	*reference.Backend
	e *backend.Efficiency
}

func (t *told) Info() backend.Info {
	info := t.Backend.Info()
	info.Efficiency = t.e
	return info
}

// achieving returns a backend whose every node takes so many nanoseconds.
func achieving(name string, nanos float64) backend.Backend {
	return &told{&reference.Backend{Name: name}, &backend.Efficiency{Laws: map[string]backend.Law{"other": {Fixed: nanos}}}}
}
