/* What all kernels share, once the dialect is there: half precision, and the functions that epilogues name. */
FUNCTION f32 f32_of_bf16(bf16 h) { return f32_of_bits((u32)h << 16); }

FUNCTION bf16 bf16_of_f32(f32 x) {
	u32 b = bits_of_f32(x);
	if ((b & 0x7fffffffu) > 0x7f800000u) return (bf16)((b >> 16) | 0x40u);
	return (bf16)((b + 0x7fffu + ((b >> 16) & 1u)) >> 16);
}

#define LOAD_f32(p, i) ((p)[i])
#define LOAD_f16(p, i) f32_of_f16((p)[i])
#define LOAD_bf16(p, i) f32_of_bf16((p)[i])
#define STORE_f32(p, i, v) ((p)[i] = (v))
#define STORE_f16(p, i, v) ((p)[i] = f16_of_f32(v))
#define STORE_bf16(p, i, v) ((p)[i] = bf16_of_f32(v))
#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)
#define LOAD(T, p, i) PASTE(LOAD_, T)(p, i)
#define STORE(T, p, i, v) PASTE(STORE_, T)(p, i, v)

#define NEGATIVE_INFINITY f32_of_bits(0xff800000u)
#define QUIET_NAN f32_of_bits(0x7fc00000u)

