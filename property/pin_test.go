package property_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/property"
)

var _ = Describe("CutDevice", func() {
	DescribeTable("splits a backend's name and the index of a device", func(name, base string, index int, named bool) {
		b, i, ok := property.CutDevice(name)
		Expect(b).To(Equal(base))
		Expect(i).To(Equal(index))
		Expect(ok).To(Equal(named))
	},
		Entry("a name", "cuda", "cuda", 0, false),
		Entry("the first", "cuda:0", "cuda", 0, true),
		Entry("another", "cuda:12", "cuda", 12, true),
		Entry("no number", "cuda:x", "cuda:x", 0, false),
		Entry("no index", "cuda:", "cuda:", 0, false),
		Entry("a sign", "cuda:-1", "cuda:-1", 0, false),
		Entry("a leading zero", "cuda:01", "cuda:01", 0, false),
		Entry("more devices than there can be", "cuda:99999", "cuda:99999", 0, false),
		Entry("two indices", "cuda:1:2", "cuda:1:2", 0, false),
		Entry("no name", ":1", ":1", 0, false),
		Entry("nothing", "", "", 0, false),
	)
})

var _ = Describe("Pin", func() {
	DescribeTable("speaks of a backend on all its devices, or on one", func(p property.Pin, want map[string]bool) {
		g := graph.New("g")
		x := g.AddInput("x", graph.Type{})
		n := g.AddNode(graph.NodeSpec{Op: graph.Op{Name: "Relu"}, Name: "n", Inputs: []*graph.Value{x}, Outputs: []string{"y"}})
		got := map[string]bool{}
		for backend := range want {
			got[backend] = property.Allowed([]property.Pin{p}, n, backend) == nil
		}
		Expect(got).To(Equal(want))
	},
		Entry("bound to the backend", property.Pin{Node: "n", Backend: "cuda"}, map[string]bool{"cuda": true, "cuda:1": true, "cudas": false, "cpu": false}),
		Entry("bound to one", property.Pin{Node: "n", Backend: "cuda:1"}, map[string]bool{"cuda": false, "cuda:1": true, "cuda:2": false, "cpu": false}),
		Entry("bound to the first", property.Pin{Node: "n", Backend: "cuda:0"}, map[string]bool{"cuda": true, "cuda:1": false, "cpu": false}),
		Entry("kept from the backend", property.Pin{Node: "n", Backend: "cuda", Exclude: true}, map[string]bool{"cuda": false, "cuda:1": false, "cpu": true}),
		Entry("kept from one", property.Pin{Node: "n", Backend: "cuda:1", Exclude: true}, map[string]bool{"cuda": true, "cuda:1": false, "cpu": true}),
		Entry("kept from the first", property.Pin{Node: "n", Backend: "cuda:0", Exclude: true}, map[string]bool{"cuda": false, "cuda:1": true, "cpu": true}),
	)
})

var _ = Describe("Allowed", func() {
	bound := func(backend string) property.Pin { return property.Pin{Node: "n", Backend: backend} }
	kept := func(backend string) property.Pin { return property.Pin{Op: "Relu", Backend: backend, Exclude: true} }
	other := property.Pin{Node: "m", Backend: "cpu"}

	DescribeTable("has the first pin that matches decide", func(pins []property.Pin, want ...string) {
		g := graph.New("g")
		x := g.AddInput("x", graph.Type{})
		n := g.AddNode(graph.NodeSpec{Op: graph.Op{Name: "Relu"}, Name: "n", Inputs: []*graph.Value{x}, Outputs: []string{"y"}})
		got := []string{}
		for _, backend := range []string{"npu", "cpu", "reference"} {
			if property.Allowed(pins, n, backend) == nil {
				got = append(got, backend)
			}
		}
		Expect(got).To(ConsistOf(want))
	},
		Entry("no pins", nil, "npu", "cpu", "reference"),
		Entry("one of another node", []property.Pin{other}, "npu", "cpu", "reference"),
		Entry("bound to two", []property.Pin{bound("cpu"), bound("npu")}, "cpu"),
		Entry("bound, then kept from it", []property.Pin{bound("cpu"), kept("cpu")}, "cpu"),
		Entry("kept from one, then bound to it", []property.Pin{kept("cpu"), bound("cpu")}, "npu", "reference"),
		Entry("kept from one, then bound to another", []property.Pin{other, kept("npu"), bound("reference")}, "cpu", "reference"),
		Entry("kept from two", []property.Pin{kept("npu"), kept("cpu")}, "reference"),
		Entry("kept from two, with one that binds between", []property.Pin{kept("npu"), bound("npu"), kept("cpu")}, "reference"),
		Entry("kept from all", []property.Pin{kept("npu"), kept("cpu"), kept("reference")}),
	)
})
