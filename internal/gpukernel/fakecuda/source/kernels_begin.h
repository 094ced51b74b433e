/* Stands behind the dialect and in front of the kernels: CUDA's own words, and what the architecture lacks. */
#define __global__ static
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __syncthreads() fibre_barrier(__LINE__)
typedef struct { unsigned x, y, z; } fake_dim;
#define threadIdx ((fake_dim){(unsigned)fibre_item(), 0, 0})
#define blockIdx ((fake_dim){(unsigned)fibre_group(0), (unsigned)fibre_group(1), (unsigned)fibre_group(2)})
#define gridDim ((fake_dim){(unsigned)fibre_groups(0), (unsigned)fibre_groups(1), (unsigned)fibre_groups(2)})

/* The vectors of processors are none of CUDA's. */
#undef READ_V_4
#undef READ_V_8
#undef READ_V_16
#pragma GCC poison READ_V_4 READ_V_8 READ_V_16 KEEP_V_4 KEEP_V_8 KEEP_V_16

/* Reads and writes of 16 and 8 bytes have to be aligned to that, as on the device. */
static struct fibre_runtime fibre_runtime;
static inline const void *fake_aligned(const void *p, unsigned n) {
	if ((uintptr_t)p % n != 0) fibre_runtime.fault("an access of several elements is not aligned to its size");
	return p;
}
#undef READ_F32X4
#undef WRITE_F32X4
#undef READ_U32X2
#undef WRITE_U32X2
#define READ_F32X4(p) (*(const f32x4 *)fake_aligned(p, 16))
#define WRITE_F32X4(p, v) (*(f32x4 *)fake_aligned(p, 16) = (v))
#define READ_U32X2(p) (*(const u32x2 *)fake_aligned(p, 8))
#define WRITE_U32X2(p, v) (*(u32x2 *)fake_aligned(p, 8) = (v))

#undef HAVE_MMA
#undef HAVE_ASYNC_COPY
#if __CUDA_ARCH__ >= 800
#define HAVE_MMA 1
#define HAVE_ASYNC_COPY 1
#else
#define HAVE_MMA 0
#define HAVE_ASYNC_COPY 0
#define mma_f16 no_mma_f16_on_this_architecture
#define mma_bf16 no_mma_bf16_on_this_architecture
#define mma_tf32 no_mma_tf32_on_this_architecture
#endif
