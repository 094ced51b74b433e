package cpu

import (
	"encoding/binary"
	"math"
	"sync"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/kernel/cast"
	"github.com/carve-dev/carve/internal/kernel/reorder"
	"github.com/carve-dev/carve/internal/place"
)

// Casts to and from the floats of 8 bits with a sign, by tables. Of float32 the upper 16 bits are looked up, the last of which is set where one of
// the lower 16 is: these are seven digits, and a result has three at most, so that it is rounded as the whole number is, and what is no number
// stays so. Package tensor, which defines the rounding, makes the tables. Other types go by way of float32, which holds all numbers of 8 bits;
// integers that it rounds are larger than all of them.

// isFloat8 reports whether a type is one of them.
func isFloat8(dt tensor.DType) bool { return dt >= tensor.Float8E4M3FN && dt <= tensor.Float8E5M2FNUZ }

// float8Values returns the values of the bit patterns of a type.
func float8Values(dt tensor.DType) ([]float32, error) {
	all, err := tensor.New(dt, 1<<8)
	if err != nil {
		return nil, err
	}
	for i, b := 0, all.Bytes(); i < len(b); i++ {
		b[i] = byte(i)
	}
	t, err := tensor.Convert(all, tensor.Float32, nil)
	if err != nil {
		return nil, err
	}
	return tensor.Of[float32](t), nil
}

// float8Key names a table of bit patterns: a type, and what becomes of numbers that are too large for it.
type float8Key struct {
	to         tensor.DType
	noSaturate bool
}

// float8Patterns are the tables that were asked for, of 64 KiB each, by float8Key: eight at most.
var float8Patterns sync.Map

// patternsOf returns the bit patterns of a type for the upper halves of float32.
func patternsOf(k float8Key) (*[1 << 16]uint8, error) {
	if t, ok := float8Patterns.Load(k); ok {
		return t.(*[1 << 16]uint8), nil
	}
	upper, err := tensor.New(tensor.BFloat16, 1<<16)
	if err != nil {
		return nil, err
	}
	for i, b := 0, upper.Bytes(); i < 1<<16; i++ {
		binary.LittleEndian.PutUint16(b[2*i:], uint16(i))
	}
	all, err := tensor.Convert(upper, k.to, &tensor.ConvertOptions{NoSaturate: k.noSaturate})
	if err != nil {
		return nil, err
	}
	t := [1 << 16]uint8(all.Bytes())
	made, _ := float8Patterns.LoadOrStore(k, &t)
	return made.(*[1 << 16]uint8), nil
}

// toFloat8 writes the bit patterns of numbers.
func toFloat8(patterns *[1 << 16]uint8, dst []byte, src []float32) {
	dst = dst[:len(src)]
	for i, v := range src {
		dst[i] = patterns[upperHalf(math.Float32bits(v))]
	}
}

// upperHalf returns the upper half of a number's bits, with the last of it set where one of the lower half is.
func upperHalf(b uint32) uint16 { return uint16(b>>16 | (b&0xffff+0xffff)>>16) }

// castToFloat8 emits a cast of anything but float64, which float32 would round first.
func (p *planner) castToFloat8(n *graph.Node) error {
	x, y := n.Inputs[0], n.Outputs[0]
	patterns, err := patternsOf(float8Key{y.Type.DType, n.Int("saturate", 1) == 0})
	if err != nil {
		return err
	}
	floats, err := floatsOf(p, x.Type.DType)
	if err != nil {
		return err
	}
	src, dst, count, from := p.In(x), p.Out(y), product(p.Dims[y.ID]), x.Type.DType
	if from == tensor.Float32 {
		elements(p, src, dst, count, 1, func(d []uint8, s []float32) { toFloat8(patterns, d, s) })
		return nil
	}
	byFloats(p, src, from.Size(), dst, 1, count, func(d []byte, between []float32, s []byte) {
		floats(between, s)
		toFloat8(patterns, d, between)
	})
	return nil
}

// floatsOf returns what makes float32 of elements of a type.
func floatsOf(p *planner, from tensor.DType) (func(dst []float32, src []byte), error) {
	target := p.target
	switch {
	case isFloat8(from):
		values, err := float8Values(from)
		if err != nil {
			return nil, err
		}
		table := [1 << 8]float32(values)
		return func(dst []float32, src []byte) {
			for i, b := range src[:len(dst)] {
				dst[i] = table[b]
			}
		}, nil
	case isHalf(from):
		return func(dst []float32, src []byte) {
			reorder.FromHalf(target, dst, place.Elements[uint16](src), halves[from])
		}, nil
	}
	return func(dst []float32, src []byte) {
		cast.Elements(target.Set, asBytes(dst), cast.Float32, src, castKinds[from], len(dst))
	}, nil
}

// castFromFloat8 emits a cast to anything but another type of 8 bits.
func (p *planner) castFromFloat8(n *graph.Node) error {
	x, y, target := n.Inputs[0], n.Outputs[0], p.target
	floats, err := floatsOf(p, x.Type.DType)
	if err != nil {
		return err
	}
	src, dst, count, to := p.In(x), p.Out(y), product(p.Dims[y.ID]), y.Type.DType
	dest, size := castKinds[to], to.Size()
	switch {
	case to == tensor.Float32:
		elements(p, src, dst, count, 1, func(d []float32, s []uint8) { floats(d, s) })
	case to == tensor.Float64:
		byFloats(p, src, 1, dst, 8, count, func(d []byte, between []float32, s []byte) {
			floats(between, s)
			cast.Doubles(target.Set, place.Elements[float64](d), between)
		})
	case isHalf(to):
		byFloats(p, src, 1, dst, 2, count, func(d []byte, between []float32, s []byte) {
			floats(between, s)
			reorder.ToHalf(target, place.Elements[uint16](d), between, halves[to])
		})
	default:
		byFloats(p, src, 1, dst, size, count, func(d []byte, between []float32, s []byte) {
			floats(between, s)
			cast.Elements(target.Set, d, dest, asBytes(between), cast.Float32, len(between))
		})
	}
	return nil
}
