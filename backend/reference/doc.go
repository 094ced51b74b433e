// Package reference computes ONNX operators on host tensors, one node at a time, with plain kernels that follow the
// text of the operators: the oracle that every other backend is compared with, and the last fallback.
//
// Kernels prefer exactness and readability to speed. Floats of every width are computed in float64 and rounded once,
// integers wrap around, sums of products are accumulated in float64. [Evaluate] runs a node on values that it is given,
// [Run] writes to storage that the caller planned, and [Supports] tells whether there is a kernel.
//
// Inside the package, a kernel reports a fault by Call.fail, which unwinds to [Call.Run]; nothing unwinds further.
// Control flow (If, Loop, Scan, SequenceMap) is the host scheduler's and has no kernel here.
package reference
