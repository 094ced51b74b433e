//go:build ignore

package main

import (
	"fmt"
	"strings"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

// when returns the kernel as one that comes before others on a condition.
func (k kernel) when(condition string) kernel {
	k.only = condition
	return k
}

// constant is the Go constant of a kind.
func (k kind) constant() string {
	return [...]string{"kindDense", "kindDepth", "kindMax", "kindSum", "kindLanes", "kindPairs", "kindFloat16"}[k]
}

// serve writes what plans know of the kernels of a set: numbers for them, the switch that calls one by its number, their
// tiles, and where in the table of a kernel the body for each set of pixels lies, in the order in which generate wrote them.
func serve(f *asm.File, isa asm.ISA, kernels []kernel) {
	bits := 8 * isa.Size()
	var first, others, run strings.Builder
	most := 0
	written := map[string]bool{}
	for i, k := range kernels {
		if k.kind == dense && !k.lower {
			most = max(most, k.blocks)
		}
		cases := &others
		if k.only != "" {
			cases = &first // the first of its set, or borrowed from another one
		}
		// A kernel with a condition has the places of another one, unless it has tiles of its own or they say where rows are.
		if name := k.placesName(); !written[name] && k.isa == isa && (k.only == "" || k.lower || len(k.rows()) > 0) {
			written[name] = true
			k.places(f)
		}
		cases.WriteString(k.choice(i))
		fmt.Fprintf(&run, "case firstAssembly + %d:\n%s(c)\n", i, k.name)
	}
	f.Go(fmt.Sprintf("// kernelOf%d returns the %v kernel of a kind for tiles of that many output channel blocks.\n"+
		"func kernelOf%d(k kind, blocks int, half, split, wide bool) tileKernel {\nswitch {\n%s%s}\npanic(\"conv: no such tile\")\n}\n",
		bits, isa.Set, bits, &first, &others))
	f.Go(fmt.Sprintf("// run%d calls the kernel of a number: a switch and no table, so that the call does not escape.\n"+
		"func run%d(id kernelID, c *tileCall) {\nswitch id {\n%s}\n}\n", bits, bits, &run))
	f.Serve("kernelOf", isa, fmt.Sprintf("return kernelOf%d(k, blocks, half, split, wide)", bits))
	f.Serve("mostBlocks", isa, fmt.Sprint("return ", most))
	f.Serve("runKernel", isa, fmt.Sprintf("run%d(id, c)", bits))
}

// choice is the case of kernelOf for a kernel with a number.
func (k *kernel) choice(number int) string {
	condition := "k == " + k.kind.constant()
	if k.dense() {
		condition += fmt.Sprint(" && blocks == ", k.blocks)
	}
	if k.only != "" {
		condition += " && " + k.only
	}
	return fmt.Sprintf("case %s:\nreturn tileKernel{firstAssembly + %d, geometry{pixels: %d, group: %d, blocks: %d}, %sBodies()[:], %s}\n",
		condition, number, k.pixels, k.group, k.blocks, k.name, k.placesName())
}

// placesName names the places of a kernel's bodies: those of kernels with the same tile are the same, but for rows.
func (k *kernel) placesName() string {
	if len(k.rows()) > 0 {
		return k.name + "Places"
	}
	return fmt.Sprintf("places%dx%d", k.pixels, k.group)
}

// places writes the places of a kernel's bodies.
func (k *kernel) places(f *asm.File) {
	var src strings.Builder
	fmt.Fprintf(&src, "// %s has the sets of pixels, of tiles of %d of which %d are group A, in the order of their bodies in a table.\n",
		k.placesName(), k.pixels, k.group)
	fmt.Fprintf(&src, "var %s = newPlaces([]pixelSet{", k.placesName())
	for i, set := range k.subsets() {
		if i%10 == 0 {
			src.WriteByte('\n')
		}
		fmt.Fprintf(&src, "{%d, %d, %v}, ", set[0].lo, set[0].hi, len(set) > 1)
	}
	src.WriteString("\n}, []rowBody{")
	for i, r := range k.rows() {
		if i%7 == 0 {
			src.WriteByte('\n')
		}
		fmt.Fprintf(&src, "{%d, %d, %d, %d, %d, %d}, ", r.kernel, r.stride, r.width, r.group, r.lo, r.hi)
	}
	src.WriteString("\n})\n")
	f.Go(src.String())
}
