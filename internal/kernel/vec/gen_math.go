//go:build ignore

package main

import (
	"fmt"
	"math"
)

// The functions below write the evaluation of one function on a vector: argument and result in x, the other registers
// scratch. Coefficients are weighted minimax fits (Lawson's iteration, 40 digits) rounded to float32; errors named are those
// of the fit, before rounding.

// horner writes p = c[0] + c[1]*x + …; the last coefficients come first.
func (c *ctx) horner(x, p string, coefs ...float64) {
	if c.neon() {
		c.neonHorner(x, p, coefs)
		return
	}
	c.set(c.k(coefs[len(coefs)-1]), p)
	for i := len(coefs) - 2; i >= 0; i-- {
		c.op("VFMADD213PS", c.k(coefs[i]), x, p)
	}
}

// clamp bounds x, keeping NaN: the bounds are first operands, so that NaN in x is what the instructions return.
func (c *ctx) clamp(x string, lo, hi float64) {
	c.op("VMAXPS", x, c.reg(lo), x)
	c.op("VMINPS", x, c.reg(hi), x)
}

func (c *ctx) round(mode int, x, y string) {
	c.I("%s $%d, %s, %s", c.isa.Round, mode, x, y)
}

// reduceExp splits x into n*ln 2 + r: n in n, r in x.
func (c *ctx) reduceExp(x, n string) {
	c.op("VMULPS", c.k(1.4426950408889634), x, n)
	c.round(8, n, n)
	c.op("VFNMADD231PS", c.k(0.693359375), n, x)
	c.op("VFNMADD231PS", c.k(-2.12194440054690583e-4), n, x)
}

// exp writes e^x. e^r = 1 + r + r²(c0 + …), relative error 3.1e-9 for |r| ≤ ln 2 / 2.
func (c *ctx) exp(x, n, p string) {
	c.clamp(x, -104, 89)
	c.reduceExp(x, n)
	c.expReduced(x, n, p)
}

// expNegative writes e^x for x ≤ 0 or NaN, with AVX-512 0 where that is below 2^-126: products of subnormal numbers, which weights of what is masked with -100
// are, take ten times as long there.
func (c *ctx) expNegative(x, n, p string) {
	if !c.isa.Exponents {
		c.op("VMAXPS", x, c.reg(-104), x)
		c.reduceExp(x, n)
		c.expReduced(x, n, p)
		return
	}
	c.expMasked(x, n, p)
}

// leastExp is the least x of which e^x is no less than 2^-126.
const leastExp = -87.33654

// expNormal writes e^x, on x86 0 where that is below 2^-126: numbers such as e^(-x²) that are as good as 0 would make whatever reads them slow.
func (c *ctx) expNormal(x string, r []string) {
	const notLess = 0x15
	switch {
	case c.isa.Exponents:
		c.op("VMINPS", x, c.reg(89), x)
		c.expMasked(x, r[0], r[1])
	case c.narrow():
		c.op("VCMPPS", fmt.Sprintf("$%d", notLess), c.reg(leastExp), x, r[2])
		c.clamp(x, leastExp, 89)
		c.reduceExp(x, r[0])
		c.expReduced(x, r[0], r[1])
		c.I("VANDPS %s, %s, %s", r[2], x, x)
	default:
		c.exp(x, r[0], r[1])
	}
}

// expMasked writes e^x with AVX-512 for x that it does not make infinite, 0 where that is below 2^-126.
func (c *ctx) expMasked(x, n, p string) {
	const notLess = 0x15
	mask := fmt.Sprintf("K%d", 2+c.first/softmaxSet) // others may be computed between these instructions
	c.op("VCMPPS", fmt.Sprintf("$%d", notLess), c.reg(leastExp), x, mask)
	c.reduceExp(x, n)
	c.expPolynomial(x, p)
	c.I("VSCALEFPS.Z %s, %s, %s, %s", n, p, mask, x)
}

// halfExp writes e^x / 2.
func (c *ctx) halfExp(x, n, p string) {
	c.clamp(x, -104, 90)
	c.reduceExp(x, n)
	c.op("VSUBPS", c.reg(1), n, n)
	c.expReduced(x, n, p)
}

