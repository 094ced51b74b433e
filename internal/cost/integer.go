package cost

import (
	"strings"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// Classes of what runs on integers of eight bits, be it an operator on them or a set whose operands are dequantised within. What such a set
// does to make floats of its operands and integers of its result is in its law: it adds no parts.
const (
	convInteger     = "conv-int"
	productInteger  = "product-int"
	sumInteger      = "add-int"      // of several operands, element by element
	functionInteger = "function-int" // of one: kernels look up what it is
)

// quantisedWeights is the operand of QLinearConv and QLinearMatMul that their weights are.
const quantisedWeights = 3

// onIntegers returns the class on integers of a convolution or product of a class on floats, w the dims of its weights.
func onIntegers(class string, w []float64) string {
	switch class {
	case "conv-odd":
		return convInteger + "-odd"
	case "conv-point":
		if !whole(w[0]) || !whole(w[1]) {
			return convInteger + "-odd"
		}
		return convInteger + "-point"
	case "conv-few", "conv-line-few", "conv-volume-few":
		return convInteger + "-few"
	case "conv-depthwise", "conv-depthwise-line":
		return convInteger + "-depthwise"
	case "conv-grouped", "conv-grouped-line", "conv-mixed":
		return convInteger + "-grouped"
	case "product-thin":
		return productInteger + "-thin"
	case "product", "product-batch":
		return productInteger
	}
	return convInteger
}

// isInteger reports whether a class is one of those on integers.
func isInteger(class string) bool {
	return class == sumInteger || class == functionInteger || strings.HasPrefix(class, convInteger) || strings.HasPrefix(class, productInteger)
}

// lawOf returns the law of a class and signature. Where a table has none for a class on integers that tells kernels apart, it is that
// of the class that does not, and where it has no integers that of floats: with instructions that multiply no integers they take as long.
func lawOf(e *backend.Efficiency, class, signature string) (l backend.Law, ok bool) {
	if isInteger(class) {
		for _, c := range instead(class) {
			if _, known := e.Laws[c]; known {
				class = c
				break
			}
		}
	}
	return e.For(class, signature)
}

// instead are a class on integers and those that stand for it, the nearest first.
func instead(class string) []string {
	switch {
	case strings.HasPrefix(class, productInteger):
		return []string{class, productInteger, "product" + strings.TrimPrefix(class, productInteger), "product"}
	case strings.HasPrefix(class, convInteger):
		return []string{class, convInteger, "conv" + strings.TrimPrefix(class, convInteger), "conv"}
	}
	return []string{class, "add"}
}

// integerSet returns the class on integers of a fused set of nodes whose head is one of a class on floats; ok is false where the set computes in
// floats. The operands of a convolution or product are dequantised within the set, and of other nodes all that are no constants, and the result
// becomes integers there.
func integerSet(set, head *graph.Node, nodes []Work, class string, sizes graph.Bindings) (integer string, ok bool) {
	switch {
	case strings.HasPrefix(class, "conv-transpose"), strings.HasSuffix(class, "-other"):
		return "", false
	case strings.HasPrefix(class, "conv"), strings.HasPrefix(class, "product"):
		if !isInteger(class) && dequantised(head.Input(0)) {
			return onIntegers(class, shapes(head, sizes).weights(head)), true
		}
		return "", false
	}
	for i := range nodes {
		if !elementwise(nodes[i].Class) {
			return "", false
		}
	}
	bytes := 0
	for _, v := range set.Regions[0].Graph.Inputs {
		if constant(v) {
			continue
		}
		if !isByte(v) {
			return "", false
		}
		bytes++
	}
	if bytes == 0 || len(set.Outputs) != 1 || !isByte(set.Outputs[0]) {
		return "", false
	}
	if bytes == 1 {
		return functionInteger, true
	}
	return sumInteger, true
}

// elementwise reports whether operators of a class compute each element of the result from those in its place, or move none.
func elementwise(class string) bool {
	switch class {
	case "view", "add", "broadcast", "hard", "exp", "tanh", "erf", "pow", "sin", "quantize":
		return true
	}
	return false
}

// dequantised reports whether a value is made by a DequantizeLinear from integers of eight bits, of which views may have been taken.
func dequantised(v *graph.Value) bool {
	for v != nil && v.Producer != nil {
		p := v.Producer
		if p.Is("DequantizeLinear") {
			return isByte(p.Input(0))
		}
		if operators[p.Op.Name] != "view" {
			return false
		}
		v = p.Input(0)
	}
	return false
}

// dequantisedConstant reports whether a value is made by a DequantizeLinear from a constant.
func dequantisedConstant(v *graph.Value) bool {
	p := v.Producer
	return p != nil && p.Is("DequantizeLinear") && p.Input(0) != nil && constant(p.Input(0))
}

// isByte reports whether a value has elements of eight bits.
func isByte(v *graph.Value) bool {
	return v != nil && (v.Type.DType == tensor.Uint8 || v.Type.DType == tensor.Int8)
}
