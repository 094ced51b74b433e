/* Stands behind the kernels and their table. */
#undef mma_f16
#undef mma_bf16
#undef mma_tf32
int fibre_item(void) { return *fibre_runtime.current; }
int fibre_group(int d) { return fibre_runtime.group[d]; }
int fibre_groups(int d) { return fibre_runtime.groups[d]; }
u8 *fibre_arena(void) { return *fibre_runtime.arena; }
void fibre_barrier(int line) { fibre_runtime.barrier(line); }
u32 fibre_shuffle_xor(u32 bits, int mask) { return fibre_runtime.shuffle_xor(bits, mask); }
void copy_async_16(void *to, const void *from, int take) { fibre_runtime.copy_16(to, from, take); }
void copy_async_4(void *to, const void *from, int take) { fibre_runtime.copy_4(to, from, take); }
void fibre_copy_commit(void) { fibre_runtime.copy_commit(); }
void fibre_copy_wait(int pending) { fibre_runtime.copy_wait(pending); }
void load_matrix(u32 r[4], const void *row) { fibre_runtime.load(r, row); }
void load_matrix_transposed(u32 r[4], const void *row) { fibre_runtime.load_transposed(r, row); }
void mma_f16(f32 d[4], const u32 a[4], u32 b0, u32 b1) { fibre_runtime.f16(d, a, b0, b1); }
void mma_bf16(f32 d[4], const u32 a[4], u32 b0, u32 b1) { fibre_runtime.bf16(d, a, b0, b1); }
void mma_tf32(f32 d[4], const u32 a[4], u32 b0, u32 b1) { fibre_runtime.tf32(d, a, b0, b1); }

static void fake_bind(const struct fibre_runtime *r) { fibre_runtime = *r; }

const struct {
	int capability, kernels;
	const fake_kernel *list;
	void (*bind)(const struct fibre_runtime *);
} fake_image_table __attribute__((visibility("default"))) = {__CUDA_ARCH__ / 10, sizeof fake_kernels / sizeof fake_kernels[0], fake_kernels, fake_bind};
