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
// Who uses a plugin calls [Open] and [Library.Open]. Who writes one reads carve_plugin.h (carve plugin header prints it), whose
// comments are the contract, and examples/plugin/accelerator.c, a whole accelerator in one file.
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
// # Writing a plugin
//
// A library exports one function, carve_plugin_query, which returns a table of functions; what it leaves NULL the host does
// without. The host makes the calls in this order; an indented line uses what the line above it gave:
//
//	carve_plugin_query                       once a process, before anything else
//	processors                               names; each becomes a backend
//	open                                     a backend: a processor with options
//	│  operators, converters                 what there is, once
//	│  supports, claim                       which nodes of a model, in which formats; sets that belong together
//	│  negotiate                             other formats at the edges of finished groups
//	│  alloc, copy, convert                  constants are brought over
//	│  compile                               a group of nodes: an executable, for all sizes
//	│  │  specialize, requirements           an instance for concrete sizes: buffers, sub-steps
//	│  │  │  stream_open, session_open       a sequence of runs, whose arguments are always in one carve_run
//	│  │  │  │  copy, convert                inputs are brought over
//	│  │  │  │  enqueue → event              a run; event 0: it is over already
//	│  │  │  │  event_poll, _wait, _notify   until the run is over; then event_close
//	│  │  │  │  copy, convert                outputs are brought back
//	│  │  │  session_close, stream_close
//	│  │  instance_close
//	│  executable_close, free, release_all
//	close                                    when nothing of the backend is alive
//
// The least that runs is a processor with CARVE_PROCESSOR_HOST_MEMORY and twelve functions: processors, open, close, operators,
// supports, compile, executable_close, specialize, instance_close, session_open, enqueue and session_close
// (testdata/add.c). From there:
//
//   - A group is a graph, and may have any number of nodes that supports took. requirements asks for buffers for the values
//     between them. A library that runs one node at a time claims every node by itself, as CARVE_CLAIM_BOUNDING; with
//     CARVE_REFUSED from compile the whole group goes elsewhere.
//   - Any operand may be computed, weights and biases too, and any dim may be open: supports looks at all operands and results.
//   - Memory of its own needs alloc, free and copy, and formats with the processor's device in the signatures of supports. Row-major
//     tensors are then copied to it and from it; a layout of its own has converters both ways, and converted_size.
//   - Two operators that run as one are claimed (CARVE_CLAIM_ATOMIC). They come back as one node with the two in its body, of which
//     supports is asked like of others.
//   - Work that goes on after enqueue has an event. Without streams the host queues the calls by itself; with them
//     copies and runs of several groups are ordered by the library, and the host waits at the end alone.
//   - The graph that compile gets ends with the call, but for the content of constants: what runs need of nodes is copied.
//   - Layers that are equal but for their weights are compiled once where the processor has CARVE_PROCESSOR_REPEATS: weights are then
//     read in runs alone (testdata/add.c).
//   - Sizes of operands that a model computes are constants without content; carve_run.constants has them when a session is
//     opened.
//
// While it is written,
//
//	carve plugin check ./library.so
//
// says what is wrong: it runs the compliance suite, and prints how far each operator's results are from the reference
// kernels'; with --out-of-process a crash is one of its failures, and not its end. carve run MODEL --plugin ./library.so --backend NAME,cpu --check compares every group of a model, and names the
// node that is at fault. In C++, carve_plugin.hpp (carve plugin header --cpp) keeps exceptions inside.
//
// A library built from Go (go build -buildmode=c-shared) has a second Go runtime in the process. That works, also in programs
// without cgo, under one condition: each runtime interrupts its goroutines by SIGURG, and the one that is loaded later takes the
// handler without passing signals on, so that the first one's collector waits for ever for a goroutine in a long loop.
// The library has to call both handlers, as testdata/accelerator/table.c does in thirty lines.
//
// # Safety
//
// A library runs with the rights of the process: what it answers is checked, what it does is not. It is never unloaded. A
// program that imports this package is linked dynamically on Linux; where libraries cannot be opened, Open says so.
//
// # Out of process
//
// With the option out-of-process=true, of a processor or of all plugins (carve.Options.PluginOptions), or [OpenOutOfProcess], a
// plugin runs in a child process: this program once more, whose main therefore calls [HostMain] first, or one that the option
// host names. Linux on amd64 and arm64 can do that; elsewhere the error is [ErrOutOfProcess]. The library is then never opened in
// this process.
//
// A call, and the work that it queues, may take as long as the option timeout says (30s), a compilation, or a pass, compile-timeout
// (10m).
// When the child crashes, exits, hangs or answers what cannot be, it is killed, who waits gets a [*ProcessError], which wraps
// [ErrProcess] and one of [ErrCrashed], [ErrExited], [ErrHung], [ErrCorrupt] and [ErrLost], and the next child is started: after
// 10 ms, and twice as long each time up to 10 s while children end without having answered. What the plugin had made is made
// again in it when it is used: backends, compiled groups, sessions, streams, blocks of memory, constants with their content, of
// which a copy is kept on the host. Other content is lost, and reading it is ErrLost. A group that failed stays with its fallback
// until Program.Retry; a step between groups that failed, as a copy to the device, fails its run alone.
//
// Operators, properties and passes run there as well. Of these, an operator's infer and a pass that fail are errors of Compile. A
// property whose functions fail selects nothing for the graph at hand, and the report says why; one whose kernel fails falls back
// to the nodes that it stands for. An operator's kernel has nothing to fall back to but itself: the run is done again with the
// next process, once, and then is an error.
//
// Both processes share memory at one address. Arenas lie in it (backend.Sharing) unless Options.Allocator names another place;
// inputs, outputs and constants that lie elsewhere are copied. parallel_for runs on the child's threads. Package internal/isolate
// below this one documents the protocol, and what waiting costs.
//
// # Inside
//
// What C sees lies outside of Go's heap: abi.go has the structs, memory.go the pages in which they lie, describe.go writes
// graphs. Functions of a plugin are called by internal/dl; the plugin calls seven functions of the host (host.go).
package plugin