// expPolynomial writes e^x for |x| up to ln 2 / 2.
func (c *ctx) expPolynomial(x, p string) {
	c.horner(x, p, 1, 1, 0.4999999403953552, 0.1666651964187622, 0.04166838899254799, 0.00836884044110775, 0.0013815108686685562)
}

// expReduced writes e^x · 2^n for |x| up to ln 2 / 2.
func (c *ctx) expReduced(x, n, p string) {
	c.expPolynomial(x, p)
	if c.isa.Exponents {
		c.I("VSCALEFPS %s, %s, %s", n, p, x)
		return
	}
	// Two factors, so that results below the normal range are rounded once and those above become infinite.
	c.I("VCVTPS2DQ %s, %s", n, n)
	c.I("VPSRAD $1, %s, %s", n, x)
	c.I("VPSUBD %s, %s, %s", x, n, n)
	for _, e := range []string{x, n} {
		c.op("VPADDD", c.bits(127), e, e)
		c.I("VPSLLD $23, %s, %s", e, e)
	}
	c.I("VMULPS %s, %s, %s", x, p, p)
	c.I("VMULPS %s, %s, %s", n, p, x)
}

// expWithin writes e^x, where what is below 2^-126 may be 0 and what is above 2^127 infinite. r are four registers of scratch.
func (c *ctx) expWithin(x string, r []string) {
	if !c.narrow() {
		c.exp(x, r[0], r[1])
		return
	}
	c.op("VMINPS", x, c.reg(89), x)
	c.expBelow(x, r[0], r[1], r[2], r[3])
}

// expBelow writes e^x for x ≤ 89 or NaN with AVX2, 0 below -87.7 and infinity above 88.4, in two thirds of the instructions of exp, of which fewer wait for each other: as many as the
// processor holds at a time are of more vectors. The lower bits of x·log₂e + 1.5·2²³ + 127 are the exponent of the one factor, 0 for 0, and the polynomial goes by
// r and by r².
func (c *ctx) expBelow(x, n, p, s, t string) {
	const bits = 3<<22 + 127
	c.op("VMAXPS", x, c.reg(-88), x)
	c.set(c.k(bits), n)
	c.op("VFMADD231PS", c.k(1.4426950408889634), x, n)
	c.op("VSUBPS", c.k(bits), n, p)
	c.op("VFNMADD231PS", c.k(0.693359375), p, x)
	c.op("VFNMADD231PS", c.k(-2.12194440054690583e-4), p, x)
	c.I("VPSLLD $23, %s, %s", n, n)
	c.I("VMULPS %s, %s, %s", x, x, s)
	c.set(c.k(0.04166838899254799), p)
	c.op("VFMADD231PS", c.k(0.00836884044110775), x, p)
	c.op("VFMADD231PS", c.k(0.0013815108686685562), s, p)
	c.set(c.k(0.4999999403953552), t)
	c.op("VFMADD231PS", c.k(0.1666651964187622), x, t)
	c.I("VFMADD231PS %s, %s, %s", p, s, t)
	c.op("VADDPS", c.reg(1), x, x)
	c.I("VFMADD231PS %s, %s, %s", t, s, x)
	c.I("VMULPS %s, %s, %s", n, x, x)
}

// onePlusExp writes 1 + e^-x with AVX2, where e^-x is that of expBelow, with the factor and the one in the polynomial's last terms: no instruction follows these, and
// none turns x around.
func (c *ctx) onePlusExp(x, n, p, s, t string) {
	const bits = 3<<22 + 127
	c.clamp(x, -89, 88)
	c.set(c.k(bits), n)
	c.op("VFNMADD231PS", c.k(1.4426950408889634), x, n)
	c.op("VSUBPS", c.k(bits), n, p)
	c.op("VFMADD231PS", c.k(0.693359375), p, x)
	c.op("VFMADD231PS", c.k(-2.12194440054690583e-4), p, x)
	c.I("VPSLLD $23, %s, %s", n, n)
	c.I("VMULPS %s, %s, %s", x, x, s)
	c.set(c.k(0.04166838899254799), p)
	c.op("VFNMADD231PS", c.k(0.00836884044110775), x, p)
	c.op("VFMADD231PS", c.k(0.0013815108686685562), s, p)
	c.set(c.k(0.4999999403953552), t)
	c.op("VFNMADD231PS", c.k(0.1666651964187622), x, t)
	c.I("VFMADD231PS %s, %s, %s", p, s, t)
	c.I("VSUBPS %s, %s, %s", x, c.reg(1), x)
	c.I("VFMADD213PS %s, %s, %s", c.reg(1), n, x)
	c.I("VMULPS %s, %s, %s", n, s, s)
	c.I("VFMADD231PS %s, %s, %s", t, s, x)
}

