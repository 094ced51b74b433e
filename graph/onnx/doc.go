// Package onnx reads and writes ONNX models: graph.Graph on one side, ONNX's protobuf messages on the other, read through
// protowire without generated code.
//
// # Where to start
//
// [Load] reads a file, [LoadFS] one of an fs.FS, [Parse] bytes; Model.Graph is the graph, and the rest of [Model] what the
// file says beside it. [Save] and [Write] are the other way. Whoever only runs models needs none of them: carve.Open and
// its like load, and carve.FromONNX takes a Model that was loaded with [Options].
//
// # What is read
//
// Every operator set of the default domain from 1 to the newest is read, ai.onnx.ml and other domains as well; operators
// without a schema are kept as nodes whose Schema is nil. Local functions are inlined. Nested graphs become regions, which
// are isolated: what they use of the graphs around them becomes an explicit capture, or a constant that shares its tensor.
//
// Weights are not copied. A model that is loaded from a path is mapped into memory together with its external data, and
// its constants refer to the mappings, which stay for as long as the Model is open or its Graph is reachable.
//
// A model file is untrusted. Sizes are checked against the file before they are used, depth is bounded, external data is
// found in regular files inside the model's folder only, and every fault is an *Error that names file, node and value.
//
// Not carried: documentation of single nodes and values, metadata of anything but the model, quantization annotations,
// training information and device configurations.
//
// The package imports graph, graph/tensor, and the internal packages files, offheap, pending and wire of carve, nothing else.
package onnx
