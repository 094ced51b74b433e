//go:build ignore

package main

import "math"

// unaryOps are the element-wise functions by the name of their Op: argument and result are in x, the others are scratch, and
// constants are those that have to be in registers.
var unaryOps = []struct {
	name      string
	constants []float64
	emit      func(c *ctx, x, n, p, t string)
}{
	{"Exp", []float64{least, most}, func(c *ctx, x, n, p, t string) { c.exp(x, n, p, t) }},
	{"Sigmoid", []float64{least, most, 1}, func(c *ctx, x, n, p, t string) {
		c.op("VXORPD", c.bits(1<<63), x, x)
		c.exp(x, n, p, t)
		c.op("VADDPD", c.k(1), x, x)
		c.I("VDIVPD %s, %s, %s", x, c.reg(1), x)
	}},
	{"Tanh", []float64{40, 1}, func(c *ctx, x, n, p, t string) { c.tanh(x, n, p, t) }},
	{"Sqrt", nil, func(c *ctx, x, _, _, _ string) { c.I("VSQRTPD %s, %s", x, x) }},
	{"Abs", nil, func(c *ctx, x, _, _, _ string) { c.op("VANDPD", c.bits(1<<63-1), x, x) }},
	{"Log", nil, func(c *ctx, x, n, p, t string) { c.log(x, n, p, t) }},
	{"Sin", nil, func(c *ctx, x, n, p, t string) { c.sine(x, n, p, t, 0) }},
	{"Cos", nil, func(c *ctx, x, n, p, t string) { c.sine(x, n, p, t, 1) }},
	{"Neg", nil, func(c *ctx, x, _, _, _ string) { c.op("VXORPD", c.bits(1<<63), x, x) }},
	{"Round", nil, func(c *ctx, x, _, _, _ string) { c.round(8, x, x) }},
	{"Floor", nil, func(c *ctx, x, _, _, _ string) { c.round(9, x, x) }},
	{"Ceil", nil, func(c *ctx, x, _, _, _ string) { c.round(10, x, x) }},
}

// Bounds of the argument of exp, beyond which it is 0 and infinite.
const (
	least = -746
	most  = 710
)

// factorials returns 1/k! for k from one number on to 13, whose series is exact to 5e-18 for |x| ≤ ln 2 / 2.
func factorials(from int) []float64 {
	var list []float64
	f := 1.0
	for k := 0; k <= 13; k++ {
		if k > 0 {
			f *= float64(k)
		}
		if k >= from {
			list = append(list, 1/f)
		}
	}
	return list
}

// series writes p = c[0] + c[1]*x + …
func (c *ctx) series(x, p string, coefs []float64) {
	if c.neon() {
		c.neonSeries(x, p, coefs)
		return
	}
	c.I("VBROADCASTSD %s, %s", c.k(coefs[len(coefs)-1]), p)
	for i := len(coefs) - 2; i >= 0; i-- {
		c.op("VFMADD213PD", c.k(coefs[i]), x, p)
	}
}

// reduce splits x into n*ln 2 + r: n in n, r in x.
func (c *ctx) reduce(x, n string) {
	c.op("VMULPD", c.k(1.4426950408889634), x, n)
	c.round(8, n, n)
	c.op("VFNMADD231PD", c.k(6.93147180369123816490e-01), n, x)
	c.op("VFNMADD231PD", c.k(1.90821492927058770002e-10), n, x)
}

// round writes whole numbers: the nearest by mode 8, of two the even one, the next below by 9, the next above by 10.
func (c *ctx) round(mode int, x, to string) {
	round := "VROUNDPD"
	if c.isa.Masks {
		round = "VRNDSCALEPD"
	}
	c.I("%s $%d, %s, %s", round, mode, x, to)
}

// whole converts whole numbers to integers, of 32 bits in the lower half of the register; NEON's stay where they are.
func (c *ctx) whole(n string) {
	if c.neon() {
		c.neonWhole(n)
	} else {
		c.I("VCVTPD2DQY %s, %s", n, "X"+n[1:])
	}
}