// expm1 writes e^x - 1 for x ≤ 0 (greater x count as 0). e^r - 1 = r + r²q(r), relative error 1.3e-8.
func (c *ctx) expm1(x, n, p, t string) {
	c.clamp(x, -80, 0)
	c.reduceExp(x, n)
	c.horner(x, p, 0.4999999701976776, 0.1666654348373413, 0.041667185723781586, 0.008366627618670464, 0.0013883823994547129)
	c.I("VMULPS %s, %s, %s", x, x, t)
	c.I("VFMADD213PS %s, %s, %s", x, t, p)
	c.I("VCVTPS2DQ %s, %s", n, n)
	c.op("VPADDD", c.bits(127), n, n)
	c.I("VPSLLD $23, %s, %s", n, n)
	c.op("VSUBPS", c.k(1), n, x)
	c.I("VFMADD231PS %s, %s, %s", p, n, x)
}

// sigmoid writes 1 / (1 + e^-x). r are four registers of scratch.
func (c *ctx) sigmoid(x string, r []string) {
	if c.narrow() {
		c.onePlusExp(x, r[0], r[1], r[2], r[3])
		c.I("VDIVPS %s, %s, %s", x, c.reg(1), x)
		return
	}
	c.op("VXORPS", c.bits(0x80000000), x, x)
	c.expWithin(x, r)
	c.op("VADDPS", c.k(1), x, x)
	c.I("VDIVPS %s, %s, %s", x, c.reg(1), x)
}

// gate is sigmoid where two registers are left.
func (c *ctx) gate(x, n, p string) {
	c.op("VXORPS", c.bits(0x80000000), x, x)
	c.exp(x, n, p)
	c.op("VADDPS", c.k(1), x, x)
	c.I("VDIVPS %s, %s, %s", x, c.reg(1), x)
}

// tanh writes x*P(x²)/Q(x²), relative error 2.1e-8 up to 9.02, where the result rounds to 1. All coefficients are positive:
// nothing cancels.
func (c *ctx) tanh(x, y, p, q string) {
	c.clamp(x, -9.02, 9.02)
	c.I("VMULPS %s, %s, %s", x, x, y)
	c.horner(y, p, 1, 0.1337965726852417, 0.003493959316983819, 2.0582152501447126e-05, 1.3317115410416136e-08)
	c.horner(y, q, 1, 0.46712973713874817, 0.0258707944303751, 0.0003282965626567602, 7.761240112813539e-07)
	c.I("VMULPS %s, %s, %s", x, p, x)
	c.I("VDIVPS %s, %s, %s", q, x, x)
	c.clamp(x, -1, 1)
}

// erf writes x*P(x²)/Q(x²), relative error 1.9e-8 up to 3.92, where the result rounds to 1.
func (c *ctx) erf(x, y, p, q string) {
	c.clamp(x, -3.92, 3.92)
	c.I("VMULPS %s, %s, %s", x, x, y)
	c.horner(y, p, 1.1283791065216064, 0.1904035061597824, 0.05274747684597969, 0.0037652188912034035, 0.0002848301373887807, 2.0495717762969434e-06)
	c.horner(y, q, 1, 0.5020734667778015, 0.11410710960626602, 0.014968499541282654, 0.0011623543687164783, 3.808354085776955e-05)
	c.I("VMULPS %s, %s, %s", x, p, x)
	c.I("VDIVPS %s, %s, %s", q, x, x)
	c.clamp(x, -1, 1)
}

