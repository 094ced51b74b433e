package dlpack_test

import (
	"fmt"

	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/graph/tensor/dlpack"
)

// What is exported here, and imported again, would come from C code: nothing is copied on the way.
func Example() {
	x := tensor.From([]float32{1, 2, 3}, 3)
	forC, err := dlpack.Export(x, &dlpack.ExportOptions{Release: func() { fmt.Println("given back") }})
	if err != nil {
		fmt.Println(err)
		return
	}
	in, err := dlpack.Import(forC)
	if err != nil {
		fmt.Println(err)
		return
	}
	tensor.Of[float32](in.Tensor())[0] = 5
	fmt.Println(in.Tensor(), tensor.Of[float32](x))
	in.Close()
	// Output:
	// f32[3] [5 2 3]
	// given back
}