// power writes 2^n of integers that whole made, as float64, into x.
func (c *ctx) power(n, x string) {
	if c.neon() {
		c.neonPower(n, x)
		return
	}
	c.I("VPMOVSXDQ %s, %s", "X"+n[1:], x)
	c.op("VPADDQ", c.bits(1023), x, x)
	c.I("VPSLLQ $52, %s, %s", x, x)
}

// exp writes e^x. The bounds keep NaN: x is the operand that the instructions return.
func (c *ctx) exp(x, n, p, t string) {
	c.I("VMAXPD %s, %s, %s", x, c.reg(least), x)
	c.I("VMINPD %s, %s, %s", x, c.reg(most), x)
	c.reduce(x, n)
	c.series(x, p, factorials(0))
	if c.isa.Exponents {
		c.I("VSCALEFPD %s, %s, %s", n, p, x)
		return
	}
	// Two factors, so that results below the normal range are rounded once and those above become infinite.
	c.whole(n)
	if c.neon() {
		c.neonHalve(n, t)
	} else {
		low := func(r string) string { return "X" + r[1:] }
		c.I("VPSRAD $1, %s, %s", low(n), low(t))
		c.I("VPSUBD %s, %s, %s", low(t), low(n), low(n))
	}
	c.power(t, x)
	c.I("VMULPD %s, %s, %s", x, p, p)
	c.power(n, x)
	c.I("VMULPD %s, %s, %s", x, p, x)
}

// tanh writes u / (u + 2) with the sign of x, where u = e^2|x| - 1 = 2^n (e^r - 1) + 2^n - 1.
func (c *ctx) tanh(x, n, p, t string) {
	sign, s := c.r(4), c.r(5)
	c.op("VANDPD", c.bits(1<<63), x, sign)
	c.op("VANDPD", c.bits(1<<63-1), x, x)
	c.I("VADDPD %s, %s, %s", x, x, x)
	c.I("VMINPD %s, %s, %s", x, c.reg(40), x)
	c.reduce(x, n)
	c.series(x, p, factorials(2))
	c.I("VMULPD %s, %s, %s", x, x, t)
	c.I("VFMADD213PD %s, %s, %s", x, t, p)
	if c.isa.Exponents {
		c.I("VSCALEFPD %s, %s, %s", n, c.reg(1), s)
	} else {
		c.whole(n)
		c.power(n, s)
	}
	c.I("VSUBPD %s, %s, %s", c.reg(1), s, t)
	c.I("VFMADD231PD %s, %s, %s", p, s, t)
	c.op("VADDPD", c.k(2), t, x)
	c.I("VDIVPD %s, %s, %s", x, t, x)
	c.I("VORPD %s, %s, %s", sign, x, x)
}

// halfRoot is √½, in bits.
const halfRoot = 0x3fe6a09e667f3bcd

// oddReciprocals are 1/3, 1/5, … of the series of artanh.
func oddReciprocals() []float64 {
	var list []float64
	for k := 3.0; k <= 21; k += 2 {
		list = append(list, 1/k)
	}
	return list
}

// log writes ln x = e·ln 2 + 2·artanh s, where x = 2^e·m, m is in [√½, √2), and s = (m-1) / (m+1).
func (c *ctx) log(x, n, p, t string) {
	c.split(x, n, p, t)
	c.op("VSUBPD", c.k(1), x, n)
	c.op("VADDPD", c.k(1), x, x)
	c.I("VDIVPD %s, %s, %s", x, n, n)
	c.I("VMULPD %s, %s, %s", n, n, x)
	c.series(x, t, oddReciprocals())
	c.I("VMULPD %s, %s, %s", x, t, t)
	c.I("VFMADD213PD %s, %s, %s", n, n, t)
	c.I("VADDPD %s, %s, %s", t, t, x)
	c.op("VFMADD231PD", c.k(math.Ln2), p, x)
}

// split leaves m in x and e in p, as numbers; n and t are scratch.
func (c *ctx) split(x, n, p, t string) {
	if c.neon() {
		c.neonSplit(x, n, p, t)
	} else {
		c.op("VPADDQ", c.bits(1023<<52-halfRoot), x, n)
		c.I("VPSRLQ $52, %s, %s", n, p)
		c.I("VPSLLQ $52, %s, %s", p, t)
		c.I("VPSUBQ %s, %s, %s", t, x, x)
		c.op("VPADDQ", c.bits(1023<<52), x, x)
	}
	c.op("VORPD", c.k(1<<52), p, p) // 2^52 and a number of 11 bits
	c.op("VSUBPD", c.k(1<<52+1023), p, p)
}

