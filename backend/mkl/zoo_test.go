package mkl_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/internal/zootest"
	"github.com/carve-dev/carve/property"
)

// quickZoo are models that compile and run in well under a second.
var quickZoo = []string{"bert_tiny", "gpt2_tiny", "lstm_tagger", "mobilenet_v2", "shufflenet_v2_x1_0", "squeezenet1_1"}

// checkZoo runs a model of the zoo on mkl, with the rest where it falls, and compares the outputs with the reference's.
func checkZoo(ctx context.Context, library, name string, o carve.Options) *carve.Report {
	GinkgoHelper()
	ref, err := zootest.ReadReference(name)
	if errors.Is(err, zootest.ErrAbsent) {
		Skip(err.Error())
	}
	Expect(err).NotTo(HaveOccurred())
	path, err := zootest.Materialize(name)
	Expect(err).NotTo(HaveOccurred())
	m, err := carve.Open(ctx, path)
	Expect(err).NotTo(HaveOccurred())
	defer m.Close()
	feeds, err := ref.Feeds()
	Expect(err).NotTo(HaveOccurred())
	if o.Backends == nil {
		o.Backends = []backend.Config{{Name: "mkl", Options: options(library)}}
	}
	o.Verify, o.Placement = true, carve.Priority
	p, err := carve.Compile(ctx, m, &o)
	Expect(err).NotTo(HaveOccurred(), name)
	defer p.Close()
	for range 2 {
		out, err := p.Run(ctx, feeds)
		Expect(err).NotTo(HaveOccurred(), name)
		ds, err := ref.Compare(out)
		Expect(err).NotTo(HaveOccurred(), name)
		fmt.Fprintf(GinkgoWriter, "%s: %v\n", name, ds)
	}
	r, err := p.Report(ctx, nil)
	Expect(err).NotTo(HaveOccurred())
	nodes := map[string]int{}
	for _, g := range r.Groups {
		nodes[g.Backend] += len(g.Nodes)
	}
	fmt.Fprintf(GinkgoWriter, "%s: nodes %v in %d groups\n", name, nodes, len(r.Groups))
	Expect(nodes).To(HaveKey("mkl"), name)
	for _, x := range r.Rejected { // outputs agree also where a group was left to the reference kernels
		Expect(x.Reason).NotTo(HavePrefix(string(property.SpecializeFail)), "%s: %s", name, x.Node)
	}
	return r
}

// placedInAnyOrder compares the choices by cost for all orders of mkl, cpu and reference.
func placedInAnyOrder(ctx context.Context, library, name string) {
	GinkgoHelper()
	path, err := zootest.Materialize(name)
	if errors.Is(err, zootest.ErrAbsent) {
		Skip(err.Error())
	}
	Expect(err).NotTo(HaveOccurred())
	m, err := carve.Open(ctx, path)
	Expect(err).NotTo(HaveOccurred())
	defer m.Close()
	list := []backend.Config{{Name: "mkl", Options: options(library)}, {Name: "cpu"}, {Name: "reference"}}
	var first *carve.PlacementReport
	for _, order := range [][3]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		o := &carve.Options{Placement: carve.Modelled, Strict: true, Threads: 1}
		for _, i := range order {
			o.Backends = append(o.Backends, list[i])
		}
		p, err := carve.Compile(ctx, m, o)
		Expect(err).NotTo(HaveOccurred(), name)
		r, err := p.Report(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(p.Close()).To(Succeed())
		if first == nil {
			first = r.Placement
		}
		say := fmt.Sprintf("%s, order %v", name, order)
		Expect(r.Placement.Nanoseconds).To(BeNumerically("~", first.Nanoseconds, 1), say)
		Expect(r.Placement.Bound).To(BeNumerically("~", first.Bound, 1), say)
		Expect(r.Placement.Corrected).To(BeNumerically("~", first.Corrected, 1), say)
	}
}

var _ = Describe("the zoo on mkl", func() {
	for _, lib := range libraries() {
		for _, name := range quickZoo {
			It(strings.TrimSpace("agrees with the reference: "+name+" "+lib), func(ctx SpecContext) {
				open(lib)
				checkZoo(ctx, lib, name, carve.Options{})
			})
		}
		It(strings.TrimSpace("costs the same in every order of backends where cost decides "+lib), Label("slow"), func(ctx SpecContext) {
			if !strings.Contains(GinkgoLabelFilter(), "slow") {
				Skip("takes long: -ginkgo.label-filter=slow")
			}
			open(lib)
			for _, name := range quickZoo {
				placedInAnyOrder(ctx, lib, name)
			}
		})
		It(strings.TrimSpace("cuts channels anywhere in blocks of 8 and 16 "+lib), func(ctx SpecContext) {
			open(lib)
			for _, layout := range []string{"NCHW8c", "NCHW16c"} {
				c := backend.Config{Name: "mkl", Options: map[string]string{"layout": layout}}
				if lib != "" {
					c.Options["library"] = lib
				}
				checkZoo(ctx, lib, "shufflenet_v2_x1_0", carve.Options{Backends: []backend.Config{c}})
			}
		})
		It(strings.TrimSpace("converts next to nothing in convolutional networks "+lib), func(ctx SpecContext) {
			open(lib)
			names := []string{"shufflenet_v2_x1_0"}
			if strings.Contains(GinkgoLabelFilter(), "zoo") {
				names = append(names, "resnet50", "inception_v3", "densenet121")
			}
			for _, name := range names {
				joined, alone := checkZoo(ctx, lib, name, carve.Options{}), checkZoo(ctx, lib, name, carve.Options{Isolated: true})
				Expect(joined.Run.Count).To(BeNumerically("<=", 3), name)
				Expect(alone.Run.Count).To(BeNumerically(">", 100), name)
				Expect(alone.Run.Bytes).To(BeNumerically(">", 20*joined.Run.Bytes), name)
				fmt.Fprintf(GinkgoWriter, "%s: %+v instead of %+v\n", name, joined.Run, alone.Run)
			}
		})
		It(strings.TrimSpace("agrees with the reference: the other models "+lib), Label("zoo"), func(ctx SpecContext) {
			if !strings.Contains(GinkgoLabelFilter(), "zoo") {
				Skip("minutes; ask for it with -ginkgo.label-filter=zoo")
			}
			open(lib)
			names, err := zootest.Names()
			if errors.Is(err, zootest.ErrAbsent) {
				Skip(err.Error())
			}
			Expect(err).NotTo(HaveOccurred())
			for _, name := range names {
				if !slices.Contains(quickZoo, name) {
					checkZoo(ctx, lib, name, carve.Options{})
				}
			}
		})
	}
})