// log writes ln x: x = m*2^e with m in [3/4, 3/2), ln(1+f) = f - f²/2 + f³P(f), relative error 4.9e-9.
func (c *ctx) log(x, e, p, y, t string) {
	if c.isa.Exponents {
		c.I("VGETMANTPS $0xb, %s, %s", x, p)
		c.I("VGETEXPPS %s, %s", x, e)
		c.I("VGETEXPPS %s, %s", p, t)
		c.I("VSUBPS %s, %s, %s", t, e, e)
		c.op("VSUBPS", c.k(1), p, x)
	} else {
		// Small numbers are scaled up first.
		c.I("VMOVUPS %s, %s", x, t)
		c.zero(e)
		c.op("VCMPPS", "$1", c.bits(0x00800000), x, y)
		c.op("VANDPS", c.k(-23), y, e)
		c.op("VMULPS", c.k(8388608), x, p)
		c.I("VBLENDVPS %s, %s, %s, %s", y, p, x, x)
		c.op("VPSUBD", c.bits(0x3f400000), x, p)
		c.I("VPSRAD $23, %s, %s", p, p)
		c.I("VPSLLD $23, %s, %s", p, y)
		c.I("VPSUBD %s, %s, %s", y, x, x)
		c.I("VCVTDQ2PS %s, %s", p, p)
		c.I("VADDPS %s, %s, %s", p, e, e)
		c.op("VSUBPS", c.k(1), x, x)
	}
	c.horner(x, p, 0.33333447575569153, -0.2500009536743164, 0.19990864396095276, -0.16647282242774963,
		0.1447831690311432, -0.13161449134349823, 0.10463933646678925, -0.045081689953804016)
	c.I("VMULPS %s, %s, %s", x, x, y)
	c.I("VMULPS %s, %s, %s", x, p, p)
	c.I("VMULPS %s, %s, %s", y, p, p)
	c.op("VFMADD231PS", c.k(1.42860677e-6), e, p)
	c.op("VFNMADD231PS", c.k(0.5), y, p)
	c.I("VADDPS %s, %s, %s", x, p, x)
	c.op("VFMADD231PS", c.k(0.693145752), e, x)
	if !c.isa.Exponents {
		// t still is the argument: infinity and NaN stay, 0 gives -Inf, what is below 0 gives NaN.
		c.op("VCMPPS", "$5", c.bits(0x7f800000), t, y)
		c.I("VBLENDVPS %s, %s, %s, %s", y, t, x, x)
		c.zero(p)
		c.I("VCMPPS $0, %s, %s, %s", p, t, y)
		c.set(c.bits(0xff800000), e)
		c.I("VBLENDVPS %s, %s, %s, %s", y, e, x, x)
		c.I("VCMPPS $1, %s, %s, %s", p, t, y)
		c.I("VORPS %s, %s, %s", y, x, x)
	}
}

// softplus writes max(x, 0) + ln(1+u), u = e^-|x|, with ln(1+u) = 2 artanh(s), s = u/(2+u); relative error 4.5e-9.
func (c *ctx) softplus(x, t, n, p string) {
	c.op("VORPS", c.bits(0x80000000), x, t)
	c.exp(t, n, p)
	c.op("VADDPS", c.k(2), t, n)
	c.I("VDIVPS %s, %s, %s", n, t, t)
	c.I("VMULPS %s, %s, %s", t, t, n)
	c.horner(n, p, 2, 0.6666641235351562, 0.40021583437919617, 0.28000879287719727, 0.28016769886016846)
	c.op("VMAXPS", x, c.reg(0), x)
	c.I("VFMADD231PS %s, %s, %s", p, t, x)
}

// geluErf writes x/2 * (1 + erf(x/√2)).
func (c *ctx) geluErf(x, t, y, p, q string) {
	c.op("VMULPS", c.k(0.7071067811865476), x, t)
	c.erf(t, y, p, q)
	c.op("VMULPS", c.k(0.5), x, x)
	c.I("VFMADD213PS %s, %s, %s", x, t, x)
}

