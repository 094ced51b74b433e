package nvidia

import (
	"errors"
	"fmt"
	"sync"

	"github.com/carve-dev/carve/internal/gpukernel"
)

// Functions of cuBLASLt.
const (
	ltGetVersion = iota
	ltGetStatusName
	ltCreate
	ltDestroy
	ltDescCreate
	ltDescDestroy
	ltDescSet
	ltLayoutCreate
	ltLayoutDestroy
	ltLayoutSet
	ltPreferenceCreate
	ltPreferenceDestroy
	ltPreferenceSet
	ltHeuristic
	ltMatmul
)

var ltNames = []string{
	ltGetVersion: "cublasLtGetVersion", ltGetStatusName: "cublasLtGetStatusName", ltCreate: "cublasLtCreate", ltDestroy: "cublasLtDestroy",
	ltDescCreate: "cublasLtMatmulDescCreate", ltDescDestroy: "cublasLtMatmulDescDestroy", ltDescSet: "cublasLtMatmulDescSetAttribute",
	ltLayoutCreate: "cublasLtMatrixLayoutCreate", ltLayoutDestroy: "cublasLtMatrixLayoutDestroy", ltLayoutSet: "cublasLtMatrixLayoutSetAttribute",
	ltPreferenceCreate: "cublasLtMatmulPreferenceCreate", ltPreferenceDestroy: "cublasLtMatmulPreferenceDestroy",
	ltPreferenceSet: "cublasLtMatmulPreferenceSetAttribute", ltHeuristic: "cublasLtMatmulAlgoGetHeuristic", ltMatmul: "cublasLtMatmul",
}

// Numbers of the library's.
const (
	ltFloat32, ltFloat16, ltBFloat16 = 0, 2, 14

	ltExact, ltByF16, ltByBF16, ltByTF32 = 68, 74, 75, 77 // what multiplies, and adds in float32

	ltTransA, ltEpilogue, ltBiasPointer, ltBiasType = 3, 7, 8, 26 // attributes of a product

	ltNoEpilogue, ltRelu, ltBias, ltGelu = 1, 2, 4, 32

	ltBatchCount, ltBatchStride = 5, 6 // attributes of a matrix

	ltMaxWorkspace, ltAlignA = 1, 5 // attributes of a preference: those of B, C and D follow that of A

	ltNotSupported = 15
)

// BLAS is cuBLASLt.
type BLAS struct {
	l       *library
	Version int // 120901 for 12.9.1
}

// oldestBLAS is the first version that serves.
const oldestBLAS = 120000

// OpenBLAS opens cuBLASLt at a path, or where the system's loader finds one that a driver of a version, 12040 for CUDA 12.4, can serve.
// The error wraps package dl's, or says that the library is too old.
func OpenBLAS(path string, driver int) (*BLAS, error) {
	linux, windows := []string{"libcublasLt.so.12"}, []string{"cublasLt64_12.dll"}
	if driver >= 13000 {
		linux, windows = append([]string{"libcublasLt.so.13"}, linux...), append([]string{"cublasLt64_13.dll"}, windows...)
	}
	l, err := open(named(path, linux, windows), ltNames, ltGetStatusName)
	if err != nil {
		return nil, err
	}
	b := &BLAS{l: l, Version: int(l.word(ltGetVersion))}
	if b.Version < oldestBLAS {
		return nil, fmt.Errorf("%s is cuBLASLt %v, and one of 12.0 or later is needed", l.path, b)
	}
	return b, nil
}

// String returns the version.
func (b *BLAS) String() string {
	return fmt.Sprintf("%d.%d.%d", b.Version/10000, b.Version/100%100, b.Version%100)
}

// Path returns the path or name that the library was opened by.
func (b *BLAS) Path() string { return b.l.path }

// Products is the library's handle for one context. It is safe for concurrent use.
type Products struct {
	l      *library
	handle uintptr
}

// Products makes a handle for the context that is current. Close it.
func (b *BLAS) Products() (*Products, error) {
	h, err := b.l.create(ltCreate)
	if err != nil {
		return nil, err
	}
	return &Products{b.l, h}, nil
}

// Close gives the handle back. Nothing that was made with it may be used any more.
func (h *Products) Close() { _ = h.l.do(ltDestroy, h.handle) }

