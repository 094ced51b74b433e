// Command mxnet-property ports a subgraph property of Apache MXNet: fully connected layers with the activation behind them become
// subgraphs of their own. It loads a model of MXNet, compiles it without the property and with it, and prints the groups.
//
//	go run ./examples/mxnet-property
//
// What a user of MXNet had written in C++ is shown beside each part.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/mxnet"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/property"
)

// denseSelector grows from a fully connected layer to the activation that alone reads it.
//
//	class DenseSelector : public SubgraphSelector {
//	  bool Select(const nnvm::Node &n) override { return n.op() == Op::Get("FullyConnected"); }
//	  bool SelectInput(const nnvm::Node &n, const nnvm::Node &in) override { return false; }
//	  bool SelectOutput(const nnvm::Node &n, const nnvm::Node &out) override {
//	    return n.op() == Op::Get("FullyConnected") && out.op() == Op::Get("Activation");
//	  }
//	  std::vector<nnvm::Node *> Filter(const std::vector<nnvm::Node *> &c) override {
//	    return c.size() == 2 ? c : std::vector<nnvm::Node *>();
//	  }
//	};
//
// Operators go by ONNX's names here. A reader that is not the only one shows in the value: MXNet's V1 selector cannot see it.
type denseSelector struct{}

func (denseSelector) Select(seed *graph.Node) bool      { return seed.Is("Gemm") }
func (denseSelector) SelectInput(_, _ *graph.Node) bool { return false }
func (denseSelector) SelectOutput(cur, out *graph.Node) bool {
	return cur.Is("Gemm") && out.Is("Relu", "Sigmoid", "Tanh") && cur.Output(0).HasOneUse()
}

func (denseSelector) Filter(candidates []*graph.Node) []*graph.Node {
	if len(candidates) == 2 {
		return candidates
	}
	return nil
}

func (denseSelector) Reset() {}

// denseProperty makes the sets borders of groups, which is what MXNet's subgraphs are: no group holds nodes of a set and others.
//
//	class DenseProperty : public SubgraphProperty {
//	  static SubgraphPropertyPtr Create() { return std::make_shared<DenseProperty>(); }
//	  SubgraphSelectorPtr CreateSubgraphSelector() const override { return std::make_shared<DenseSelector>(); }
//	};
//	MXNET_REGISTER_SUBGRAPH_PROPERTY(MY_BACKEND, DenseProperty);
func denseProperty() property.SubgraphProperty {
	return &property.Rule{ID: "dense", Kind: property.Bounding, Selector: func(*graph.Graph) property.Selector { return denseSelector{} }}
}

// symbol is three layers, as HybridBlock.export would write them; the weights are random numbers that a formula makes.
const symbol = `{"nodes": [
  {"op": "null", "name": "data", "inputs": []},
  {"op": "null", "name": "w1", "inputs": []},
  {"op": "FullyConnected", "name": "fc1", "attrs": {"num_hidden": "8", "no_bias": "True"}, "inputs": [[0, 0, 0], [1, 0, 0]]},
  {"op": "Activation", "name": "relu1", "attrs": {"act_type": "relu"}, "inputs": [[2, 0, 0]]},
  {"op": "null", "name": "w2", "inputs": []},
  {"op": "FullyConnected", "name": "fc2", "attrs": {"num_hidden": "8", "no_bias": "True"}, "inputs": [[3, 0, 0], [4, 0, 0]]},
  {"op": "Activation", "name": "tanh2", "attrs": {"act_type": "tanh"}, "inputs": [[5, 0, 0]]},
  {"op": "softmax", "name": "prob", "inputs": [[6, 0, 0]]}],
  "arg_nodes": [0, 1, 4], "heads": [[7, 0, 0]], "attrs": {"mxnet_version": ["int", 10901]}}`

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "mxnet-property:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, w io.Writer) error {
	// The weights are inputs of this model; one that MXNet wrote has them in its parameters, which mxnet.Load finds.
	loaded, err := mxnet.Parse(ctx, []byte(symbol), nil, &mxnet.Options{Shapes: map[string][]int{"data": {-1, 8}, "w1": {8, 8}, "w2": {8, 8}}})
	if err != nil {
		return err
	}
	model := carve.FromMXNet(loaded)
	defer model.Close()
	if err := compute(ctx, w, "without the property", model, nil); err != nil {
		return err
	}
	// sym.optimize_for("MY_BACKEND") was the same for users of MXNet. A fusion of cpu's own, which makes one node of layer and
	// activation before groups are made, steps aside.
	return compute(ctx, w, "with the property", model, &carve.Options{
		Properties:         map[string][]property.SubgraphProperty{"cpu": {denseProperty()}},
		DisabledProperties: map[string][]string{"cpu": {"matmul-tail"}},
	})
}

// compute compiles and runs the model, and prints its groups and the result.
func compute(ctx context.Context, w io.Writer, title string, m *carve.Model, o *carve.Options) error {
	p, err := carve.Compile(ctx, m, o)
	if err != nil {
		return err
	}
	defer p.Close()
	wave := func(n int, step float32, shape ...int) *tensor.Tensor {
		data := make([]float32, n)
		for i := range data {
			data[i] = float32(i*7%13)*step - 6*step
		}
		return tensor.From(data, shape...)
	}
	out, err := p.Run(ctx, map[string]tensor.Value{"data": wave(8, 0.2, 1, 8), "w1": wave(64, 0.1, 8, 8), "w2": wave(64, 0.05, 8, 8)})
	if err != nil {
		return err
	}
	r, err := p.Report(ctx, nil)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "%s: %d groups\n", title, len(r.Groups))
	for _, g := range r.Groups {
		fmt.Fprintf(w, "  %d on %s: %s\n", g.ID, g.Backend, strings.Join(g.Ops, ", "))
	}
	fmt.Fprintf(w, "  probabilities %.3f\n", tensor.Elements[float32](out["prob_output"].(*tensor.Tensor)))
	return nil
}
