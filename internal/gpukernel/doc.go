// Package gpukernel writes kernels for graphics processors: matrix products, convolutions, attention, norms and softmax from
// templates, and one kernel for connected element-wise, broadcast, cast, reduction and data-movement operators from a renderer.
//
// All are written once, in a dialect of C that a few dozen macros make CUDA C++ (for NVRTC), OpenCL C 1.2, or plain C with one
// fibre a work item, which is what the specs run. A function such as Product takes shapes and returns a Plan: kernels with
// their launches, and the working memory between them. The package touches no device, knows none of their libraries, and gives
// the same text and the same choice of tiles for the same arguments, always: see Device.
//
// Kernels compute in float32 exactly (fused multiply-adds, no reassociation beyond that of tiles) unless another Precision is
// asked for. Pointers that a launch passes are aligned to 16 bytes, the arena's offsets usually to 256.
package gpukernel
