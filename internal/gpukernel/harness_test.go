package gpukernel_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/gpukernel"
	"github.com/carve-dev/carve/internal/gpukernel/fibre"
)

// start compiles the plans' kernels for the host, or skips the spec where there is no compiler.
func start(ctx SpecContext, plans ...*gpukernel.Plan) *fibre.Program {
	GinkgoHelper()
	p, err := fibre.Start(ctx, GinkgoT().TempDir(), fibre.All, fibre.Kernels(plans...)...)
	if errors.Is(err, fibre.ErrNoCompiler) {
		Skip(err.Error())
	}
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(p.Close)
	return p
}

// random returns n values in [-1, 1) that the element type can hold.
func random(r *rand.Rand, t gpukernel.Type, n int) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = decode(t, encode(t, []float64{r.Float64()*2 - 1}))[0]
	}
	return v
}

func encode(t gpukernel.Type, v []float64) []byte {
	b := make([]byte, 0, len(v)*t.Size())
	for _, x := range v {
		switch t {
		case gpukernel.F16:
			b = binary.NativeEndian.AppendUint16(b, tensor.Float32ToFloat16(float32(x)))
		case gpukernel.BF16:
			b = binary.NativeEndian.AppendUint16(b, tensor.Float32ToBFloat16(float32(x)))
		case gpukernel.F64:
			b = binary.NativeEndian.AppendUint64(b, math.Float64bits(x))
		default:
			b = binary.NativeEndian.AppendUint32(b, math.Float32bits(float32(x)))
		}
	}
	return b
}

func decode(t gpukernel.Type, b []byte) []float64 {
	v := make([]float64, len(b)/t.Size())
	for i := range v {
		switch t {
		case gpukernel.F16:
			v[i] = float64(tensor.Float16ToFloat32(binary.NativeEndian.Uint16(b[2*i:])))
		case gpukernel.BF16:
			v[i] = float64(tensor.BFloat16ToFloat32(binary.NativeEndian.Uint16(b[2*i:])))
		case gpukernel.F64:
			v[i] = math.Float64frombits(binary.NativeEndian.Uint64(b[8*i:]))
		default:
			v[i] = float64(math.Float32frombits(binary.NativeEndian.Uint32(b[4*i:])))
		}
	}
	return v
}

// rounded returns values as a precision rounds operands: ties go away from zero in TF32, and to even numbers in the others.
func rounded(p gpukernel.Precision, v []float64) []float64 {
	switch p {
	case gpukernel.Exact:
	case gpukernel.RoundedF16:
		return decode(gpukernel.F16, encode(gpukernel.F16, v))
	case gpukernel.RoundedBF16:
		return decode(gpukernel.BF16, encode(gpukernel.BF16, v))
	case gpukernel.TF32:
		r := make([]float64, len(v))
		for i, x := range v {
			r[i] = float64(math.Float32frombits((math.Float32bits(float32(x)) + 1<<12) &^ (1<<13 - 1)))
		}
		return r
	}
	return v
}

// poison returns room for n elements, all NaN.
func poison(t gpukernel.Type, n int) []byte {
	b := make([]byte, n*t.Size())
	for i := range b {
		b[i] = 0xff
	}
	return b
}

// near compares within an absolute tolerance, and names the first element that is off. NaN is near to nothing.
func near(what string, got, want []float64, tolerance float64) {
	GinkgoHelper()
	Expect(got).To(HaveLen(len(want)), what)
	for i := range want {
		if !(math.Abs(got[i]-want[i]) <= tolerance*max(1, math.Abs(want[i]))) {
			Fail(fmt.Sprintf("%s: element %d is %g and not %g", what, i, got[i], want[i]))
		}
	}
}