// geluTanh writes x/2 * (1 + tanh(√(2/π)(x + 0.044715x³))) as x / (1 + e^-2u), which is the same and keeps its digits for
// negative x. r are four registers of scratch.
func (c *ctx) geluTanh(x, t string, r []string) {
	n, by := r[0], -2*0.7978845608028654 // of u
	if c.narrow() {
		by = -by
	}
	c.I("VMULPS %s, %s, %s", x, x, n)
	c.set(c.k(by*0.044715), t)
	c.op("VFMADD213PS", c.k(by), n, t)
	c.I("VMULPS %s, %s, %s", x, t, t)
	if c.narrow() {
		c.onePlusExp(t, r[0], r[1], r[2], r[3])
	} else {
		c.expWithin(t, r)
		c.op("VADDPS", c.k(1), t, t)
	}
	c.I("VDIVPS %s, %s, %s", t, x, x)
}

// sinh writes the hyperbolic sine: x + x³·P(x²), the first terms of its series, which leave out 1.6e-10 of it, up to 1, and (e^|x| - e^-|x|)/2 with the sign of x
// beyond. r are five registers of scratch.
func (c *ctx) sinh(x string, r []string) {
	a, n, p, y, t := r[0], r[1], r[2], r[3], r[4]
	c.op("VANDPS", c.bits(0x7fffffff), x, a)
	c.halfExp(a, n, p)
	c.set(c.k(0.25), n)
	c.I("VDIVPS %s, %s, %s", a, n, n)
	c.I("VSUBPS %s, %s, %s", n, a, a)
	c.op("VANDPS", c.bits(0x80000000), x, n)
	c.I("VORPS %s, %s, %s", n, a, a)
	c.I("VMULPS %s, %s, %s", x, x, y)
	c.horner(y, p, 1.0/6, 1.0/120, 1.0/5040, 1.0/362880, 1.0/39916800)
	c.I("VMULPS %s, %s, %s", y, p, p)
	c.I("VFMADD213PS %s, %s, %s", x, x, p)
	c.selectIf(cmpGT, y, c.reg(1), a, p, t)
	c.I("VMOVUPS %s, %s", p, x)
}

// sine writes sin(x + quarters·π/2) for |x| up to farthest: x = q·π/2 + r, where q·(π/2) is taken off in three parts, the first of which leaves nothing out. The sine or
// the cosine of r, with the signs of the quadrant, is r + r³·P(r²), relative error 5.9e-9 for |r| ≤ 0.83, or 1 - r²/2 + r⁴·Q(r²), 2.1e-10. r are four registers of
// scratch.
func (c *ctx) sine(quarters uint32, x string, r []string) {
	n, y, p, q := r[0], r[1], r[2], r[3]
	c.turned(quarters, x, r)
	c.I("VPSLLD $31, %s, %s", n, y)
	c.selectSign(y, q, p)
	c.I("VPSLLD $30, %s, %s", n, n)
	c.op("VANDPS", c.bits(0x80000000), n, n)
	c.I("VXORPS %s, %s, %s", n, p, x)
}

// tangent writes tan x for |x| up to farthest: the quotient of the sine and the cosine of r, and of -cos r and sin r in odd quadrants. r are four registers of scratch.
func (c *ctx) tangent(x string, r []string) {
	n, p, q := r[0], r[2], r[3]
	c.turned(0, x, r)
	c.I("VPSLLD $31, %s, %s", n, n)
	c.I("VMOVUPS %s, %s", p, x)
	c.selectSign(n, q, x)
	c.selectSign(n, p, q)
	c.I("VDIVPS %s, %s, %s", q, x, x)
	c.I("VXORPS %s, %s, %s", n, x, x)
}

// turned writes the sine of r and its cosine, as sine has them, to the third and the fourth register of scratch, and q and some quarters as integers to the first.
func (c *ctx) turned(quarters uint32, x string, r []string) {
	n, y, p, q := r[0], r[1], r[2], r[3]
	c.op("VMULPS", c.k(0.6366197723675814), x, n)
	c.round(8, n, n)
	for _, part := range []float64{1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15} {
		c.op("VFNMADD231PS", c.k(part), n, x)
	}
	c.I("VCVTPS2DQ %s, %s", n, n)
	if quarters > 0 {
		c.op("VPADDD", c.bits(quarters), n, n)
	}
	c.I("VMULPS %s, %s, %s", x, x, y)
	c.horner(y, p, -0.16666649281978607, 0.00833186972886324, -0.00019477272871881723)
	c.I("VMULPS %s, %s, %s", y, p, p)
	c.I("VFMADD213PS %s, %s, %s", x, x, p)
	c.horner(y, q, 1, -0.5, 0.04166663810610771, -0.0013886920642107725, 2.4389668396906927e-05)
}

