package onnx

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// ValueKind returns the kind of the values of a type, tensors where it is unknown: files that hold a single value, such as
// those of ONNX's test data, do not say it themselves.
func ValueKind(t graph.Type) tensor.Kind {
	switch t.Kind {
	case graph.KindSequence:
		return tensor.KindSequence
	case graph.KindOptional:
		return tensor.KindOptional
	case graph.KindMap:
		return tensor.KindMap
	case graph.KindTensor, graph.KindUnknown:
	}
	return tensor.KindTensor
}
