package nvidia

import "github.com/carve-dev/carve/internal/gpukernel"

// Describe makes and destroys the descriptors of a product, which takes no device.
func (b *BLAS) Describe(s gpukernel.ProductShape) error {
	p := &Product{h: &Products{l: b.l}, objects: objects{l: b.l}, alpha: 1, bias: -1, residual: -1}
	defer p.Close()
	return p.describe(s, p.takes(s.Finish))
}

// Describe makes and destroys the descriptors of a convolution, which takes no device.
func (d *DNN) Describe(s gpukernel.ConvShape) error {
	c := &Convolution{h: &Convolutions{d: d}, objects: objects{l: d.l}, one: 1, column: -1, residual: -1}
	defer c.Close()
	c.takes(s.Finish)
	return c.describe(s)
}
