/* What kernels of double precision have beside the rest: the names of float32's functions, with another ending. */
#if DIALECT_FIBRE
typedef struct { f64 x, y, z, w; } f64x4;
#define MAKE_F64X4(a, b, c, d) ((f64x4){a, b, c, d})
#elif DIALECT_CUDA
typedef struct { f64 x, y, z, w; } f64x4;
FUNCTION f64x4 MAKE_F64X4(f64 a, f64 b, f64 c, f64 d) {
	f64x4 v;
	v.x = a, v.y = b, v.z = c, v.w = d;
	return v;
}
#else
typedef double4 f64x4;
#define MAKE_F64X4(a, b, c, d) ((f64x4)(a, b, c, d))
#endif

#define LOAD_f64(p, i) ((p)[i])
#define STORE_f64(p, i, v) ((p)[i] = (v))
#define LOAD4_f64(v, p) { v[0] = (p)[0]; v[1] = (p)[1]; v[2] = (p)[2]; v[3] = (p)[3]; }
#define STORE4_f64(p, v) { (p)[0] = v[0]; (p)[1] = v[1]; (p)[2] = v[2]; (p)[3] = v[3]; }

#define exp_f64(x) exp((f64)(x))
#define log_f64(x) log((f64)(x))
#define log1p_f64(x) log1p((f64)(x))
#define sqrt_f64(x) sqrt((f64)(x))
#define tanh_f64(x) tanh((f64)(x))
#define erf_f64(x) erf((f64)(x))
#define sin_f64(x) sin((f64)(x))
#define cos_f64(x) cos((f64)(x))
#define tan_f64(x) tan((f64)(x))
#define asin_f64(x) asin((f64)(x))
#define acos_f64(x) acos((f64)(x))
#define atan_f64(x) atan((f64)(x))
#define sinh_f64(x) sinh((f64)(x))
#define cosh_f64(x) cosh((f64)(x))
#define asinh_f64(x) asinh((f64)(x))
#define acosh_f64(x) acosh((f64)(x))
#define atanh_f64(x) atanh((f64)(x))
#define pow_f64(x, y) pow((f64)(x), (f64)(y))
#define floor_f64(x) floor((f64)(x))
#define ceil_f64(x) ceil((f64)(x))
#define rint_f64(x) rint((f64)(x))
#define fabs_f64(x) fabs((f64)(x))
#define fmod_f64(x, y) fmod((f64)(x), (f64)(y))
#define fma_f64(x, y, z) fma((f64)(x), (f64)(y), (f64)(z))
#define isnan_f64(x) ((x) != (x))

#define MAXIMUM_f64(a, b) max_f64(a, b)
#define MINIMUM_f64(a, b) min_f64(a, b)
#define ADD_f64(a, b) ((a) + (b))
#define MULTIPLY_f64(a, b) ((a) * (b))
#define COMBINE_f64(v, OP) COMBINE_BY_TREE(f64, v, OP)
