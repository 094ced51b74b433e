package amx

import (
	"math"
	"unsafe"
)

// genericRun is the portable version of the kernels, and their oracle.
func genericRun(kind Kind, tiles, panels int, c *call) {
	for _, p := range unsafe.Slice(c.pairs, c.count) {
		start := p.Start
		if c.from != unsafe.Offsetof(p.Start) {
			start = p.C
		}
		for t := range tiles {
			for row := range int(c.config.rows[2*t]) {
				for i := range c.steps * panels * Panel {
					at := c.column + 4*i
					from, to := (*uint32)(unsafe.Add(start[t], row*c.lds+at)), (*uint32)(unsafe.Add(p.C[t], row*c.ldc+at))
					*to = c.element(kind, *from, unsafe.Add(p.A[t], row*c.lda), unsafe.Add(c.b, i/Panel*c.ldb+i%Panel*4))
				}
			}
		}
	}
}

// element adds the products of a row and a column to a sum.
func (c *call) element(kind Kind, sum uint32, a, b unsafe.Pointer) uint32 {
	words := int(c.config.rows[6])
	for _, segment := range unsafe.Slice(c.segments, c.parts) {
		for block := range c.blocks {
			var even, odd float32
			for k := range words {
				x := *(*uint32)(unsafe.Add(a, segment+block*c.stepA+4*k))
				y := *(*uint32)(b)
				b = unsafe.Add(b, 4*Panel)
				if kind == BFloat16 {
					even = fused(x<<16, y<<16, even)
					odd = fused(x&0xffff0000, y&0xffff0000, odd)
					continue
				}
				for i := range 4 {
					sum += uint32(number(byte(x>>(8*i)), kind == SignedUnsigned) * number(byte(y>>(8*i)), kind == UnsignedSigned))
				}
			}
			if kind == BFloat16 {
				sum = bits(normal(float(sum)) + normal(even+odd))
			}
		}
		b = unsafe.Add(b, c.skip)
	}
	return sum
}

func number(x byte, signed bool) int32 {
	if signed {
		return int32(int8(x))
	}
	return int32(x)
}

// fused returns x·y + z, rounded once, with x and y the bits of float32 numbers that bfloat16 holds.
func fused(x, y uint32, z float32) float32 {
	product := float64(normal(float(x))) * float64(normal(float(y))) // exact
	return normal(rounded(product, float64(z)))
}

// rounded returns x + y, rounded to float32 once: float64 rounds to odd first.
func rounded(x, y float64) float32 {
	sum := x + y
	if math.IsInf(sum, 0) || math.IsNaN(sum) {
		return float32(sum)
	}
	big, small := x, y
	if math.Abs(x) < math.Abs(y) {
		big, small = y, x
	}
	if lost := small - (sum - big); lost != 0 && math.Float64bits(sum)&1 == 0 {
		if (lost > 0) == (sum > 0) {
			sum = math.Float64frombits(math.Float64bits(sum) + 1)
		} else {
			sum = math.Float64frombits(math.Float64bits(sum) - 1)
		}
	}
	return float32(sum)
}

// normal returns a number, 0 of its sign where it is subnormal.
func normal(x float32) float32 {
	const exponent = 0xff << 23
	if bits(x)&exponent == 0 {
		return float(bits(x) & (1 << 31))
	}
	return x
}

func bits(x float32) uint32  { return math.Float32bits(x) }
func float(x uint32) float32 { return math.Float32frombits(x) }
