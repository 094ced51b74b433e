/* How a kernel whose shapes are arguments finishes an element: scaled, plus a bias, plus a residual, within bounds. */
#define FINISH(v, m, n) \
	v = v * f32_of_bits((u32)scale); \
	if (adds & 1) v += operand0[(n) + column_base]; \
	if (adds & 2) v += operand1[RESIDUAL(m, n)]; \
	v = clip_f32(v, f32_of_bits((u32)low), f32_of_bits((u32)high));
