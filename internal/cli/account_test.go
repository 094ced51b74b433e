package cli_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/onnx"
	"github.com/carve-dev/carve/internal/zootest"
)

// modelNodes counts the nodes of a model by name, those of branches included.
func modelNodes(g *graph.Graph, count map[string]int) {
	for n := range g.Nodes() {
		count[n.Name]++
		for _, r := range n.Regions {
			modelNodes(r.Graph, count)
		}
	}
}

var _ = DescribeTable("partition accounts for every node of the zoo once", func(ctx SpecContext, name, backends string) {
	path, err := zootest.Materialize(name)
	if errors.Is(err, zootest.ErrAbsent) {
		Skip(err.Error())
	}
	Expect(err).NotTo(HaveOccurred())
	m, err := onnx.Load(ctx, path, nil)
	Expect(err).NotTo(HaveOccurred())
	defer m.Close()
	want, got := map[string]int{}, map[string]int{}
	modelNodes(m.Graph, want)
	var p partitionJSON
	Expect(json.Unmarshal([]byte(succeeds(ctx, "partition", path, "--json", "--backend", backends).stdout), &p)).To(Succeed())
	for _, g := range p.Groups {
		for _, n := range g.Nodes {
			got[n]++
		}
	}
	for _, f := range p.Folded {
		Expect(f.Kind).To(BeElementOf("constant", "forwarded", "dead", "shape"))
		got[f.Node]++
	}
	var wrong []string
	for _, n := range slices.Sorted(maps.Keys(want)) {
		if want[n] != got[n] {
			wrong = append(wrong, fmt.Sprintf("%s: %d times", n, got[n]))
		}
	}
	for _, n := range slices.Sorted(maps.Keys(got)) {
		if want[n] == 0 {
			wrong = append(wrong, n+": not in the model")
		}
	}
	Expect(wrong).To(BeEmpty())
},
	Entry("bert_tiny", "bert_tiny", "cpu"),
	Entry("bert_tiny on reference", "bert_tiny", "reference"),
	Entry("gpt2_tiny", "gpt2_tiny", "cpu"),
	Entry("gpt2_tiny_op17", "gpt2_tiny_op17", "cpu"),
	Entry("lstm_tagger", "lstm_tagger", "cpu"),
	Entry("shufflenet_v2_x1_0_bn", "shufflenet_v2_x1_0_bn", "cpu"),
	Entry("ssdlite320_mobilenet_v3_large", "ssdlite320_mobilenet_v3_large", "cpu"),
)
