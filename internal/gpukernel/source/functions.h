/* Minimum and maximum hand NaN on, as ONNX's do and the languages' do not. */
FUNCTION f32 min_f32(f32 a, f32 b) { return isnan_f32(a) || a < b ? a : b; }
FUNCTION f32 max_f32(f32 a, f32 b) { return isnan_f32(a) || a > b ? a : b; }

FUNCTION f32 relu_f32(f32 x) { return x < 0.0f ? 0.0f : x; }
FUNCTION f32 clip_f32(f32 x, f32 lo, f32 hi) { return min_f32(max_f32(x, lo), hi); }
FUNCTION f32 leaky_f32(f32 x, f32 slope) { return x < 0.0f ? x * slope : x; }
FUNCTION f32 sigmoid_f32(f32 x) { return 1.0f / (1.0f + exp_f32(-x)); }
FUNCTION f32 silu_f32(f32 x) { return x / (1.0f + exp_f32(-x)); }
FUNCTION f32 gelu_f32(f32 x) { return 0.5f * x * (1.0f + erf_f32(x * 0.70710678118654752f)); }
FUNCTION f32 gelu_tanh_f32(f32 x) {
	return 0.5f * x * (1.0f + tanh_f32(0.79788456080286536f * (x + 0.044715f * x * x * x)));
}
FUNCTION f32 hard_sigmoid_f32(f32 x, f32 alpha, f32 beta) { return clip_f32(fma_f32(alpha, x, beta), 0.0f, 1.0f); }
FUNCTION f32 hard_swish_f32(f32 x) { return x * hard_sigmoid_f32(x, 1.0f / 6.0f, 0.5f); }

/* The nearest integer towards zero, that of NaN being 0. */
FUNCTION i64 i64_of_f32(f32 x) {
	if (isnan_f32(x)) return 0;
	if (x >= 9223372036854775808.0f) return ~((i64)1 << 63);
	return x < -9223372036854775808.0f ? (i64)1 << 63 : (i64)x;
}

/* As i64_of_f32, and what only u64 has is that: negative numbers wrap. */
FUNCTION u64 u64_of_f32(f32 x) {
	if (x >= 18446744073709551616.0f) return ~(u64)0;
	return x >= 9223372036854775808.0f ? (u64)x : (u64)i64_of_f32(x);
}