// halfPi is π/2, in three numbers.
var halfPi = [3]float64{1.5707963267948966, 6.123233995736766e-17, -1.4973849048591833e-33}

// everySecond returns the coefficients ±1/k! of the series of sine or cosine from k = first on, with signs by turns, the first of which is given.
func everySecond(first, last int, sign float64) []float64 {
	var list []float64
	f := 1.0
	for k := 1; k <= last; k++ {
		if f *= float64(k); k >= first && (k-first)%2 == 0 {
			list = append(list, sign/f)
			sign = -sign
		}
	}
	return list
}

// sine writes sin (|x| + quarter·π/2), with x's sign where quarter is 0: x less a multiple of π/2, which is exact but for one rounding, is in [-π/4, π/4], where one series
// has the sine, and another the cosine.
func (c *ctx) sine(x, n, p, t string, quarter int) {
	const magic = 3 << 51 // a sum with it is whole
	sign, cosine, w, e := c.r(4), c.r(5), c.r(6), c.r(7)
	if quarter == 0 {
		c.op("VANDPD", c.bits(1<<63), x, sign)
	}
	c.op("VANDPD", c.bits(1<<63-1), x, x)
	c.I("VBROADCASTSD %s, %s", c.k(magic), t)
	c.op("VFMADD231PD", c.k(2/math.Pi), x, t)
	c.op("VSUBPD", c.k(magic), t, n)
	for _, part := range halfPi {
		c.op("VFNMADD231PD", c.k(part), n, x)
	}
	if quarter != 0 {
		c.op("VADDPD", c.k(1), t, t)
	}
	c.I("VMULPD %s, %s, %s", x, x, n)
	c.series(n, p, everySecond(3, 17, -1))
	c.I("VMULPD %s, %s, %s", n, p, p)
	c.I("VFMADD213PD %s, %s, %s", x, x, p)
	c.series(n, cosine, everySecond(4, 16, 1))
	c.I("VBROADCASTSD %s, %s", c.k(1), w)
	c.op("VFNMADD231PD", c.k(0.5), n, w)
	c.I("VBROADCASTSD %s, %s", c.k(1), e) // what 1 - x²/2 lacks
	c.I("VSUBPD %s, %s, %s", w, e, e)
	c.op("VFNMADD231PD", c.k(0.5), n, e)
	c.I("VMULPD %s, %s, %s", n, n, n)
	c.I("VFMADD231PD %s, %s, %s", n, cosine, e)
	c.I("VADDPD %s, %s, %s", e, w, cosine)
	c.left(63, t, w)
	c.where(w, cosine, p)
	c.left(62, t, w)
	c.op("VANDPD", c.bits(1<<63), w, w)
	if quarter == 0 {
		c.I("VXORPD %s, %s, %s", sign, w, w)
	}
	c.I("VXORPD %s, %s, %s", w, p, x)
}

// left shifts integers of 64 bits.
func (c *ctx) left(by int, x, to string) {
	if c.neon() {
		c.VShift("shl.2d", c.Retarget.Number(to), c.Retarget.Number(x), by)
	} else {
		c.I("VPSLLQ $%d, %s, %s", by, x, to)
	}
}

// where copies the lanes of x to dst whose uppermost bits mask has, which is overwritten.
func (c *ctx) where(mask, x, dst string) {
	switch {
	case c.neon():
		r := c.Retarget
		c.VShift("sshr.2d", r.Number(mask), r.Number(mask), 63)
		c.Func.I("VBIT V%d.B16, V%d.B16, V%d.B16", r.Number(mask), r.Number(x), r.Number(dst))
	case c.isa.Masks:
		c.I("VPTESTMQ %[1]s, %[1]s, K2", mask)
		c.I("VMOVUPD %s, K2, %s", x, dst)
	default:
		c.I("VBLENDVPD %s, %s, %s, %s", mask, x, dst, dst)
	}
}
