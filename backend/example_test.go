package backend_test

import (
	"fmt"

	"github.com/carve-dev/carve/backend"
	_ "github.com/carve-dev/carve/backend/reference"
	"github.com/carve-dev/carve/graph"
)

// A backend is opened by its registry name, and says which nodes it takes, in which formats.
func Example() {
	b, err := backend.Open(backend.Config{Name: "reference"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer b.Close()
	g, err := graph.Parse("graph {\n  opset 17\n  input %x: f32[2,3]\n  %a = Relu(%x)\n  %b = com.example.Mystery(%a)\n  output %b\n}")
	if err != nil {
		fmt.Println(err)
		return
	}
	for n := range g.Nodes() {
		s := b.Supports(n)
		if s.Reason != nil {
			fmt.Printf("%v: no, %v\n", n.Op, s.Reason.Code)
			continue
		}
		fmt.Printf("%v: %v to %v\n", n.Op, s.Signatures[0].Inputs[0].Format, s.Signatures[0].Outputs[0].Format)
	}
	_, err = backend.Open(backend.Config{Name: "abacus"})
	fmt.Println(err)
	// Output:
	// Relu: host:row-major to host:row-major
	// com.example.Mystery: no, unsupported
	// unknown backend: "abacus" (registered: [reference])
}
