/* The dialect as OpenCL C, 1.2 and 3.0, without extensions but for double precision where a kernel asks for it. */
#define DIALECT_OPENCL 1
#define SUBGROUP 1
#define HAVE_ASYNC_COPY 0
#define HAVE_MMA 0
#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
typedef double f64;
#endif

typedef uchar u8;
typedef char i8;
typedef ushort u16;
typedef short i16;
typedef uint u32;
typedef int i32;
typedef ulong u64;
typedef long i64;
typedef float f32;
typedef ushort f16;
typedef ushort bf16;
typedef float4 f32x4;
typedef uint4 u32x4;
typedef uint2 u32x2;

#define KERNEL(threads) __kernel __attribute__((reqd_work_group_size(threads, 1, 1))) void
#define KERNEL_BLOCKS(threads, blocks) KERNEL(threads)
#define FUNCTION static inline
#define GLOBAL __global
#define LOCAL __local
#define RESTRICT restrict
#define ARENA(name) __local u8 name[ARENA_BYTES] __attribute__((aligned(128)))
#define ITEM ((int)get_local_id(0))
#define GROUP(d) ((int)get_group_id(d))
#define GROUPS_0 ((int)get_num_groups(0))
#define BARRIER() barrier(CLK_LOCAL_MEM_FENCE)
#define TABLE(type, name, n) __constant type name[n]
#define UNROLL _Pragma("unroll")
#define NO_UNROLL

#define MAKE_F32X4(a, b, c, d) ((f32x4)(a, b, c, d))
#define READ_F32X4(p) (*(const GLOBAL f32x4 *)(p))
#define WRITE_F32X4(p, v) (*(GLOBAL f32x4 *)(p) = (v))
#define READ_U32X2(p) (*(const GLOBAL u32x2 *)(p))
#define WRITE_U32X2(p, v) (*(GLOBAL u32x2 *)(p) = (v))
#define READ_LOCAL_F32X4(p) (*(const LOCAL f32x4 *)(p))
#define WRITE_LOCAL_F32X4(p, v) (*(LOCAL f32x4 *)(p) = (v))

#define exp_f32 exp
#define log_f32 log
#define log1p_f32 log1p
#define sqrt_f32 sqrt
#define tanh_f32 tanh
#define erf_f32 erf
#define sin_f32 sin
#define cos_f32 cos
#define tan_f32 tan
#define asin_f32 asin
#define acos_f32 acos
#define atan_f32 atan
#define sinh_f32 sinh
#define cosh_f32 cosh
#define asinh_f32 asinh
#define acosh_f32 acosh
#define atanh_f32 atanh
#define pow_f32 pow
#define floor_f32 floor
#define ceil_f32 ceil
#define rint_f32 rint
#define fabs_f32 fabs
#define fmod_f32 fmod
#define fma_f32 fma
#define isnan_f32(x) isnan(x)
#define bits_of_f32(x) as_uint(x)
#define f32_of_bits(x) as_float((u32)(x))

FUNCTION f32 f32_of_f16(f16 h) { return vload_half(0, (const half *)&h); }

#define READ_LOCAL_X4_f16(p) vload_half4(0, (const LOCAL half *)(p))

FUNCTION f16 f16_of_f32(f32 x) {
	f16 r;
	vstore_half_rte(x, 0, (half *)&r);
	return r;
}

FUNCTION void copy_async_16(LOCAL void *to, const GLOBAL void *from, int take) {
	u32x4 v = (u32x4)(0, 0, 0, 0);
	if (take) v = *(const GLOBAL u32x4 *)from;
	*(LOCAL u32x4 *)to = v;
}
FUNCTION void copy_async_4(LOCAL void *to, const GLOBAL void *from, int take) {
	*(LOCAL u32 *)to = take ? *(const GLOBAL u32 *)from : 0u;
}
#define COPY_COMMIT()
#define COPY_WAIT(pending)

#define f32v_4 float4
#define READ_V_4(p) vload4(0, p)
#define KEEP_V_4(v, p) vstore4(v, 0, p)
#define SPLAT_V_4(x) ((float4)(x))
#define f32v_8 float8
#define READ_V_8(p) vload8(0, p)
#define KEEP_V_8(v, p) vstore8(v, 0, p)
#define SPLAT_V_8(x) ((float8)(x))
#define f32v_16 float16
#define READ_V_16(p) vload16(0, p)
#define KEEP_V_16(v, p) vstore16(v, 0, p)
#define SPLAT_V_16(x) ((float16)(x))
#define FMA_V(a, b, c) fma(a, b, c)
