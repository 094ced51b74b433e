package opencl_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/internal/zootest"
)

// onHost are the nodes of models that are not the device's, as operators by model: those of a detector's head that depend
// on data, pick the best, or compute shapes. Of all other models the device has every node.
var onHost = map[string][]string{
	"ssdlite320_mobilenet_v3_large": {
		"Add", "Cast", "Concat", "ConstantOfShape", "Div", "Equal", "Gather", "GatherND", "Greater", "If", "Mul", "NonMaxSuppression", "NonZero",
		"ReduceMax", "ReduceMin", "ReduceProd", "Reshape", "Shape", "Slice", "Split", "Squeeze", "TopK", "Transpose", "Unsqueeze",
	},
}

// copies is how many values cross between host and device in a run, by model: of a detector its image, its boxes and its scores.
var copies = map[string]int{"ssdlite320_mobilenet_v3_large": 3}

// zooModels are those whose weights there are, variants of operator sets and training left out.
func zooModels() []string {
	names, err := zootest.Names()
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(names, func(s string) bool { return strings.HasSuffix(s, "_bn") || strings.HasSuffix(s, "_op17") })
}

var _ = Describe("the zoo on an OpenCL device", Label("zoo"), func() {
	for _, list := range [][]string{{"opencl"}, {"opencl", "cpu"}, {"mkl", "opencl", "cpu"}} {
		for _, name := range zooModels() {
			It(fmt.Sprintf("agrees with the reference: %s, %v", name, list), func(ctx SpecContext) {
				b := open()
				ref, err := zootest.ReadReference(name)
				if errors.Is(err, zootest.ErrAbsent) {
					Skip(err.Error())
				}
				Expect(err).NotTo(HaveOccurred())
				path, err := zootest.Materialize(name)
				Expect(err).NotTo(HaveOccurred())
				m, err := carve.Open(ctx, path)
				Expect(err).NotTo(HaveOccurred())
				DeferCleanup(m.Close)
				feeds, err := ref.Feeds()
				Expect(err).NotTo(HaveOccurred())
				o := &carve.Options{Placement: carve.Priority, Verify: true}
				for _, x := range list {
					o.Backends = append(o.Backends, backend.Config{Name: x})
				}
				p, err := carve.Compile(ctx, m, o)
				Expect(err).NotTo(HaveOccurred())
				DeferCleanup(p.Close)
				for range 2 {
					begin := time.Now()
					out, err := p.Run(ctx, feeds)
					Expect(err).NotTo(HaveOccurred())
					ds, err := ref.Compare(out)
					Expect(err).NotTo(HaveOccurred())
					fmt.Fprintf(GinkgoWriter, "%s: %v, %v\n", name, ds, time.Since(begin))
				}
				r, err := p.Report(ctx, nil)
				Expect(err).NotTo(HaveOccurred())
				here, all := 0, 0
				var others []string
				for _, g := range r.Groups {
					all += len(g.Nodes)
					if g.Backend == b.Info().Name {
						here += len(g.Nodes)
					} else {
						others = append(others, g.Ops...)
					}
				}
				if want, ok := copies[name]; ok && list[0] == "opencl" {
					crossing := slices.DeleteFunc(slices.Clone(r.Conversions), func(c carve.ConversionReport) bool {
						return c.Constant || strings.HasPrefix(c.From, "host") == strings.HasPrefix(c.To, "host")
					})
					Expect(crossing).To(HaveLen(want), "%v", crossing)
				}
				slices.Sort(others)
				others = slices.Compact(others)
				fmt.Fprintf(GinkgoWriter, "%s: %d of %d nodes in %d groups; others: %v\n", name, here, all, len(r.Groups), others)
				if list[0] == "opencl" {
					Expect(here).To(BeNumerically(">", 0))
					others = slices.DeleteFunc(others, func(op string) bool { return slices.Contains(onHost[name], op) })
					Expect(others).To(BeEmpty(), "on the host")
				}
			})
		}
	}
})
