/* What a reduction does to two elements, and how the lanes of a row combine theirs: all get the same result. */
#define ADD_f32(a, b) ((a) + (b))
#define MULTIPLY_f32(a, b) ((a) * (b))
#define MAXIMUM_f32(a, b) max_f32(a, b)
#define MINIMUM_f32(a, b) min_f32(a, b)
#define ADD_integer(a, b) ((a) + (b))
#define MULTIPLY_integer(a, b) ((a) * (b))
#define MAXIMUM_integer(a, b) ((a) > (b) ? (a) : (b))
#define MINIMUM_integer(a, b) ((a) < (b) ? (a) : (b))

#define COMBINE_BY_TREE(T, v, OP) { \
	LOCAL T *all = (LOCAL T *)arena; \
	all[ITEM] = v; \
	BARRIER(); \
	for (int step = LANES / 2; step > 0; step /= 2) { \
		if (lane < step) all[ITEM] = OP(all[ITEM], all[ITEM + step]); \
		BARRIER(); \
	} \
	v = all[ITEM - lane]; \
	BARRIER(); \
}
#define COMBINE_i32(v, OP) COMBINE_BY_TREE(i32, v, OP)
#define COMBINE_u32(v, OP) COMBINE_BY_TREE(u32, v, OP)
#define COMBINE_i64(v, OP) COMBINE_BY_TREE(i64, v, OP)
#define COMBINE_u64(v, OP) COMBINE_BY_TREE(u64, v, OP)
#if SUBGROUP == 32
#define COMBINE_f32(v, OP) { \
	UNROLL for (int mask = 16; mask > 0; mask /= 2) { \
		f32 other = SHUFFLE_XOR(v, mask); \
		v = OP(v, other); \
	} \
	if (LANES > 32) { \
		LOCAL f32 *all = (LOCAL f32 *)arena; \
		if (ITEM % 32 == 0) all[ITEM / 32] = v; \
		BARRIER(); \
		const int from = (ITEM - lane) / 32; \
		v = all[from]; \
		UNROLL for (int other = 1; other < LANES / 32; other++) v = OP(v, all[from + other]); \
		BARRIER(); \
	} \
}
#else
#define COMBINE_f32(v, OP) COMBINE_BY_TREE(f32, v, OP)
#endif
