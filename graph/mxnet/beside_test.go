package mxnet_test

import (
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/mxnet"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/mxnettest"
)

// interpreter returns the Python that has MXNet, or skips the spec.
func interpreter(ctx SpecContext) mxnettest.Python {
	GinkgoHelper()
	if *python == "" {
		Skip("no -mxnet PYTHON, an interpreter that has mxnet 1.9.1")
	}
	p := mxnettest.Python(*python)
	if err := p.Check(ctx); err != nil {
		Skip(err.Error())
	}
	return p
}

// apart compares results with MXNet's; step is what one step of rounded integers stands for, 0 where there are none. Of operands in
// half precision two units in the last place are allowed: MXNet rounds between, or after.
func apart(got, want []*tensor.Tensor, outputs []*graph.Value, half bool, step float64) string {
	if len(got) != len(want) {
		return fmt.Sprintf("%d results, expected %d", len(got), len(want))
	}
	for i, g := range got {
		w := want[i]
		if half && w.DType.IsFloat() {
			if s := withinHalf(g, w); s != "" {
				return fmt.Sprintf("out%d: %s", i, s)
			}
			continue
		}
		if step == 0 {
			if s := differ(g, w, tolerance(w, outputs[i])); s != "" {
				return fmt.Sprintf("out%d: %s", i, s)
			}
			continue
		}
		if !slices.Equal(g.Shape, w.Shape) || g.DType != w.DType {
			return fmt.Sprintf("out%d: %v, expected %v", i, g, w)
		}
		for k := range w.Len() {
			// MXNet's quantize and dequantize count 127.5 steps to a range, its layers 127.
			if d := math.Abs(g.Float64At(k) - w.Float64At(k)); !(d <= 1.01*step+0.004*math.Abs(w.Float64At(k))) {
				return fmt.Sprintf("out%d: element %d is %v, expected %v", i, k, g.Float64At(k), w.Float64At(k))
			}
		}
	}
	return ""
}

// none fails where there are disagreements, and writes them all.
func none(bad []string) {
	GinkgoHelper()
	for _, s := range bad {
		GinkgoWriter.Println("DISAGREES", s)
	}
	Expect(bad).To(BeEmpty())
}

// inOrder returns the arrays out0, out1, … of a file.
func inOrder(path string) []*tensor.Tensor {
	GinkgoHelper()
	named := arrays(path)
	out := make([]*tensor.Tensor, len(named))
	for i := range out {
		out[i] = named[fmt.Sprintf("out%d", i)]
	}
	return out
}

var _ = Describe("beside MXNet", Label("mxnet"), func() {
	It("every operator of the table computes what MXNet computes", func(ctx SpecContext) {
		p := interpreter(ctx)
		var names []string
		for _, x := range mxnet.Operators() {
			if x.Support != mxnet.Refused {
				names = append(names, x.Name)
			}
		}
		dir := GinkgoT().TempDir()
		made, err := p.Cases(ctx, dir, *seed, names)
		Expect(err).NotTo(HaveOccurred())
		agree := map[string]int{}
		var bad []string
		for _, c := range made.Cases {
			inputs := arrays(c.Path(dir, "inputs.npz"))
			o := fedWith(inputs)
			o.Params = c.Path(dir, "0000.params")
			m, err := mxnet.Load(ctx, c.Path(dir, "symbol.json"), o)
			if err != nil {
				bad = append(bad, err.Error())
				continue
			}
			want, half := inOrder(c.Path(dir, "outputs.npz")), false
			for _, t := range inputs {
				half = half || t.DType == tensor.Float16
			}
			for _, backends := range [][]string{{"reference"}, {"cpu"}} {
				if s := apart(outputsOf(ctx, m, inputs, backends...), want, m.Graph.Outputs, half, c.Step); s != "" {
					text, _ := os.ReadFile(c.Path(dir, "symbol.json"))
					bad = append(bad, fmt.Sprintf("%s on %v: %s: %s", c.Op, backends, s, text))
				}
			}
			agree[c.Op]++
			Expect(m.Close()).To(Succeed())
		}
		AddReportEntry("MXNet", made.Version)
		AddReportEntry("cases", fmt.Sprintf("%d of %d operators; %d other names are not of this version", len(made.Cases), len(agree), len(made.Unknown)))
		for _, x := range made.Refused {
			AddReportEntry("MXNet refuses", x.Op+": "+x.Why)
		}
		for _, op := range slices.Sorted(maps.Keys(agree)) {
			AddReportEntry(op, agree[op], ReportEntryVisibilityFailureOrVerbose)
		}
		none(bad)
		Expect(made.Without).To(BeEmpty(), "operators of the table without a case")
		Expect(len(made.Cases)).To(BeNumerically(">=", 300))
	}, NodeTimeout(time.Hour))
	It("Gluon's models compute what MXNet computes", func(ctx SpecContext) {
		p := interpreter(ctx)
		names, err := p.ModelNames(ctx)
		Expect(err).NotTo(HaveOccurred())
		if *gluons != "" {
			names = strings.Split(*gluons, ",")
		}
		var bad []string
		for _, name := range names {
			dir, err := os.MkdirTemp("", "carve-mxnet")
			Expect(err).NotTo(HaveOccurred())
			Expect(p.Model(ctx, dir, name)).To(Succeed())
			inputs, want := arrays(filepath.Join(dir, name+"-inputs.npz")), inOrder(filepath.Join(dir, name+"-outputs.npz"))
			m, err := mxnet.Load(ctx, filepath.Join(dir, name+"-symbol.json"), fedWith(inputs))
			if err != nil {
				bad = append(bad, err.Error())
			} else {
				for _, backends := range backendLists[1:] {
					if s := apart(outputsOf(ctx, m, inputs, backends...), want, m.Graph.Outputs, false, 0); s != "" {
						bad = append(bad, fmt.Sprintf("%s on %v: %s", name, backends, s))
					}
				}
				Expect(m.Close()).To(Succeed())
			}
			Expect(os.RemoveAll(dir)).To(Succeed())
		}
		AddReportEntry("models", len(names))
		none(bad)
	}, NodeTimeout(3*time.Hour))
})
