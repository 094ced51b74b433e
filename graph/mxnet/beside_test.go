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

	"github.com/carve-dev/carve/backend"
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
		agree, cases := map[string]int{}, map[string]int{}
		shares := map[string][3]float64{} // by operator, then as backendLists
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
			most, fine := shares[c.Op], true
			for i, backends := range backendLists {
				share, s := apart(outputsOf(ctx, m, inputs, backends...), want, m.Graph.Outputs, half, c.Step)
				if s != "" {
					text, _ := os.ReadFile(c.Path(dir, "symbol.json"))
					bad = append(bad, fmt.Sprintf("%s on %v: %s: %s", c.Op, backends, s, text))
					fine = false
				}
				most[i] = math.Max(most[i], share)
			}
			shares[c.Op] = most
			cases[c.Op]++
			if fine {
				agree[c.Op]++
			}
			Expect(m.Close()).To(Succeed())
		}
		AddReportEntry("MXNet", made.Version)
		AddReportEntry("cases", fmt.Sprintf("%d of %d operators; %d other names are not of this version", len(made.Cases), len(cases), len(made.Unknown)))
		AddReportEntry("without a case", strings.Join(made.Without, ", "))
		for _, x := range made.Refused {
			AddReportEntry("MXNet refuses", x.Op+": "+x.Why)
		}
		for _, op := range slices.Sorted(maps.Keys(cases)) {
			row("operator | cases | agree | largest difference, of what is allowed: reference | cpu | mkl,cpu", op, cases[op], agree[op],
				fmt.Sprintf("%.2f", shares[op][0]), fmt.Sprintf("%.2f", shares[op][1]), fmt.Sprintf("%.2f", shares[op][2]))
		}
		none(bad)
		if strings.HasPrefix(made.Version, "1.") { // 2.0 hides, in its interface of Python, how some are called
			// Those are for graphics processors or sparse operands alone, or fail MXNet itself.
			Expect(made.Without).To(HaveEach(BeElementOf("_contrib_count_sketch", "_contrib_fft", "_contrib_ifft", "_square_sum", "_zeros_without_dtype",
				"_npi_insert_slice", "_npi_insert_tensor", "_npi_insert_scalar", "_npi_delete", "_identity_with_attr_like_rhs")), "operators of the table without a case")
		}
		Expect(len(made.Cases)).To(BeNumerically(">=", 300))
	}, NodeTimeout(time.Hour))
	It("Gluon's models compute what MXNet computes", func(ctx SpecContext) {
		p := interpreter(ctx)
		names, err := p.ModelNames(ctx)
		Expect(err).NotTo(HaveOccurred())
		if *gluons != "" {
			names = strings.Split(*gluons, ",")
		}
		library, err := backend.Open(backend.Config{Name: "mkl"})
		native := err == nil
		if native {
			Expect(library.Close()).To(Succeed())
		}
		var bad []string
		agree := 0
		for _, name := range names {
			dir, err := os.MkdirTemp("", "carve-mxnet")
			Expect(err).NotTo(HaveOccurred())
			Expect(p.Model(ctx, dir, name, *seed)).To(Succeed())
			before := len(bad)
			inputs, want := arrays(filepath.Join(dir, name+"-inputs.npz")), inOrder(filepath.Join(dir, name+"-outputs.npz"))
			m, err := mxnet.Load(ctx, filepath.Join(dir, name+"-symbol.json"), fedWith(inputs))
			if err != nil {
				bad = append(bad, err.Error())
			} else {
				for _, backends := range backendLists {
					got, nodes := outputsAndNodes(ctx, m, inputs, backends...)
					share, s := apart(got, want, m.Graph.Outputs, false, 0)
					if s != "" {
						bad = append(bad, fmt.Sprintf("%s on %v: %s", name, backends, s))
					}
					if nodes[backends[0]] == 0 && (native || backends[0] != "mkl") {
						bad = append(bad, fmt.Sprintf("%s on %v: the first runs nothing", name, backends))
					}
					row("model of Gluon | backends | nodes on each | agrees | largest difference, of what is allowed", name, strings.Join(backends, ","), nodes, s == "",
						fmt.Sprintf("%.3f", share))
				}
				Expect(m.Close()).To(Succeed())
			}
			Expect(os.RemoveAll(dir)).To(Succeed())
			if len(bad) == before {
				agree++
			}
			GinkgoWriter.Println(name, "has been run")
		}
		AddReportEntry("models", fmt.Sprintf("%d of %d agree", agree, len(names)))
		none(bad)
	}, NodeTimeout(3*time.Hour))
})