// asin writes the arc sine, or the arc cosine: that of s = |x| up to a half is s + s³·P(s²), relative error 2.8e-10, and of greater ones π/2 less twice that of
// s = √((1-|x|)/2). r are five registers of scratch.
func (c *ctx) asin(x string, r []string, cosine bool) {
	a, z, s, p, t := r[0], r[1], r[2], r[3], r[4]
	c.op("VANDPS", c.bits(0x7fffffff), x, a)
	c.I("VMULPS %s, %s, %s", a, a, z)
	c.set(c.k(0.5), s)
	c.I("VMOVUPS %s, %s", s, p)
	c.I("VFNMADD231PS %s, %s, %s", a, p, s) // (1-|x|)/2
	c.selectIf(cmpGT, a, c.k(0.5), s, z, t)
	c.I("VSQRTPS %s, %s", z, p)
	c.I("VMOVUPS %s, %s", a, s)
	c.selectIf(cmpGT, a, c.k(0.5), p, s, t)
	c.horner(z, p, 0.16666659712791443, 0.07500503957271576, 0.04451695457100868, 0.03180772438645363, 0.014438587240874767, 0.03751647472381592)
	c.I("VMULPS %s, %s, %s", z, p, p)
	c.I("VFMADD213PS %s, %s, %s", s, s, p) // the arc sine of s
	if !cosine {
		c.set(c.k(math.Pi/2), z)
		c.op("VFNMADD231PS", c.k(2), p, z)
		c.selectIf(cmpGT, a, c.k(0.5), z, p, t)
		c.op("VANDPS", c.bits(0x80000000), x, x)
		c.I("VORPS %s, %s, %s", x, p, x)
		return
	}
	c.I("VADDPS %s, %s, %s", p, p, z) // of x above a half
	c.set(c.k(math.Pi), s)
	c.I("VSUBPS %s, %s, %s", z, s, s) // below minus a half
	c.selectSign(x, s, z)
	c.op("VANDPS", c.bits(0x80000000), x, x)
	c.I("VXORPS %s, %s, %s", x, p, p)
	c.set(c.k(math.Pi/2), s)
	c.I("VSUBPS %s, %s, %s", p, s, p) // between them
	c.selectIf(cmpGT, a, c.k(0.5), z, p, t)
	c.selectIf(cmpUnord, a, a, a, p, t)
	c.I("VMOVUPS %s, %s", p, x)
}

// atan writes the arc tangent: that of s = |x| up to 1 is s + s³·P(s²), relative error 2.6e-9, and of greater ones π/2 less that of s = 1/|x|. r are five registers of
// scratch.
func (c *ctx) atan(x string, r []string) {
	a, s, z, p, t := r[0], r[1], r[2], r[3], r[4]
	c.op("VANDPS", c.bits(0x7fffffff), x, a)
	c.I("VDIVPS %s, %s, %s", a, c.reg(1), t)
	c.I("VMOVUPS %s, %s", a, s)
	c.selectIf(cmpGT, a, c.reg(1), t, s, z)
	c.I("VMULPS %s, %s, %s", s, s, z)
	c.horner(z, p, -0.33333298563957214, 0.19998548924922943, -0.14264240860939026, 0.10952185094356537, -0.08403448760509491, 0.057957570999860764, -0.03117782436311245,
		0.010914593935012817, -0.0017936190124601126)
	c.I("VMULPS %s, %s, %s", z, p, p)
	c.I("VFMADD213PS %s, %s, %s", s, s, p)
	c.set(c.k(math.Pi/2), z)
	c.I("VSUBPS %s, %s, %s", p, z, z)
	c.selectIf(cmpGT, a, c.reg(1), z, p, t)
	c.op("VANDPS", c.bits(0x80000000), x, x)
	c.I("VORPS %s, %s, %s", x, p, x)
}
