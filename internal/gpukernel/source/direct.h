/* Vectors of VECTOR floats, in the languages that processors have. */
#define VEC_T PASTE(f32v_, VECTOR)
#define VEC_READ(p) PASTE(READ_V_, VECTOR)(p)
#define VEC_KEEP(v, p) PASTE(KEEP_V_, VECTOR)(v, p)
#define VEC_SPLAT(x) PASTE(SPLAT_V_, VECTOR)(x)
#define VEC_FMA(a, b, c) FMA_V(a, b, c)
