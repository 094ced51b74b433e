// Package mxnettest writes small files of Apache MXNet for specs: what MXNet 1.9 would write, byte for byte where order is free.
package mxnettest

import (
	"encoding/binary"
	"fmt"

	"github.com/carve-dev/carve/graph/tensor"
)

// flags are MXNet's numbers of the element types.
var flags = map[tensor.DType]uint32{tensor.Float32: 0, tensor.Float64: 1, tensor.Float16: 2, tensor.Uint8: 3, tensor.Int32: 4,
	tensor.Int8: 5, tensor.Int64: 6, tensor.Bool: 7}

// Params returns a file of parameters: a dictionary of dense arrays in the format V2. It panics for another element type.
func Params(arrays ...tensor.Named) []byte {
	out := binary.LittleEndian.AppendUint64(nil, 0x112)
	out = binary.LittleEndian.AppendUint64(out, 0)
	out = binary.LittleEndian.AppendUint64(out, uint64(len(arrays)))
	for _, a := range arrays {
		flag, ok := flags[a.Tensor.DType]
		if !ok {
			panic(fmt.Sprintf("mxnettest: %v", a.Tensor))
		}
		for _, v := range []uint32{0xF993FAC9, 0, uint32(len(a.Tensor.Shape))} {
			out = binary.LittleEndian.AppendUint32(out, v)
		}
		for _, d := range a.Tensor.Shape {
			out = binary.LittleEndian.AppendUint64(out, uint64(d))
		}
		for _, v := range []uint32{1, 0, flag} {
			out = binary.LittleEndian.AppendUint32(out, v)
		}
		out = append(out, a.Tensor.Bytes()...)
	}
	out = binary.LittleEndian.AppendUint64(out, uint64(len(arrays)))
	for _, a := range arrays {
		out = binary.LittleEndian.AppendUint64(out, uint64(len(a.Name)))
		out = append(out, a.Name...)
	}
	return out
}

// Perceptron is the symbol of two fully connected layers with a relu between them, and a softmax with a label: inputs data and
// softmax_label, parameters fc1_weight, fc1_bias and fc2_weight.
const Perceptron = `{
  "nodes": [
    {"op": "null", "name": "data", "inputs": []},
    {"op": "null", "name": "fc1_weight", "attrs": {"num_hidden": "4"}, "inputs": []},
    {"op": "null", "name": "fc1_bias", "attrs": {"num_hidden": "4"}, "inputs": []},
    {"op": "FullyConnected", "name": "fc1", "attrs": {"num_hidden": "4"}, "inputs": [[0, 0, 0], [1, 0, 0], [2, 0, 0]]},
    {"op": "Activation", "name": "relu1", "attrs": {"act_type": "relu"}, "inputs": [[3, 0, 0]]},
    {"op": "null", "name": "fc2_weight", "attrs": {"num_hidden": "3", "no_bias": "True"}, "inputs": []},
    {"op": "FullyConnected", "name": "fc2", "attrs": {"num_hidden": "3", "no_bias": "True"}, "inputs": [[4, 0, 0], [5, 0, 0]]},
    {"op": "null", "name": "softmax_label", "inputs": []},
    {"op": "SoftmaxOutput", "name": "softmax", "inputs": [[6, 0, 0], [7, 0, 0]]}
  ],
  "arg_nodes": [0, 1, 2, 5, 7],
  "node_row_ptr": [0, 1, 2, 3, 4, 5, 6, 7, 8, 9],
  "heads": [[8, 0, 0]],
  "attrs": {"mxnet_version": ["int", 10901]}
}`

// PerceptronParams are parameters of Perceptron: the data [1, 2] gives fc1 [1, 2, 3, -1], and fc2 [1, 2, 3].
func PerceptronParams() []byte {
	return Params(
		tensor.Named{Name: "arg:fc1_weight", Tensor: tensor.From([]float32{1, 0, 0, 1, 1, 1, -1, 0}, 4, 2)},
		tensor.Named{Name: "arg:fc1_bias", Tensor: tensor.From([]float32{0, 0, 0, 0}, 4)},
		tensor.Named{Name: "arg:fc2_weight", Tensor: tensor.From([]float32{1, 0, 0, 9, 0, 1, 0, 9, 0, 0, 1, 9}, 3, 4)},
	)
}
