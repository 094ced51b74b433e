/*
 * C[rows, COLUMNS] = finish(A[rows, DEPTH] × B), by fused multiply-adds in REAL: f32, or f64 for operands of it.
 *
 * Tiles of BM rows and BN columns; slices of BK of both operands lie in local memory, STAGES of them, copied in the
 * background where the device can. A lies there by rows, B by rows too, so that an item reads four elements at once of either.
 * The lanes of 32 items that follow each other form 4 × 8; their bits are dealt so that neighbours read the same words of B,
 * and those two apart the same of A, which a 16-byte read of local memory needs to go at full speed.
 *
 * NARROW, where it is defined, is the type, f16 or bf16, that elements lie in in local memory: those of float32 are rounded to it.
 */
#ifdef NARROW
#define STAGE_T u16
#define ROUND PASTE(NARROW, _of_f32)
#define READ_STAGE(p) PASTE(READ_LOCAL_X4_, NARROW)(p)
#ifndef READ_LOCAL_X4_f16
#define READ_LOCAL_X4_f16(p) MAKE_F32X4(f32_of_f16((p)[0]), f32_of_f16((p)[1]), f32_of_f16((p)[2]), f32_of_f16((p)[3]))
#endif
#define READ_LOCAL_X4_bf16(p) MAKE_F32X4(f32_of_bf16((p)[0]), f32_of_bf16((p)[1]), f32_of_bf16((p)[2]), f32_of_bf16((p)[3]))
#define COPY_4_f32(to, from, take) { \
	f32x4 v = MAKE_F32X4(0.0f, 0.0f, 0.0f, 0.0f); \
	if (take) v = READ_F32X4(from); \
	(to)[0] = ROUND(v.x), (to)[1] = ROUND(v.y), (to)[2] = ROUND(v.z), (to)[3] = ROUND(v.w); \
}
#define COPY_4_HALF(to, from, take) { \
	u32x2 v; \
	v.x = 0, v.y = 0; \
	if (take) v = READ_U32X2(from); \
	(to)[0] = (u16)v.x, (to)[1] = (u16)(v.x >> 16), (to)[2] = (u16)v.y, (to)[3] = (u16)(v.y >> 16); \
}
#define COPY_4_f16(to, from, take) COPY_4_HALF(to, from, take)
#define COPY_4_bf16(to, from, take) COPY_4_HALF(to, from, take)
#define COPY_1_f32(to, from, take) *(to) = (take) ? ROUND(*(from)) : (u16)0
#define COPY_1_f16(to, from, take) *(to) = (take) ? *(from) : (u16)0
#define COPY_1_bf16(to, from, take) *(to) = (take) ? *(from) : (u16)0
#else
#define STAGE_T REAL
#define READ_STAGE(p) PASTE(READ_STAGE_, REAL)(p)
#define READ_STAGE_f32(p) READ_LOCAL_F32X4(p)
#define READ_STAGE_f64(p) MAKE_F64X4((p)[0], (p)[1], (p)[2], (p)[3])
#define COPY_1_f64(to, from, take) *(to) = (take) ? *(from) : 0.0
#define COPY_4_f32(to, from, take) copy_async_16(to, from, take)
#define COPY_1_f32(to, from, take) copy_async_4(to, from, take)
#define COPY_1_f16(to, from, take) *(to) = (take) ? f32_of_f16(*(from)) : 0.0f
#define COPY_1_bf16(to, from, take) *(to) = (take) ? f32_of_bf16(*(from)) : 0.0f
#endif
/* One chunk of an operand to local memory; from is evaluated only where take holds. */
#define COPY_A(to, from, take) PASTE(PASTE(COPY_, A_VECTOR), PASTE(_, A_T))(to, from, take)
#define COPY_B(to, from, take) PASTE(PASTE(COPY_, B_VECTOR), PASTE(_, B_T))(to, from, take)
#define REAL_X4 PASTE(REAL, x4)
#define FMA PASTE(fma_, REAL)
#define A_PITCH (BK + 4)
#define B_PITCH (BN + 4)
#define STAGE_ELEMENTS (BM * A_PITCH + BK * B_PITCH)
#define A_CHUNKS (BK / A_VECTOR)
#define A_COPIES ((BM * A_CHUNKS + THREADS - 1) / THREADS)
#define A_WHOLE (BM * A_CHUNKS % THREADS == 0)
#if B_TRANSPOSED
#define B_CHUNKS BK
#define B_COUNT (BN * BK)
#else
#define B_CHUNKS (BN / B_VECTOR)
#define B_COUNT (BK * B_CHUNKS)
#endif
#define B_COPIES ((B_COUNT + THREADS - 1) / THREADS)
#define WARPS_N (BN / (8 * TN))

#define LOAD_STAGE(stage, slice) { \
	LOCAL STAGE_T *as = stages + (stage) * STAGE_ELEMENTS, *bs = as + BM * A_PITCH; \
	int left_k = (slice) * BK + left_chunk; \
	LEFT_COLUMN(left_k) \
	UNROLL for (int i = 0; i < A_COPIES; i++) { \
		int m = (item + i * THREADS) / A_CHUNKS; \
		if (A_WHOLE || m < BM) { \
			int take = LEFT_TAKE(i, left_k); \
			COPY_A(as + m * A_PITCH + left_chunk, take ? LEFT_SOURCE(i, left_k) : a, take); \
		} \
	} \
	UNROLL for (int i = 0; i < B_COPIES; i++) { \
		int at = item + i * THREADS; \
		if (B_COUNT % THREADS == 0 || at < B_COUNT) { \
			RIGHT_AT(at) \
			int gk = (slice) * BK + k, gn = column0 + n; \
			int take = gk < DEPTH && gn < COLUMNS; \
			COPY_B(bs + k * B_PITCH + n, take ? RIGHT_SOURCE(gk, gn) : b, take); \
		} \
	} \
}
#if B_TRANSPOSED
#define RIGHT_AT(at) int n = (at) / BK, k = (at) - n * BK;
#define RIGHT_SOURCE(k, n) (b + batch_b + (i64)(n) * LDB + (k))
#else
#define RIGHT_AT(at) int k = (at) / B_CHUNKS, n = ((at) - k * B_CHUNKS) * B_VECTOR;
#define RIGHT_SOURCE(k, n) (b + batch_b + (i64)(k) * LDB + (n))
#endif
#define PART_4(v, k) ((k) == 0 ? v.x : (k) == 1 ? v.y : (k) == 2 ? v.z : v.w)
