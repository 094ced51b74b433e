/* What kernels in shared objects call: the runtime of fibres in the fake driver. */
struct fibre_runtime {
	const int *current, *group, *groups;
	u8 *const *arena;
	void (*barrier)(int line);
	u32 (*shuffle_xor)(u32 bits, int mask);
	void (*copy_16)(void *to, const void *from, int take);
	void (*copy_4)(void *to, const void *from, int take);
	void (*copy_commit)(void);
	void (*copy_wait)(int pending);
	void (*load)(u32 r[4], const void *row);
	void (*load_transposed)(u32 r[4], const void *row);
	void (*f16)(f32 d[4], const u32 a[4], u32 b0, u32 b1);
	void (*bf16)(f32 d[4], const u32 a[4], u32 b0, u32 b1);
	void (*tf32)(f32 d[4], const u32 a[4], u32 b0, u32 b1);
	void (*fault)(const char *text);
};
