// Package carve compiles deep-learning models for several processors at once. It carves the graph of a model into
// subgraphs, each owned by one backend; puts explicit layout and device conversions on the edges between them; plans the
// memory of every subgraph and of the whole; and hands each subgraph to native kernels.
//
// A model is opened with Open, OpenFS or Parse, compiled with Compile, and run with Program.Run or, without allocations,
// Program.RunInto:
//
//	m, err := carve.Open(ctx, "model.onnx")
//	p, err := carve.Compile(ctx, m, nil)
//	out, err := p.Run(ctx, map[string]tensor.Value{"image": tensor.From(pixels, 1, 3, 224, 224)})
//
// Two backends are always linked, see Options.Backends. Others register themselves from init, like database/sql drivers, or
// are handed over in Options.Open. Options.Backends names them in order of priority: earlier wins.
//
// Program.Report tells how a model was carved: groups, conversions with their bytes, the memory plan of each device, and
// for each node the reasons why it is not on a backend that was asked for it.
//
// A Program is immutable and safe for concurrent use. It is generic in the symbols of its input shapes (a batch size, a
// sequence length): what concrete shapes need is made at their first run and kept. The same model and options give the same
// plan, and the same inputs the same outputs for every number of threads.
//
// A model file is untrusted: faults are typed errors that name file, node and value. What the file itself says wrong is found
// in every node. Data of a run are looked at where they are used: a node whose result nobody needs, or of which only the shape
// is asked and known, is removed, as ONNX Runtime does, and what would be wrong in it alone is no error. The package uses no cgo.
package carve
