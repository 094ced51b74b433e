/*
 * A group holds TILE queries. Local memory has their rows, those of TILE keys and values, the products of both, and for each
 * query the greatest product so far, the sum of exponentials, and the factor by which what was summed before has to shrink.
 * Items form a square; each computes 4 × 4 products, and of the result 4 rows in columns of 4.
 */
#define SIDE (TILE / 4)
#define PER_ROW (TILE / 16)
#define DEPTH_PITCH (DEPTH4 + 4)
#define WIDTH_PITCH (WIDTH4 + 4)
#define PRODUCT_PITCH (TILE + 4)
#ifndef COLUMN_BLOCKS
#define COLUMN_BLOCKS ((WIDTH4 + TILE - 1) / TILE)
#endif

/* Copies TILE rows of EXTENT elements, and zeros behind the last one and behind each row. */
#define COPY_ROWS_4(to, PITCH, T, from, ROW, first, count, EXTENT) \
	for (int at = item; at < TILE * (EXTENT / 4); at += THREADS) { \
		const int r = at / (EXTENT / 4), e = at % (EXTENT / 4) * 4; \
		const int take = (first) + r < (count); \
		copy_async_16((to) + r * PITCH + e, take ? (from) + (i64)((first) + r) * ROW + e : (from), take); \
	}
#define COPY_ROWS_1(to, PITCH, T, from, ROW, first, count, EXTENT) \
	for (int at = item; at < TILE * ((EXTENT + 3) / 4 * 4); at += THREADS) { \
		const int r = at / ((EXTENT + 3) / 4 * 4), e = at % ((EXTENT + 3) / 4 * 4); \
		(to)[r * PITCH + e] = (first) + r < (count) && e < EXTENT ? LOAD(T, from, (i64)((first) + r) * ROW + e) : 0.0f; \
	}
#define COPY_ROWS(WHOLE, to, PITCH, T, from, ROW, first, count, EXTENT) \
	PASTE(COPY_ROWS_WHOLE_, WHOLE)(to, PITCH, T, from, ROW, first, count, EXTENT)
#define COPY_ROWS_WHOLE_1(to, PITCH, T, from, ROW, first, count, EXTENT) COPY_ROWS_4(to, PITCH, T, from, ROW, first, count, EXTENT)
#define COPY_ROWS_WHOLE_0(to, PITCH, T, from, ROW, first, count, EXTENT) COPY_ROWS_1(to, PITCH, T, from, ROW, first, count, EXTENT)
#define DOT_4(p, q, sum) fma_f32(p.w, q.w, fma_f32(p.z, q.z, fma_f32(p.y, q.y, fma_f32(p.x, q.x, sum))))
#define PART_4(v, k) ((k) == 0 ? v.x : (k) == 1 ? v.y : (k) == 2 ? v.z : v.w)
