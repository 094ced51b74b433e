/* The dialect as CUDA C++, for NVRTC: no header is included, since its package has none. */
#define DIALECT_CUDA 1
#define SUBGROUP 32
#if __CUDA_ARCH__ >= 800
#define HAVE_ASYNC_COPY 1
#define HAVE_MMA 1
#else
#define HAVE_ASYNC_COPY 0
#define HAVE_MMA 0
#endif

typedef unsigned char u8;
typedef signed char i8;
typedef unsigned short u16;
typedef short i16;
typedef unsigned int u32;
typedef int i32;
typedef unsigned long long u64;
typedef long long i64;
typedef float f32;
typedef double f64;
typedef unsigned short f16;
typedef unsigned short bf16;
typedef float4 f32x4;
typedef uint4 u32x4;
typedef uint2 u32x2;

#define KERNEL(threads) extern "C" __global__ void __launch_bounds__(threads)
#define KERNEL_BLOCKS(threads, blocks) extern "C" __global__ void __launch_bounds__(threads, blocks)
#define FUNCTION static __device__ __forceinline__
#define GLOBAL
#define LOCAL
#define RESTRICT __restrict__
#define ARENA(name) extern __shared__ __align__(128) u8 name[]
#define ITEM ((int)threadIdx.x)
#define GROUP(d) ((int)GROUP_##d)
#define GROUP_0 blockIdx.x
#define GROUP_1 blockIdx.y
#define GROUP_2 blockIdx.z
#define GROUPS_0 ((int)gridDim.x)
#define BARRIER() __syncthreads()
#define TABLE(type, name, n) static __device__ const type name[n]
#define UNROLL _Pragma("unroll")
#define NO_UNROLL _Pragma("unroll 1")

#define MAKE_F32X4(a, b, c, d) make_float4(a, b, c, d)
#define READ_F32X4(p) (*(const f32x4 *)(p))
#define WRITE_F32X4(p, v) (*(f32x4 *)(p) = (v))
#define READ_U32X2(p) (*(const u32x2 *)(p))
#define WRITE_U32X2(p, v) (*(u32x2 *)(p) = (v))
#define READ_LOCAL_F32X4(p) READ_F32X4(p)
#define WRITE_LOCAL_F32X4(p, v) WRITE_F32X4(p, v)

#define exp_f32 expf
#define log_f32 logf
#define log1p_f32 log1pf
#define sqrt_f32 sqrtf
#define tanh_f32 tanhf
#define erf_f32 erff
#define sin_f32 sinf
#define cos_f32 cosf
#define tan_f32 tanf
#define asin_f32 asinf
#define acos_f32 acosf
#define atan_f32 atanf
#define sinh_f32 sinhf
#define cosh_f32 coshf
#define asinh_f32 asinhf
#define acosh_f32 acoshf
#define atanh_f32 atanhf
#define pow_f32 powf
#define floor_f32 floorf
#define ceil_f32 ceilf
#define rint_f32 rintf
#define fabs_f32 fabsf
#define fmod_f32 fmodf
#define fma_f32 fmaf
#define isnan_f32(x) ((x) != (x))
#define bits_of_f32(x) ((u32)__float_as_int(x))
#define f32_of_bits(x) __int_as_float((int)(x))

FUNCTION f32 f32_of_f16(f16 h) {
	f32 r;
	asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(h));
	return r;
}

FUNCTION f16 f16_of_f32(f32 x) {
	f16 r;
	asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r) : "f"(x));
	return r;
}

#define SHUFFLE_XOR(v, mask) __shfl_xor_sync(0xffffffffu, v, mask)

FUNCTION u32 local_address(const void *p) { return (u32)__cvta_generic_to_shared(p); }

#if HAVE_ASYNC_COPY
/* Copies 16 or 4 bytes from global to local memory in the background; where take is 0, writes zeros and reads nothing. */
FUNCTION void copy_async_16(void *to, const void *from, int take) {
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(local_address(to)), "l"(from), "r"(take ? 16 : 0) : "memory");
}
FUNCTION void copy_async_4(void *to, const void *from, int take) {
	asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(local_address(to)), "l"(from), "r"(take ? 4 : 0) : "memory");
}
#define COPY_COMMIT() asm volatile("cp.async.commit_group;" ::: "memory")
#define COPY_WAIT(pending) asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory")
#else
FUNCTION void copy_async_16(void *to, const void *from, int take) {
	u32x4 v = make_uint4(0, 0, 0, 0);
	if (take) v = *(const u32x4 *)from;
	*(u32x4 *)to = v;
}
FUNCTION void copy_async_4(void *to, const void *from, int take) { *(u32 *)to = take ? *(const u32 *)from : 0u; }
#define COPY_COMMIT()
#define COPY_WAIT(pending)
#endif

#if HAVE_MMA
/* Four 8×8 matrices of 16-bit elements: lane 8·j + r has the address of row r of matrix j. */
FUNCTION void load_matrix(u32 r[4], const void *row) {
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
		: "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(local_address(row)) : "memory");
}
FUNCTION void load_matrix_transposed(u32 r[4], const void *row) {
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
		: "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(local_address(row)) : "memory");
}
FUNCTION void mma_f16(f32 d[4], const u32 a[4], u32 b0, u32 b1) {
	asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
		: "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
FUNCTION void mma_bf16(f32 d[4], const u32 a[4], u32 b0, u32 b1) {
	asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
		: "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
FUNCTION void mma_tf32(f32 d[4], const u32 a[4], u32 b0, u32 b1) {
	asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
		: "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
FUNCTION u32 tf32_of_f32(f32 x) {
	u32 r;
	asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(x));
	return r;
}
/* Two halves in a word, the first one in its lower bits. */
FUNCTION u32 pair_f16(f32 first, f32 second) {
	u32 r;
	asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(second), "f"(first));
	return r;
}
FUNCTION u32 pair_bf16(f32 first, f32 second) {
	u32 r;
	asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(second), "f"(first));
	return r;
}
#endif
