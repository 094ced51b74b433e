package main

import (
	"fmt"
	"math"

	"github.com/carve-dev/carve/internal/gpukernel"
)

// productKind is a precision of products, and its name in the table.
type productKind struct {
	name      string
	operand   gpukernel.Type
	result    gpukernel.Type
	precision gpukernel.Precision
	tolerance float64 // of ‖c − reference‖ / ‖reference‖
}

func productKinds() []productKind {
	return []productKind{
		{"f32", gpukernel.F32, gpukernel.F32, gpukernel.Exact, 1e-5},
		{"tf32", gpukernel.F32, gpukernel.F32, gpukernel.TF32, 1e-3},
		{"f16", gpukernel.F16, gpukernel.F16, gpukernel.Exact, 1e-3},
		{"bf16", gpukernel.BF16, gpukernel.BF16, gpukernel.Exact, 8e-3},
	}
}

// productData is the operands of one product on the device, and of those that are checked on the host.
type productData struct {
	shape       gpukernel.ProductShape
	a, b, c     uintptr
	hostA       []byte
	hostB       []byte
	resultBytes int64
}

func (b *bench) productData(k productKind, m, n, depth int) (*productData, error) {
	p := &productData{shape: gpukernel.ProductShape{
		M: m, N: n, K: depth, Precision: k.precision,
		A: gpukernel.Matrix{Type: k.operand, Stride: depth},
		B: gpukernel.Matrix{Type: k.operand, Stride: n},
		C: gpukernel.Matrix{Type: k.result, Stride: n},
	}}
	var err error
	if p.a, p.hostA, err = b.fill(k.operand, m*depth); err != nil {
		return nil, err
	}
	if p.b, p.hostB, err = b.fill(k.operand, n*depth); err != nil {
		return nil, err
	}
	p.resultBytes = int64(m) * int64(n) * int64(k.result.Size())
	p.c, err = b.alloc(p.resultBytes)
	return p, err
}

func (b *bench) freeProduct(p *productData) {
	b.free(p.a)
	b.free(p.b)
	b.free(p.c)
}

// check compares rows and columns drawn at random with float64, after run has written the poisoned result.
func (p *productData) check(b *bench, k productKind, run func() error) error {
	if err := b.poison(p.c, p.resultBytes); err != nil {
		return err
	}
	if err := run(); err != nil {
		return err
	}
	c := make([]byte, p.resultBytes)
	if err := b.download(c, p.c); err != nil {
		return err
	}
	s := p.shape
	var off, norm float64
	for range 2000 {
		i, j := b.random.IntN(s.M), b.random.IntN(s.N)
		sum := 0.0
		for d := range s.K {
			sum += element(p.hostA, k.operand, i*s.K+d) * element(p.hostB, k.operand, d*s.N+j)
		}
		e := element(c, k.result, i*s.N+j) - sum
		off, norm = off+e*e, norm+sum*sum
	}
	if e := math.Sqrt(off / norm); !(e < k.tolerance) {
		return fmt.Errorf("result is off by %.2g", e)
	}
	for i := range s.M * s.N {
		if v := element(c, k.result, i); v != v {
			return fmt.Errorf("element %d is not written", i)
		}
	}
	return nil
}

// ours measures a plan of a product.
func (b *bench) ours(k productKind, p *productData, plan *gpukernel.Plan, check bool) (float64, error) {
	buffers := map[string]uintptr{"a": p.a, "b": p.b, "c": p.c}
	steps, err := b.steps(plan, buffers)
	if err != nil {
		return 0, err
	}
	for _, s := range plan.Scratch {
		defer b.free(buffers[s.Buffer])
	}
	work := func() error {
		for _, s := range steps {
			if err := b.launch(s); err != nil {
				return err
			}
		}
		return nil
	}
	if check {
		if err := p.check(b, k, work); err != nil {
			return 0, err
		}
	}
	return b.measure(work)
}

// products prints a table of products: our kernel, the library's where there is one, and the share of the ceilings.
func (b *bench) products(kinds []productKind, shapes [][3]int, tune int) {
	fmt.Printf("\n%-5s %-18s %10s %10s %9s  %s\n", "", "M×N×K", "TFLOP/s", "cuBLAS", "ratio", "tile")
	for _, k := range kinds {
		for _, s := range shapes {
			if err := b.product(k, s, tune); err != nil {
				fmt.Printf("%-5s %v: %v\n", k.name, s, err)
			}
		}
	}
}

func (b *bench) product(k productKind, size [3]int, tune int) error {
	p, err := b.productData(k, size[0], size[1], size[2])
	if err != nil {
		return err
	}
	defer b.freeProduct(p)
	work := 2 * float64(size[0]) * float64(size[1]) * float64(size[2]) / 1e12
	library := math.NaN()
	if b.blas != nil {
		t, err := b.measure(func() error { return b.blas.product(p.shape, p.a, p.b, p.c) })
		if err != nil {
			return err
		}
		library = work / t
	}
	tiles, err := gpukernel.Tiles(b.device, p.shape)
	if err != nil {
		return err
	}
	tiles = tiles[:min(len(tiles), tune)]
	plans := make([]*gpukernel.Plan, len(tiles))
	for i, t := range tiles {
		p.shape.Tile = t.Name()
		if plans[i], err = gpukernel.Product(fmt.Sprintf("product%d", i), b.device, p.shape); err != nil {
			return err
		}
	}
	if err := b.compile(plans); err != nil {
		return err
	}
	for i, t := range tiles {
		seconds, err := b.ours(k, p, plans[i], i == 0 || size[0] <= 1024)
		if err != nil {
			return fmt.Errorf("%v: %w", t, err)
		}
		mark := " "
		if i == 0 {
			mark = "*"
		}
		fmt.Printf("%-5s %-18s %10.2f %10.2f %9.2f %s %v\n", k.name, fmt.Sprintf("%dx%dx%d", size[0], size[1], size[2]), work/seconds,
			library, work/seconds/library, mark, t)
	}
	return nil
}
