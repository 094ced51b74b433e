// Package asm writes Go assembly. It is imported by generator programs (`//go:build ignore`, run by `go generate`) of the
// kernel packages and by the tests that check that the generated files are up to date; no kernel imports it.
//
// It knows what is tedious and easy to get wrong by hand (argument offsets and sizes as `go vet` checks them, unique
// labels, read-only tables, the Go declarations that go with the text) and leaves the rest as text: instructions are
// written in Go's own syntax with Func.I. Register allocators were rejected: micro-kernels need fixed register plans, and
// instructions that the assembler lacks are written as bytes.
//
// A generator looks like this:
//
//	func main() {
//		asm.Main("vec", asm.Table{Entries: []asm.Entry{{
//			Name: "scale", Doc: "multiplies n floats at x by s.", Params: "x *float32, n int, s float32",
//			Portable: "genericScale(x, n, s)",
//		}}}, asm.Unit{Base: "avx2", Arch: "amd64", Generate: func(f *asm.File) { generate(f, asm.AVX2()) }})
//	}
//
//	func generate(f *asm.File, v asm.ISA) {
//		fn := f.Func("scale256", "scale256 multiplies n floats at x by s.", asm.Ptr("x"), asm.Int("n"), asm.Float("s"))
//		fn.Load("x", "AX")
//		...
//		fn.Ret()
//		f.Serve("scale", v, "scale256(x, n, s)")
//	}
//
// # From a body to a call
//
// Generated: a body is a Go function of the generator that emits instructions, for one shape and one instruction set
// (ISA), which says how wide its vectors are, how many registers a plan of them may have, what they are called, and what it has
// beyond others (mask registers, say): a body asks for that, and never which set it is written for. Loops over shapes and sets make the kernels; a Unit of them is one file of code and one of declarations.
//
// Said again: where a body needs only what AVX2 and NEON both have, it is written in AVX2's instructions, and a Body says them in
// NEON's (packages vec, double and winograd). Products and convolutions, which live on a plan of all registers, and integers, whose
// instructions differ in kind, have bodies of their own; those for NEON name instructions as Arm does (Func.V).
//
// Named: a kernel is named after what it does, its set, and its shape, in that order: tile2_6x16 is the tile of 6 rows and
// 16 columns for AVX2, depth512 the depthwise body of 512 bits.
//
// Verified: the declarations carry constants that do not compile where the offsets of a structure's fields have moved; go vet
// checks each argument's offset; a spec of each package generates everything again and compares (Verify); and other specs
// run every kernel of every set that the machine has between guard pages, against portable code or the definition.
//
// Found: a generator that emits a kernel says in the same breath what answers for it: a case of a switch, its place in a
// table, the shape that a planner may ask for (File.Go, File.Serve). So an index cannot disagree with the code that it
// leads to, and a set is asked for nothing that was not written for it. What the planner of a package sees is a handful of
// functions (Entry), which take the set that was planned with: package isa says how a planner gets one.
//
// # What to change
//
// A tile: the list of shapes in the generator (shapes in package gemm, kernels512, kernels256 and kernelsNEON in package conv),
// then `go generate`. A function of rows or elements: a line in the list of its family in package vec, and its constant in op.go.
// A family: a Unit, an Entry, and its portable version. An instruction set: its line in package isa with the features that it
// needs, its ISA here, and the bodies for it; entries that it does not serve stay with portable code, and no planner
// changes.
//
// Misuse of this package (an unknown argument name, a label defined twice) panics: it is a programmer's error, met at
// generation time only.
package asm
