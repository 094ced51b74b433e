package mxnet

import "strings"

// hiddenKeys are attributes that are not the operator's; MXNet before 1.0 wrote them without underscores.
var hiddenKeys = []string{"ctx_group", "lr_mult", "wd_mult", "force_mirroring", "mirror_stage", "profiler_scope"}

// upgrade brings a symbol that a version of MXNet wrote up to date, as MXNet does when it loads one, bodies included.
func upgrade(s *Symbol, version int) error {
	for i := range len(s.Nodes) { // more are added behind
		n := &s.Nodes[i]
		for _, b := range n.Subgraphs {
			b.Version, b.NumPy = s.Version, s.NumPy
			if err := upgrade(b, version); err != nil {
				return err
			}
		}
		hideKeys(s, n)
		if version < 905 && (n.Op == "argmax" || n.Op == "argmin") {
			if axis, _ := n.Attr("axis"); axis == "-1" {
				n.remove("axis") // it meant all elements
			}
		}
		if version < 900 {
			addInputs(s, i)
		}
	}
	return nil
}

// hideKeys gives attributes that are not the operator's the underscores of today. weight_lr_mult goes to the input weight.
func hideKeys(s *Symbol, n *Node) {
	for k := 0; k < len(n.Attrs); k++ {
		p := n.Attrs[k]
		for _, key := range hiddenKeys {
			if p.Key == key {
				n.Attrs[k].Key = "__" + key + "__"
				break
			}
			input, ok := strings.CutSuffix(p.Key, "_"+key)
			if !ok || n.IsVariable() {
				continue
			}
			for i, arg := range argumentsOf(n) {
				if arg == input && i < len(n.Inputs) && s.Nodes[n.Inputs[i].Node].IsVariable() {
					s.Nodes[n.Inputs[i].Node].set("__"+key+"__", p.Value)
					n.remove(p.Key)
					k--
					break
				}
			}
			break
		}
	}
}

// addInputs gives node i the variables that it lacks at the end: MXNet 0.8 did not write auxiliary states.
func addInputs(s *Symbol, i int) {
	n := &s.Nodes[i]
	args := argumentsOf(n)
	for k := len(n.Inputs); k < len(args); k++ {
		s.Nodes = append(s.Nodes, Node{Op: "null", Name: n.Name + "_" + args[k], Offset: -1})
		n = &s.Nodes[i] // append may have moved it
		n.Inputs = append(n.Inputs, Entry{len(s.Nodes) - 1, 0})
	}
}

// argumentsOf names the inputs of the operators that have parameters, nil for others.
func argumentsOf(n *Node) []string {
	truth := func(key string, def bool) bool {
		v, ok := n.Attr(key)
		if !ok {
			return def
		}
		return v == "True" || v == "true" || v == "1"
	}
	switch n.Op {
	case "BatchNorm", "BatchNorm_v1", "CuDNNBatchNorm", "_contrib_SyncBatchNorm":
		return []string{"data", "gamma", "beta", "moving_mean", "moving_var"}
	case "Convolution", "Convolution_v1", "FullyConnected":
		if truth("no_bias", false) {
			return []string{"data", "weight"}
		}
		return []string{"data", "weight", "bias"}
	case "Deconvolution":
		if truth("no_bias", true) {
			return []string{"data", "weight"}
		}
		return []string{"data", "weight", "bias"}
	case "InstanceNorm", "LayerNorm", "GroupNorm":
		return []string{"data", "gamma", "beta"}
	case "Embedding":
		return []string{"data", "weight"}
	case "LeakyReLU":
		if t, _ := n.Attr("act_type"); t == "prelu" {
			return []string{"data", "gamma"}
		}
	case "SoftmaxOutput", "Softmax", "LinearRegressionOutput", "LogisticRegressionOutput", "MAERegressionOutput", "SVMOutput":
		return []string{"data", "label"}
	}
	return nil
}
