/*
 * C[rows, COLUMNS] = finish(A[rows, DEPTH] × B) by matrix instructions: operands of 16 bits, or of float32 (WIDE) that are
 * rounded to 19 bits (TF32) or by PAIR to 16, each time they are read from local memory; sums in float32. A warp computes
 * WM × WN of a tile.
 *
 * The pitches of both operands in local memory are odd multiples of 16 bytes, or such that what a warp reads at once lies in
 * different banks: no swizzle is needed.
 */
#define ELEMENT_BYTES (WIDE ? 4 : 2)
#define A_PITCH (BK + 16 / ELEMENT_BYTES)
#if B_TRANSPOSED
#define B_PITCH (BK + 16 / ELEMENT_BYTES)
#define B_ROWS BN
#define B_WIDTH BK
#else
#define B_PITCH (BN + 8)
#define B_ROWS BK
#define B_WIDTH BN
#endif
#define STAGE_ELEMENTS (BM * A_PITCH + B_ROWS * B_PITCH)
#define A_CHUNKS (BK / A_VECTOR)
#define A_COPIES (BM * A_CHUNKS / THREADS)
#define B_CHUNKS (B_WIDTH / B_VECTOR)
#define B_COPIES (B_ROWS * B_CHUNKS / THREADS)
#define WARPS_N (BN / WN)
#define FRAGMENTS_M (WM / 16)
#define FRAGMENTS_N (WN / 8)
#define STEP_K (TF32 ? 8 : 16)

#if A_VECTOR * (WIDE ? 4 : 2) == 16
#define COPY_A(to, from, take) copy_async_16(to, from, take)
#else
#define COPY_A(to, from, take) *(to) = (take) ? *(from) : (A_T)0
#endif
#if B_VECTOR * (WIDE ? 4 : 2) == 16
#define COPY_B(to, from, take) copy_async_16(to, from, take)
#else
#define COPY_B(to, from, take) *(to) = (take) ? *(from) : (A_T)0
#endif

#define LOAD_STAGE(stage, slice) { \
	A_T *as = stages + (stage) * STAGE_ELEMENTS, *bs = as + BM * A_PITCH; \
	int left_k = (slice) * BK + left_chunk; \
	LEFT_COLUMN(left_k) \
	UNROLL for (int i = 0; i < A_COPIES; i++) { \
		int m = (item + i * THREADS) / A_CHUNKS; \
		int take = LEFT_TAKE(i, left_k); \
		COPY_A(as + m * A_PITCH + left_chunk, take ? LEFT_SOURCE(i, left_k) : a, take); \
	} \
	UNROLL for (int i = 0; i < B_COPIES; i++) { \
		int at = item + i * THREADS; \
		int r = at / B_CHUNKS, e = (at - r * B_CHUNKS) * B_VECTOR; \
		RIGHT_AT(slice) \
		int take = gk < DEPTH && gn < COLUMNS; \
		COPY_B(bs + r * B_PITCH + e, take ? RIGHT_SOURCE(gk, gn) : b, take); \
	} \
}
#if B_TRANSPOSED
#define RIGHT_AT(slice) int gn = column0 + r, gk = (slice) * BK + e;
#define RIGHT_SOURCE(k, n) (b + batch_b + (i64)(n) * LDB + (k))
#else
#define RIGHT_AT(slice) int gk = (slice) * BK + r, gn = column0 + e;
#define RIGHT_SOURCE(k, n) (b + batch_b + (i64)(k) * LDB + (n))
#endif

/* The registers of one step over k: FRAGMENTS_M of the left operand, and FRAGMENTS_N of the right. */
#if TF32
#define LOAD_LEFT(r, i, k) { \
	load_matrix(r, as + ((i) * 16 + (lane & 15)) * A_PITCH + (k) + (lane >> 4) * 4); \
	UNROLL for (int e = 0; e < 4; e++) r[e] = tf32_of_f32(f32_of_bits(r[e])); \
}
#if B_TRANSPOSED
#define LOAD_RIGHT(r, j, k) { \
	load_matrix(r, bs + ((j) * 8 + (lane & 7) + (lane >> 4) * 8) * B_PITCH + (k) + (lane >> 3 & 1) * 4); \
	UNROLL for (int e = 0; e < 4; e++) r[e] = tf32_of_f32(f32_of_bits(r[e])); \
}
#else
#define LOAD_RIGHT(r, j, k) { \
	const A_T *p = bs + ((k) + (lane & 3)) * B_PITCH + (j) * 8 + (lane >> 2); \
	r[0] = tf32_of_f32(p[0]); \
	r[1] = tf32_of_f32(p[4 * B_PITCH]); \
	r[2] = tf32_of_f32(p[8]); \
	r[3] = tf32_of_f32(p[4 * B_PITCH + 8]); \
}
#endif
#elif WIDE
#define READ_PAIR(r, p) { u32x2 q = READ_U32X2(p); r = PAIR(f32_of_bits(q.x), f32_of_bits(q.y)); }
#define LOAD_LEFT(r, i, k) { \
	const A_T *p = as + ((i) * 16 + (lane >> 2)) * A_PITCH + (k) + (lane & 3) * 2; \
	READ_PAIR(r[0], p) \
	READ_PAIR(r[1], p + 8 * A_PITCH) \
	READ_PAIR(r[2], p + 8) \
	READ_PAIR(r[3], p + 8 * A_PITCH + 8) \
}
#if B_TRANSPOSED
#define LOAD_RIGHT(r, j, k) { \
	const A_T *p = bs + ((j) * 8 + (lane >> 2)) * B_PITCH + (k) + (lane & 3) * 2; \
	READ_PAIR(r[0], p) \
	READ_PAIR(r[1], p + 8) \
	READ_PAIR(r[2], p + 8 * B_PITCH) \
	READ_PAIR(r[3], p + 8 * B_PITCH + 8) \
}
#else
#define LOAD_RIGHT(r, j, k) { \
	const A_T *p = bs + ((k) + (lane & 3) * 2) * B_PITCH + (j) * 8 + (lane >> 2); \
	r[0] = PAIR(p[0], p[B_PITCH]); \
	r[1] = PAIR(p[8 * B_PITCH], p[9 * B_PITCH]); \
	r[2] = PAIR(p[8], p[B_PITCH + 8]); \
	r[3] = PAIR(p[8 * B_PITCH + 8], p[9 * B_PITCH + 8]); \
}
#endif
#else
#define LOAD_LEFT(r, i, k) load_matrix(r, as + ((i) * 16 + (lane & 15)) * A_PITCH + (k) + (lane >> 4) * 8);
#if B_TRANSPOSED
#define LOAD_RIGHT(r, j, k) load_matrix(r, bs + ((j) * 8 + (lane & 7) + (lane >> 4) * 8) * B_PITCH + (k) + (lane >> 3 & 1) * 8);
#else
#define LOAD_RIGHT(r, j, k) load_matrix_transposed(r, bs + ((k) + (lane & 15)) * B_PITCH + (j) * 8 + (lane >> 4) * 8);
#endif
#endif
