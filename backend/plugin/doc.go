// Package plugin opens vendors' accelerator libraries at run time: shared libraries that bring processors, through one C
// interface without dependencies (carve_plugin.h, beside this file). Each processor becomes a backend.
//
//	l, err := plugin.Open("./tiny-npu.so")
//	…
//	b, err := l.Open("tiny-npu", nil)
//	…
//	p, err := carve.Compile(ctx, m, &carve.Options{
//		Backends: []backend.Config{{Name: "tiny-npu"}, {Name: "cpu"}},
//		Open:     map[string]backend.Backend{"tiny-npu": b},
//	})
//
// # Where to start
//
// Who uses a plugin calls [Open] and [Library.Open]. Who writes one reads carve_plugin.h, whose comments are the contract,
// and examples/plugin/accelerator.c, a whole accelerator in one file.
//
// # Operators, properties, passes
//
// A plugin may bring more than processors, and needs none for it. Whoever names it in carve.Options.Plugins has all of it:
//
//   - An operator of a domain of its own (carve_operator; examples/plugin/operator.c). The order of calls for a node: infer when
//     types are inferred, and again when a run's shapes are known; workspace when memory is planned; run in every run, on any
//     thread, within the group of the host backend that has its neighbours.
//   - A property for any backend (carve_property): select, select_input and select_output while a set grows, filter when it has
//     stopped, reset before the next; or claim, once for a graph. workspace and run where the sets become one node.
//   - A pass over the model's graph (carve_pass; examples/plugin/pass.c): run with the model as ONNX, then release.
//
// A library runs with the rights of the process: what it answers is checked, what it does is not. It is never unloaded. A
// program that imports this package is linked dynamically on Linux; where libraries cannot be opened, Open says so.
//
// What C sees lies outside of Go's heap: abi.go has the structs, memory.go the pages in which they lie, describe.go writes
// graphs. Functions of a plugin are called by internal/dl; the plugin calls seven functions of the host (host.go).
package plugin
