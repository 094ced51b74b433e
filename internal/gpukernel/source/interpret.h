/* How instructions get at registers: words in local memory, an item's EACH elements beside each other, neighbours for neighbours. */
#define AT(k, v) r[((k) * EACH + (v)) * items]
#define GET_u32(k, v) AT(k, v)
#define GET_i32(k, v) ((i32)AT(k, v))
#define GET_f32(k, v) f32_of_bits(AT(k, v))
#define GET_u64(k, v) ((u64)AT(k, v) | (u64)AT((k) + 1, v) << 32)
#define GET_i64(k, v) ((i64)GET_u64(k, v))
#define SET_u32(k, v, x) AT(k, v) = (u32)(x)
#define SET_i32(k, v, x) AT(k, v) = (u32)(x)
#define SET_f32(k, v, x) AT(k, v) = bits_of_f32(x)
#define SET_u64(k, v, x) { const u64 both = (u64)(x); AT(k, v) = (u32)both; AT((k) + 1, v) = (u32)(both >> 32); }
#define SET_i64(k, v, x) SET_u64(k, v, x)

#define UNARY(op, from, to, E) \
	case OP_##op: { \
		UNROLL for (int v = 0; v < EACH; v++) { const from x = GET_##from(a, v); SET_##to(d, v, E); } \
		break; \
	}
#define BINARY(op, from, to, E) \
	case OP_##op: { \
		UNROLL for (int v = 0; v < EACH; v++) { const from x = GET_##from(a, v), y = GET_##from(b, v); SET_##to(d, v, E); } \
		break; \
	}
/* Functions whose text is long. */
#define LONG_UNARY(op) \
	case OP_##op: { \
		NO_UNROLL for (int v = 0; v < EACH; v++) { const f32 x = GET_f32(a, v); SET_f32(d, v, op(x)); } \
		break; \
	}
#define LONG_BINARY(op, T, E) \
	case OP_##op: { \
		NO_UNROLL for (int v = 0; v < EACH; v++) { const T x = GET_##T(a, v), y = GET_##T(b, v); SET_##T(d, v, E); } \
		break; \
	}
#define TERNARY(op) \
	case OP_##op: { \
		UNROLL for (int v = 0; v < EACH; v++) { const f32 x = GET_f32(a, v), y = GET_f32(b, v), z = GET_f32(c, v); SET_f32(d, v, op(x, y, z)); } \
		break; \
	}
#define BUFFER(p) \
	GLOBAL u8 *p; \
	switch (imm) { \
	case 0: p = p0; break; \
	case 1: p = p1; break; \
	case 2: p = p2; break; \
	case 3: p = p3; break; \
	case 4: p = p4; break; \
	case 5: p = p5; break; \
	case 6: p = p6; break; \
	case 7: p = p7; break; \
	case 8: p = p8; break; \
	case 9: p = p9; break; \
	case 10: p = p10; break; \
	case 11: p = p11; break; \
	case 12: p = p12; break; \
	case 13: p = p13; break; \
	case 14: p = p14; break; \
	default: p = p15; \
	}
/* Where the guard does not hold nothing is read. */
#define LOAD_OF(op, T, to, E) \
	case OP_load_##op: { \
		BUFFER(p) \
		UNROLL for (int v = 0; v < EACH; v++) { \
			const i32 at = GET_i32(a, v); \
			if (b == 255 || GET_i32(b, v)) { const T x = ((const GLOBAL T *)p)[at]; SET_##to(d, v, E); } \
			else SET_##to(d, v, 0); \
		} \
		break; \
	}
#define STORE_OF(op, T, from, E) \
	case OP_store_##op: { \
		BUFFER(p) \
		UNROLL for (int v = 0; v < EACH; v++) { \
			const from x = GET_##from(b, v); \
			if (live >> v & 1) ((GLOBAL T *)p)[GET_i32(a, v)] = (T)(E); \
		} \
		break; \
	}
