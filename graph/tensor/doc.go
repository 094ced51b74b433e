// Package tensor is the one tensor struct that every part of carve shares: the non-owning tensor of the
// cross-framework discussion, today's DLPack. It also reads and writes the file formats of tensors: npy, npz and ONNX's
// TensorProto.
//
// A [Tensor] is a view: storage on one device, an offset into it, a dtype, a shape and strides. It owns nothing; what
// keeps the storage alive is its maker's concern. A [Value] is what a graph's edge can carry at run time: a Tensor, a
// Sequence, an Optional or a Map.
//
// # Where to start
//
// [From], [Scalar] and [New] make tensors, [Of] gives their elements as a Go slice, [Encode] and Tensor.Float64At convert
// them. [ReadNPYFile] and [WriteNPY], [ReadNPZFile] and [WriteNPZ], [ParseProto] and [AppendProto] are the file formats;
// [ParseValue] reads sequences, optionals and maps as well.
//
// The package imports the leaves internal/offheap and internal/wire of carve, nothing else.
package tensor
