package mkl

import (
	"fmt"
	"math"
	"runtime"
	"unsafe"

	"github.com/carve-dev/carve/internal/place"
)

// scaling are the factors and zero points of a primitive on integers. In version 2 they are parts of the primitive: its
// fast kernels take none at run time. In version 3 they are arguments of a run, so that operators that differ in nothing
// else share the primitive.
//
// Version 2 scales the result: (products + bias) · scale, before post operations. Version 3 scales the operands: products ·
// scale + bias. What the caller wants is products · scale + bias; biasOf gives what has to be passed.
type scaling struct {
	factors []float32
	result  int32 // dims of the result that version 2 has a factor for each index of, as bits
	of      int32 // the operand that version 3 scales: argWeights or argSrc
	operand int32 // dims of that operand that it has a factor for each index of, as bits
	src     int32 // zero point of the source, 0 for none
	dst     int32 // of the result, added after scaling
}

// scalingKey is what of a scaling the primitive depends on.
func (l *library) scalingKey(s scaling) string {
	if s.factors == nil && s.src == 0 && s.dst == 0 {
		return ""
	}
	if l.major == 2 {
		b := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s.factors))), len(s.factors)*4)
		return fmt.Sprintf(" %d %d %d %s", s.result, s.src, s.dst, b)
	}
	return fmt.Sprintf(" %d %d %t %t", s.of, s.operand, s.src != 0, s.dst != 0)
}

// setScaling sets the attributes of a scaling.
func (l *library) setScaling(attr uintptr, s scaling) error {
	if s.factors != nil {
		var err error
		if l.major == 2 {
			err = l.call("dnnl_primitive_attr_set_output_scales", attr, uintptr(len(s.factors)), uintptr(s.result), uintptr(unsafe.Pointer(unsafe.SliceData(s.factors))))
		} else {
			err = l.call("dnnl_primitive_attr_set_scales_mask", attr, uintptr(s.of), uintptr(s.operand))
		}
		if err != nil {
			return err
		}
	}
	for _, z := range []struct{ arg, value int32 }{{argSrc, s.src}, {argDst, s.dst}} {
		if z.value == 0 {
			continue
		}
		if err := l.setZero(attr, z.arg, z.value); err != nil {
			return err
		}
	}
	return nil
}

func (l *library) setZero(attr uintptr, arg, value int32) error {
	if l.major > 2 {
		return l.call("dnnl_primitive_attr_set_zero_points_mask", attr, uintptr(arg), 0)
	}
	x := numbers[int32](1)
	x[0] = value
	return l.call("dnnl_primitive_attr_set_zero_points", attr, uintptr(arg), 1, 0, uintptr(unsafe.Pointer(unsafe.SliceData(x))))
}

// scalingArgs are the arguments that bring a scaling to a run.
func (p *planner) scalingArgs(s scaling) ([]arg, error) {
	if p.l.major == 2 {
		return nil, nil
	}
	const scaleOf, zeroOf = 4096, 8192
	var args []arg
	if s.factors != nil {
		a, err := numberArg(p, scaleOf|s.of, s.factors)
		if err != nil {
			return nil, err
		}
		args = append(args, a)
	}
	for _, z := range []struct{ arg, value int32 }{{argSrc, s.src}, {argDst, s.dst}} {
		if z.value == 0 {
			continue
		}
		a, err := numberArg(p, zeroOf|z.arg, []int32{z.value})
		if err != nil {
			return nil, err
		}
		args = append(args, a)
	}
	return args, nil
}

// biasOf returns the bias to pass for one that is added to scaled products.
func (l *library) biasOf(bias, scale float64) float32 {
	if l.major == 2 {
		return float32(bias / scale)
	}
	return float32(bias)
}

// exactProducts reports whether the library multiplies integers of eight bits without loss on this processor. Where x86 has
// no VNNI, pairs of products of unsigned and signed bytes are added in 16 bits that saturate, and weights that meet signed
// bytes are halved. On others the library has plain kernels, which are exact, or dot products of 32 bits.
func (l *library) exactProducts() bool {
	const avx2VNNI, avx512VNNI = 0x8, 0x40
	return !l.saturates.Load() && (runtime.GOARCH != "amd64" || l.isaBits()&(avx2VNNI|avx512VNNI) != 0)
}

// safeWeight is the largest magnitude of weights for which two products with unsigned bytes fit into 16 bits.
const safeWeight = math.MaxInt16 / (2 * math.MaxUint8)

// padded is the multiple to which lists of numbers that kernels read in vectors are allocated.
const padded = 64

// numbers returns a list of n numbers, with room behind its end that kernels may read.
func numbers[T int32 | float32](n int) []T {
	return make([]T, n, (n+padded-1)/padded*padded+padded)
}

// data makes a slot of numbers that the planner computed.
func data[T int32 | float32](p *planner, list []T) place.Memory {
	return p.Own(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(list))), len(list)*4))
}

// numberArg is the argument of a list of numbers of one dim.
func numberArg[T int32 | float32](p *planner, id int32, list []T) (arg, error) {
	s := plain(len(list))
	if _, ok := any(list).([]int32); ok {
		s.dtype = dtypeS32
	}
	d, err := p.desc(s)
	return arg{id, data(p, list), d, false}, err
}
