package gpugroup

import "github.com/carve-dev/carve/backend"

// Ceilings are what a device does at most, by what its driver says of it, and what it takes to have it begin.
type Ceilings struct {
	Arithmetic float64 // operations on float32 in a nanosecond, of which a multiplication with an addition is two
	Products   float64 // the same of products and convolutions; 0 for Arithmetic
	Memory     float64 // bytes in a nanosecond, read and written
	Element    float64 // nanoseconds that an element takes where kernels are interpreted, 0 where they are compiled
	Kernel     float64 // nanoseconds from one kernel of a group to the next, however little they do
	Group      float64 // nanoseconds that the host takes to hand a group over
}

// Shares of the ceilings that kernels are taken to reach. Those of products are of large ones; see Tile for the rest. They are
// estimates for graphics processors, as nobody has measured them.
const (
	productShare   = 0.65
	windowShare    = 0.55 // of convolutions as products: windows are gathered
	oddShare       = 0.2  // of those with few channels in a group
	directShare    = 0.1  // of arithmetic in kernels that are about memory
	memoryShare    = 0.8
	scatteredShare = 0.3 // of memory, by kernels that read or write single elements in some order
	// fusedShare is the share of kernels that element-wise operators have of their own: most become part of another's.
	fusedShare = 0.25
)

// Efficiency returns laws for all classes of operators. One that no kernel is known of counts as one that moves single elements.
func (c Ceilings) Efficiency() *backend.Efficiency {
	if c.Products == 0 {
		c.Products = c.Arithmetic
	}
	e := &backend.Efficiency{Launch: c.Group, Laws: map[string]backend.Law{}}
	laws := func(l backend.Law, classes ...string) {
		l.Serial = 1 // the host's threads have no part in it
		for _, class := range classes {
			e.Laws[class] = l
		}
	}
	product := func(share float64) backend.Law {
		return backend.Law{Fixed: c.Kernel, Work: 1 / (share * c.Products), Bytes: 1 / (memoryShare * c.Memory)}
	}
	pass := func(kernels, share float64) backend.Law {
		return backend.Law{Fixed: kernels * c.Kernel, Work: 1 / (directShare * c.Arithmetic), Bytes: 1 / (share * c.Memory), Items: c.Element}
	}
	laws(product(productShare), "product", "product-batch", "product-other", "attention")
	// A row or a few of them leave most of a tile idle, and read the other operand once.
	laws(backend.Law{Fixed: 2 * c.Kernel, Bytes: 1 / (0.5 * c.Memory)}, "product-thin")
	laws(product(windowShare), "conv", "conv-point", "conv-odd", "conv-dilated", "conv-line", "conv-volume", "conv-transpose", "conv-other")
	laws(product(oddShare), "conv-few", "conv-line-few", "conv-volume-few", "conv-grouped", "conv-grouped-line", "conv-mixed", "conv-transpose-grouped", "product-int", "conv-int")
	laws(pass(1, memoryShare), "conv-depthwise", "conv-depthwise-line", "pool", "pool-mean", "mean", "softmax", "softmax-outer", "norm", "lrn", "reduce",
		"reduce-outer", "reduce-other", "argmax", "scan")
	laws(pass(fusedShare, memoryShare), "add", "add-other", "hard", "exp", "tanh", "erf", "pow", "pow-other", "sin", "compare", "cast", "cast-small", "broadcast", "scale",
		"quantize", "fill", "expand", "pad", "slice", "slice-joined", "concat", "concat-joined")
	laws(pass(1, 0.5), "transpose", "transpose-rows", "shuffle", "resize", "resize-linear")
	laws(pass(1, scatteredShare), "gather", "pick", "scatter", "sample", "order", "other")
	recurrent := product(oddShare)
	recurrent.Rows = 2 * c.Kernel // a step is a product and a cell
	laws(recurrent, "recurrent")
	laws(backend.Law{}, "view")
	return e
}

// multiplication is what a multiplication takes that one of so many processors does with its share of the device's arithmetic, in
// nanoseconds.
func (c Ceilings) multiplication(processors int) float64 {
	peak := max(c.Products, c.Arithmetic)
	if peak <= 0 {
		return 0
	}
	return 2 * float64(processors) / peak
}
