package cpu_test

import (
	"fmt"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/cpu"
	"github.com/carve-dev/carve/graph"
)

// The first convolution of a network reads an image as it is, and writes the blocked layout that the rest works in.
func Example() {
	b, err := cpu.Open(backend.Config{Name: "cpu"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer b.Close()
	g, err := graph.Parse(`graph {
  opset 17
  input %x: f32[1,3,224,224]
  const %w = f32[4,3,1,1]{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}
  %y: f32[1,4,112,112] = Conv(%x, %w; strides=[2, 2])
  output %y
}`)
	if err != nil {
		fmt.Println(err)
		return
	}
	for n := range g.Nodes() {
		s := b.Supports(n)
		if s.Reason != nil {
			fmt.Println(s.Reason)
			continue
		}
		sig := s.Signatures[0]
		fmt.Println(sig.Inputs[0].Format.Name(4), "to", sig.Outputs[0].Format.Name(4))
	}
	// Output:
	// host:NCHW to host:NCHW16c
}