// Product is a product of known shape. It is safe for concurrent use. Close it.
type Product struct {
	Workspace int64 // bytes of device memory, aligned to 256, that Run needs
	Done      int   // steps of Finish that Run does, from the first on

	h                     *Products
	objects               objects
	desc, a, b, addend, c uintptr
	algorithm             struct {
		opaque    [8]uint64
		workspace uint64
		state     int32
		waves     float32
		reserved  [4]int32
	}
	alpha, beta    float32
	bias, residual int // steps of Finish, -1 for none

	mu sync.Mutex // the address of the bias is the descriptor's
}

// operandAlign is what addresses of operands are multiples of, in bytes.
const operandAlign = 16

// Product describes a product of row-major matrices, to which the library's are the transposed ones: Cᵀ = Bᵀ × Aᵀ. Operands of float32
// are rounded to the shape's Precision. workspace is the most bytes that it may take. The error wraps gpukernel.ErrUnsupported where the
// library does not do it.
func (h *Products) Product(s gpukernel.ProductShape, workspace int64) (*Product, error) {
	p := &Product{h: h, objects: objects{l: h.l}, alpha: 1, bias: -1, residual: -1}
	if err := p.describe(s, p.takes(s.Finish)); err != nil {
		p.Close()
		return nil, err
	}
	if err := p.choose(workspace); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// Close gives what describes the product back.
func (p *Product) Close() { p.objects.close() }

// takes finds what the library does of the steps behind a product: a factor, then a row and a matrix that are added, then an activation.
// GELU is the approximation by tanh there.
func (p *Product) takes(steps []gpukernel.Step) (epilogue uint64) {
	for i, s := range steps {
		switch {
		case s.Op == gpukernel.Scale && i == 0:
			p.alpha = s.Alpha
		case s.Op == gpukernel.AddColumn && s.Operand == gpukernel.F32 && p.bias < 0:
			p.bias = i
			epilogue |= ltBias
		case s.Op == gpukernel.AddMatrix && s.Operand == gpukernel.F32 && p.residual < 0:
			p.residual, p.beta = i, 1
		case s.Op == gpukernel.Relu:
			p.Done = i + 1
			return epilogue | ltRelu
		case s.Op == gpukernel.GeluTanh:
			p.Done = i + 1
			return epilogue | ltGelu
		default:
			p.Done = i
			return max(epilogue, ltNoEpilogue)
		}
	}
	p.Done = len(steps)
	return max(epilogue, ltNoEpilogue)
}

// describe makes the descriptors.
func (p *Product) describe(s gpukernel.ProductShape, epilogue uint64) error {
	b, err := batchOf(&s)
	if err != nil {
		return err
	}
	operands, ok := dataType(s.A.Type)
	result, also := dataType(s.C.Type)
	if !ok || !also || s.A.Type != s.B.Type || s.C.Type != s.A.Type && s.C.Type != gpukernel.F32 || p.bias+p.residual > -2 && s.C.Type != gpukernel.F32 {
		return fmt.Errorf("%w: cuBLASLt's product of %s and %s to %s", gpukernel.ErrUnsupported, s.A.Type, s.B.Type, s.C.Type)
	}
	compute := map[gpukernel.Precision]uintptr{gpukernel.Exact: ltExact, gpukernel.TF32: ltByTF32, gpukernel.RoundedF16: ltByF16, gpukernel.RoundedBF16: ltByBF16}[s.Precision]
	if s.A.Type != gpukernel.F32 {
		compute = ltExact
	}
	l := p.h.l
	if p.desc, err = p.objects.create(ltDescCreate, ltDescDestroy, compute, ltFloat32); err != nil {
		return err
	}
	right := [2]int{s.N, s.K}
	if s.TransposedB {
		right = [2]int{s.K, s.N}
		err = l.set(ltDescSet, p.desc, ltTransA, 1, 4)
	}
	err = errors.Join(err, l.set(ltDescSet, p.desc, ltEpilogue, epilogue, 4))
	if p.bias >= 0 {
		// An address that is aligned as the one of a run will be is what algorithms are chosen for.
		err = errors.Join(err, l.set(ltDescSet, p.desc, ltBiasType, ltFloat32, 4), l.set(ltDescSet, p.desc, ltBiasPointer, operandAlign, 8))
	}
	if err != nil {
		return err
	}
	residual := s.C
	if p.residual >= 0 && s.Residual != (gpukernel.Matrix{}) {
		residual = s.Residual
	}
	for _, m := range []struct {
		to            *uintptr
		kind          uintptr
		rows, columns int
		ld, stride    int
	}{
		{&p.a, operands, right[0], right[1], s.B.Stride, b.b},
		{&p.b, operands, s.K, s.M, s.A.Stride, b.a},
		{&p.addend, result, s.N, s.M, residual.Stride, b.residual},
		{&p.c, result, s.N, s.M, s.C.Stride, b.c},
	} {
		if *m.to, err = p.objects.create(ltLayoutCreate, ltLayoutDestroy, m.kind, uintptr(m.rows), uintptr(m.columns), uintptr(m.ld)); err != nil {
			return err
		}
		if b.count > 1 {
			if err = errors.Join(l.set(ltLayoutSet, *m.to, ltBatchCount, uint64(b.count), 4), l.set(ltLayoutSet, *m.to, ltBatchStride, uint64(m.stride), 8)); err != nil {
				return err
			}
		}
	}
	return nil
}

// choose asks for the library's first choice of an algorithm.
func (p *Product) choose(workspace int64) error {
	var own objects
	own.l = p.h.l
	defer own.close()
	preference, err := own.create(ltPreferenceCreate, ltPreferenceDestroy)
	if err != nil {
		return err
	}
	err = own.l.set(ltPreferenceSet, preference, ltMaxWorkspace, uint64(workspace), 8)
	for i := range 4 {
		err = errors.Join(err, own.l.set(ltPreferenceSet, preference, ltAlignA+i, operandAlign, 4))
	}
	if err != nil {
		return err
	}
	found := new(int32)
	err = own.l.do(ltHeuristic, p.h.handle, p.desc, p.a, p.b, p.addend, p.c, preference, 1, at(&p.algorithm), at(found))
	var e *Error
	if errors.As(err, &e) && e.Code == ltNotSupported || err == nil && (*found < 1 || p.algorithm.state != 0) {
		return fmt.Errorf("%w: cuBLASLt has no algorithm for it", gpukernel.ErrUnsupported)
	}
	p.Workspace = int64(p.algorithm.workspace)
	if err == nil && (p.Workspace < 0 || p.Workspace > workspace) {
		return fmt.Errorf("%w: cuBLASLt wants %d bytes beside the matrices", gpukernel.ErrUnsupported, p.Workspace)
	}
	return err
}

// Run queues the product on a stream. Addresses are those of a, b and c, and of the operands of Finish, by step.
func (p *Product) Run(stream, a, b, c uintptr, operands []uint64, workspace uintptr) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bias >= 0 {
		if err := p.h.l.set(ltDescSet, p.desc, ltBiasPointer, operands[p.bias], 8); err != nil {
			return err
		}
	}
	addend := c
	if p.residual >= 0 {
		addend = uintptr(operands[p.residual])
	}
	return p.h.l.do(ltMatmul, p.h.handle, p.desc, at(&p.alpha), b, p.a, a, p.b, at(&p.beta), addend, p.addend, c, p.c,
		at(&p.algorithm.opaque), workspace, uintptr(p.Workspace), stream)
}

// batch is how many matrices there are, and how far apart.
type batch struct{ count, a, b, c, residual int }

// batchOf makes one dim of a batch's two.
func batchOf(s *gpukernel.ProductShape) (batch, error) {
	outer, inner := max(s.Batch0, 1), max(s.Batch1, 1)
	residual := s.Residual
	if residual == (gpukernel.Matrix{}) {
		residual = s.C
	}
	list := [4]gpukernel.Matrix{s.A, s.B, s.C, residual}
	var strides [4]int
	for i, m := range list {
		strides[i] = m.Batch1
		if inner == 1 {
			strides[i] = m.Batch0
		} else if outer > 1 && m.Batch0 != inner*m.Batch1 {
			return batch{}, fmt.Errorf("%w: cuBLASLt's batch has one dim", gpukernel.ErrUnsupported)
		}
	}
	return batch{outer * inner, strides[0], strides[1], strides[2], strides[3]}, nil
}

func dataType(t gpukernel.Type) (uintptr, bool) {
	switch t {
	case gpukernel.F32:
		return ltFloat32, true
	case gpukernel.F16:
		return ltFloat16, true
	case gpukernel.BF16:
		return ltBFloat16, true
	}
	return 0, false
}
