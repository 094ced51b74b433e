// Package fakecuda builds, with the host's C compiler, libraries that stand in for NVIDIA's driver and for its run-time compiler,
// for specs of what is on the host's side of CUDA where there is no graphics processor. The C sources are this project's own.
//
// The compiler takes the text of gpukernel.CUDA and compiles all of it but the dialect's header, which is replaced by the one of
// gpukernel.Fibres, so that kernels run on the host with one fibre a work item. The driver
//   - checks the context that is current on the calling thread, kinds of handles, what is destroyed or freed twice, that all
//     memory lies in live blocks, guards around blocks and local memory, grids, groups, local memory, and counts of parameters;
//   - runs what is queued late, in an order that a seed chooses, as far as events and waits admit. Memory is poisoned until it is
//     written and when it is freed, pinned memory that a copy will write as soon as that is queued;
//   - captures streams into graphs, and refuses what may not be captured, empty copies among it;
//   - fails where it is told to: at the call of a number, at each so many calls, for want of memory, for good, within a kernel;
//   - counts calls, and what is live.
//
// It is stricter than the real one in these: the default stream is refused, streams are used with their own context current, the
// memory of a capture's copies is pinned, groups have one dimension. It knows no attributes of launches, no nodes of memory, no
// graphs within graphs, and no PTX: a text stands for what Driver.Know was told that it is.
package fakecuda
