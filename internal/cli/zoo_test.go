package cli_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/zootest"
)

// zooRun runs a model of the zoo through files and compares what it wrote with the reference outputs.
func zooRun(ctx SpecContext, name string) []zootest.Distance {
	GinkgoHelper()
	ref, err := zootest.ReadReference(name)
	if errors.Is(err, zootest.ErrAbsent) {
		Skip(err.Error())
	}
	Expect(err).NotTo(HaveOccurred())
	path, err := zootest.Materialize(name)
	Expect(err).NotTo(HaveOccurred())
	dir := GinkgoT().TempDir()
	args := []string{"run", path, "--output", dir}
	for i := range ref.Inputs {
		t, err := ref.Inputs[i].Tensor()
		Expect(err).NotTo(HaveOccurred())
		file := filepath.Join(dir, fmt.Sprintf("in%d.npy", i))
		f, err := os.Create(file)
		Expect(err).NotTo(HaveOccurred())
		Expect(tensor.WriteNPY(f, t)).To(Succeed())
		Expect(f.Close()).To(Succeed())
		args = append(args, "--input", ref.Inputs[i].Name+"="+file)
	}
	succeeds(ctx, args...)
	outputs := map[string]tensor.Value{}
	for _, o := range ref.Outputs {
		t, err := tensor.ReadNPYFile(filepath.Join(dir, o.Name+".npy"))
		Expect(err).NotTo(HaveOccurred())
		outputs[o.Name] = t
	}
	d, err := ref.Compare(outputs)
	Expect(err).NotTo(HaveOccurred(), name)
	return d
}

var _ = Describe("the zoo", func() {
	small := []string{"bert_tiny", "bert_tiny_op17", "gpt2_tiny", "gpt2_tiny_op17", "lstm_tagger", "squeezenet1_1", "shufflenet_v2_x1_0"}

	for _, name := range small {
		It("agrees with the reference outputs on "+name, func(ctx SpecContext) { zooRun(ctx, name) })
	}

	It("agrees with the reference outputs on all other models", Label("slow"), func(ctx SpecContext) {
		if !strings.Contains(GinkgoLabelFilter(), "slow") {
			Skip("takes long and some GB: -ginkgo.label-filter=slow")
		}
		names, err := zootest.Names()
		if errors.Is(err, zootest.ErrAbsent) {
			Skip(err.Error())
		}
		Expect(err).NotTo(HaveOccurred())
		for _, name := range names {
			if !slices.Contains(small, name) {
				for _, d := range zooRun(ctx, name) {
					fmt.Fprintf(GinkgoWriter, "%s %s: %.3g of %.3g\n", name, d.Output, d.Worst, d.Limit)
				}
			}
		}
	})
})
