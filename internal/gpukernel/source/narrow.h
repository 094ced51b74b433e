/* Floats of at most a byte: the bits of the mantissa, the bias of the exponent, the sign bit, the largest finite magnitude, infinity and
   NaN, 0 where there is none, and whether zero has no sign. */
FUNCTION f32 f32_of_small(i32 b, i32 man, i32 bias, i32 sign, i32 most, i32 inf, i32 nan, i32 unsigned_zero) {
	i32 size = b & (sign - 1), e = size >> man;
	f32 v;
	if (unsigned_zero ? b == nan : nan != 0 && size > most && size != inf) return QUIET_NAN;
	if (inf != 0 && size == inf) v = -NEGATIVE_INFINITY;
	else if (e == 0) v = (f32)size * f32_of_bits((u32)(128 - bias - man) << 23);
	else v = f32_of_bits((u32)(e - bias + 127) << 23 | (u32)(size & ((1 << man) - 1)) << (23 - man));
	return (b & sign) != 0 ? -v : v;
}

/* The nearest, ties to even. What is too large becomes the largest where it saturates or there is nothing else, infinity, or NaN. */
FUNCTION i32 small_of_f32(f32 x, i32 man, i32 bias, i32 sign, i32 most, i32 inf, i32 nan, i32 unsigned_zero, i32 saturate) {
	u32 b = bits_of_f32(x), size = b & 0x7fffffffu;
	i32 negative = (b >> 31) != 0 ? sign : 0, least = 1 - bias, e, r;
	if (size > 0x7f800000u) return unsigned_zero ? nan : negative | nan;
	e = (i32)(size >> 23) - 127;
	if (e < least) e = least;
	r = most + 1;
	if (size < 0x7f800000u) r = ((e - least) << man) + (i32)rint_f32(f32_of_bits(size) * f32_of_bits((u32)(127 + man - e) << 23));
	if (r > most) {
		if (saturate || (inf | nan) == 0) return negative | most;
		if (inf != 0) return negative | inf;
		return unsigned_zero ? nan : negative | nan;
	}
	return unsigned_zero && r == 0 ? 0 : negative | r;
}

/* Powers of two by their exponent, without a sign; rounded up (0), down (1), or to the nearer one (2). */
FUNCTION f32 f32_of_power(i32 b) { return b == 255 ? QUIET_NAN : f32_of_bits(b == 0 ? 0x400000u : (u32)b << 23); }

FUNCTION i32 power_of_f32(f32 x, i32 mode, i32 saturate) {
	u32 size = bits_of_f32(x) & 0x7fffffffu, rest = size & 0x7fffffu;
	i32 e = (i32)(size >> 23);
	if (e == 255) return 255;
	if (e == 0) {
		if (rest < 0x400000u) return 0;
		rest = (rest - 0x400000u) << 1;
	}
	if (mode == 0 ? rest > 0 : mode == 2 && rest >= 0x400000u) e++;
	return e < 255 ? e : saturate ? 254 : 255;
}

/* Four elements that lie together, in 16 bytes or 8. */
#define LOAD4_f32(v, p) { f32x4 q = READ_F32X4(p); v[0] = q.x; v[1] = q.y; v[2] = q.z; v[3] = q.w; }
#define LOAD4_HALF(v, p, from) { u32x2 q = READ_U32X2(p); v[0] = from((u16)q.x); v[1] = from((u16)(q.x >> 16)); v[2] = from((u16)q.y); v[3] = from((u16)(q.y >> 16)); }
#define LOAD4_f16(v, p) LOAD4_HALF(v, p, f32_of_f16)
#define LOAD4_bf16(v, p) LOAD4_HALF(v, p, f32_of_bf16)
#define STORE4_f32(p, v) { WRITE_F32X4(p, MAKE_F32X4(v[0], v[1], v[2], v[3])); }
#define STORE4_HALF(p, v, to) { u32x2 q; q.x = (u32)to(v[0]) | (u32)to(v[1]) << 16; q.y = (u32)to(v[2]) | (u32)to(v[3]) << 16; WRITE_U32X2(p, q); }
#define STORE4_f16(p, v) STORE4_HALF(p, v, f16_of_f32)
#define STORE4_bf16(p, v) STORE4_HALF(p, v, bf16_of_f32)

/* What the interpreter runs: a parameter that a launch passes by value. */
typedef struct {
	u64 code[480];
} program_t;
