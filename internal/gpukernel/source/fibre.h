/* The dialect as plain C, one fibre per work item. The functions that are only declared here are those of runtime.h. */
#define DIALECT_FIBRE 1
#define SUBGROUP 32
#define HAVE_ASYNC_COPY 1
#define HAVE_MMA 1
#include <math.h>
#include <stdint.h>
#include <string.h>

typedef uint8_t u8;
typedef int8_t i8;
typedef uint16_t u16;
typedef int16_t i16;
typedef uint32_t u32;
typedef int32_t i32;
typedef uint64_t u64;
typedef int64_t i64;
typedef float f32;
typedef double f64;
typedef uint16_t f16;
typedef uint16_t bf16;
typedef struct { f32 x, y, z, w; } __attribute__((aligned(16))) f32x4;
typedef struct { u32 x, y, z, w; } __attribute__((aligned(16))) u32x4;
typedef struct { u32 x, y; } __attribute__((aligned(8))) u32x2;

int fibre_item(void);
int fibre_group(int d);
int fibre_groups(int d);
u8 *fibre_arena(void);
void fibre_barrier(int line);
u32 fibre_shuffle_xor(u32 bits, int mask);
void copy_async_16(void *to, const void *from, int take);
void copy_async_4(void *to, const void *from, int take);
void fibre_copy_commit(void);
void fibre_copy_wait(int pending);
void load_matrix(u32 r[4], const void *row);
void load_matrix_transposed(u32 r[4], const void *row);
void mma_f16(f32 d[4], const u32 a[4], u32 b0, u32 b1);
void mma_bf16(f32 d[4], const u32 a[4], u32 b0, u32 b1);
void mma_tf32(f32 d[4], const u32 a[4], u32 b0, u32 b1);

#define KERNEL(threads) static void
#define KERNEL_BLOCKS(threads, blocks) static void
#define FUNCTION static inline
#define GLOBAL
#define LOCAL
#define RESTRICT restrict
#define ARENA(name) u8 *const name = fibre_arena()
#define ITEM fibre_item()
#define GROUP(d) fibre_group(d)
#define GROUPS_0 fibre_groups(0)
#define BARRIER() fibre_barrier(__LINE__)
#define TABLE(type, name, n) static const type name[n]
#define UNROLL
#define NO_UNROLL

#define MAKE_F32X4(a, b, c, d) ((f32x4){a, b, c, d})
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

FUNCTION u32 bits_of_f32(f32 x) {
	u32 r;
	memcpy(&r, &x, 4);
	return r;
}
FUNCTION f32 f32_of_bits(u32 x) {
	f32 r;
	memcpy(&r, &x, 4);
	return r;
}
FUNCTION f32 f32_of_f16(f16 h) {
	_Float16 x;
	memcpy(&x, &h, 2);
	return (f32)x;
}
FUNCTION f16 f16_of_f32(f32 v) {
	_Float16 x = (_Float16)v;
	f16 r;
	memcpy(&r, &x, 2);
	return r;
}
FUNCTION u32 tf32_of_f32(f32 x) { return (bits_of_f32(x) + 0x1000u) & 0xffffe000u; }
#define pair_f16(first, second) ((u32)f16_of_f32(first) | (u32)f16_of_f32(second) << 16)
#define pair_bf16(first, second) ((u32)bf16_of_f32(first) | (u32)bf16_of_f32(second) << 16)

#define SHUFFLE_XOR(v, mask) f32_of_bits(fibre_shuffle_xor(bits_of_f32(v), mask))
#define COPY_COMMIT() fibre_copy_commit()
#define COPY_WAIT(pending) fibre_copy_wait(pending)

/* A row of the table of a program's kernels, by which runtime.h calls them. */
typedef struct {
	const char *name;
	void (*call)(void **params);
	int threads, arena, switches;
} kernel_entry;

typedef f32 f32v_4 __attribute__((vector_size(16), aligned(4)));
#define READ_V_4(p) (*(const f32v_4 *)(p))
#define KEEP_V_4(v, p) (*(f32v_4 *)(p) = (v))
#define SPLAT_V_4(x) ((x) + (f32v_4){0})
typedef f32 f32v_8 __attribute__((vector_size(32), aligned(4)));
#define READ_V_8(p) (*(const f32v_8 *)(p))
#define KEEP_V_8(v, p) (*(f32v_8 *)(p) = (v))
#define SPLAT_V_8(x) ((x) + (f32v_8){0})
typedef f32 f32v_16 __attribute__((vector_size(64), aligned(4)));
#define READ_V_16(p) (*(const f32v_16 *)(p))
#define KEEP_V_16(v, p) (*(f32v_16 *)(p) = (v))
#define SPLAT_V_16(x) ((x) + (f32v_16){0})
#define FMA_V(a, b, c) ((a) * (b) + (c))
