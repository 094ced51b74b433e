/* Modules: shared objects that the fake compiler made of kernels, whose bytes are an image. */
#define IMAGE_HASH 9 /* in the header's padding: a hash of the rest */

typedef struct {
	kernel_entry entry;
	int params;
	const unsigned *sizes;
	const u8 *pointers;
} fake_kernel;

typedef struct {
	int capability, kernels;
	const fake_kernel *list;
	void (*bind)(const struct fibre_runtime *);
} fake_image;

struct module;

typedef struct function {
	struct module *of;
	const fake_kernel *k;
	int device, shared_most;
	void *handle;
	struct function *next;
} function;

typedef struct module {
	int device;
	void *library;
	const fake_image *image;
	int text; /* what any later processor runs */
	function *functions;
} module;

static _Noreturn void fibre_fault(const char *text);
static const struct fibre_runtime runtime_table = {&current, group_id, group_count, &arena, fibre_barrier, fibre_shuffle_xor, copy_async_16,
	copy_async_4, fibre_copy_commit, fibre_copy_wait, load_matrix, load_matrix_transposed, mma_f16, mma_bf16, mma_tf32, fibre_fault};

static uint32_t hash_bytes(const u8 *p, size_t n) {
	uint32_t h = 2166136261u;
	for (size_t i = 0; i < n; i++) h = (h ^ (i >= IMAGE_HASH && i < IMAGE_HASH + 4 ? 0 : p[i])) * 16777619u;
	return h;
}

/* Finds what was put into the folder for a text of the assembler's language, which ends with a zero: FNV-1a of the text names it. */
static int open_text(const u8 *text, module *m) {
	u8 part[256];
	uint64_t h = 14695981039346656037ull;
	for (;;) { /* pieces that do not cross into another page, which may not be there */
		size_t n = sizeof part - (uintptr_t)text % sizeof part;
		if (!read_caller(part, text, n)) return INVALID_IMAGE;
		for (size_t i = 0; i < n; i++) {
			if (part[i] == 0) goto whole;
			h = (h ^ part[i]) * 1099511628211ull;
		}
		text += n;
	}
whole:;
	char name[4096];
	snprintf(name, sizeof name, "%s/text%016llx.so", folder(), (unsigned long long)h);
	if (access(name, R_OK) != 0) return UNSUPPORTED_PTX;
	m->library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	m->image = m->library ? dlsym(m->library, "fake_image_table") : 0;
	if (!m->image) return INVALID_IMAGE;
	m->text = 1;
	m->image->bind(&runtime_table);
	return SUCCESS;
}

/* Writes the image to a file and opens it. Its length is what its header says, as a real driver reads it. */
static int open_image(const u8 *image, module *m) {
	u8 head[64];
	if (!read_caller(head, image, 8)) return INVALID_VALUE;
	if (memcmp(head, "//", 2) == 0 || head[0] == '.') return open_text(image, m);
	if (memcmp(head, "\x7f" "ELF", 4) != 0) return INVALID_IMAGE;
	if (!read_caller(head, image, sizeof head)) return INVALID_IMAGE;
	uint64_t sections;
	uint16_t each, count;
	uint32_t hash;
	memcpy(&sections, head + 40, 8);
	memcpy(&each, head + 58, 2);
	memcpy(&count, head + 60, 2);
	memcpy(&hash, head + IMAGE_HASH, 4);
	size_t n = sections + (size_t)each * count;
	if (sections > (64u << 20)) return INVALID_IMAGE;
	u8 *bytes = malloc(n);
	if (!bytes || !read_caller(bytes, image, n) || hash_bytes(bytes, n) != hash) {
		free(bytes);
		return INVALID_IMAGE;
	}
	memset(bytes + IMAGE_HASH, 0, 4); /* which the loader wants */
	char path[4096], name[4096];
	static unsigned serial;
	snprintf(name, sizeof name, "%s/i%08x-%zx.so", folder(), hash, n);
	if (access(name, R_OK) != 0) {
		snprintf(path, sizeof path, "%s/i%d-%u", folder(), (int)getpid(), ++serial);
		FILE *f = fopen(path, "wb");
		int ok = f && fwrite(bytes, 1, n, f) == n;
		if (f && fclose(f) != 0) ok = 0;
		if (!ok || rename(path, name) != 0) {
			free(bytes);
			return UNKNOWN_ERROR;
		}
	}
	free(bytes);
	m->library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	if (!m->library) wrong("%s", dlerror());
	m->image = m->library ? dlsym(m->library, "fake_image_table") : 0;
	if (!m->image) {
		if (m->library) dlclose(m->library);
		return INVALID_IMAGE;
	}
	m->image->bind(&runtime_table);
	return SUCCESS;
}

static int load_image(void **out, const void *image) {
	module *m = calloc(1, sizeof *m);
	m->device = current_device();
	int code = open_image(image, m);
	int have = (int)set.capability, want = m->image ? m->image->capability : 0;
	if (!code && ((have / 10 != want / 10 && !m->text) || have < want)) {
		dlclose(m->library);
		code = NO_BINARY;
	}
	if (code) {
		free(m);
		return code;
	}
	*out = make_handle(H_MODULE, m->device, m);
	return SUCCESS;
}

API(cuModuleLoadDataEx, READY | CURRENT | UNSAFE, (void **out, const void *image, unsigned n, int *options, void **values), (out, image, n, options, values)) {
	int code = load_image(out, image);
	for (unsigned i = 0; code && i + 1 < n; i++)
		if (options[i] == 5 && values[i] && options[i + 1] == 6) { /* the log of errors, and its size */
			size_t room = (size_t)(uintptr_t)values[i + 1];
			if (room > 0) snprintf(values[i], room, "fake driver: the image was not loaded (error %d)", code);
		}
	return code;
}

API(cuModuleLoadData, READY | CURRENT | UNSAFE, (void **out, const void *image), (out, image)) { return load_image(out, image); }

API(cuModuleGetFunction, READY | CURRENT, (void **out, void *h, const char *name), (out, h, name)) {
	module *m = object(h, H_MODULE);
	if (!m) return INVALID_HANDLE;
	for (int i = 0; i < m->image->kernels; i++) {
		const fake_kernel *k = &m->image->list[i];
		if (strcmp(k->entry.name, name) != 0) continue;
		for (function *f = m->functions; f; f = f->next)
			if (f->k == k) {
				*out = f->handle;
				return SUCCESS;
			}
		function *f = calloc(1, sizeof *f);
		*f = (function){m, k, m->device, 48 << 10, 0, m->functions};
		m->functions = f;
		*out = f->handle = make_handle(H_FUNCTION, m->device, f);
		return SUCCESS;
	}
	return NOT_FOUND;
}

static void drain(int device);

API(cuModuleUnload, READY | CURRENT | UNSAFE | RELEASES, (void *h), (h)) {
	module *m = object(h, H_MODULE);
	if (!m) return INVALID_HANDLE;
	drain(m->device);
	for (function *f = m->functions; f; f = f->next) drop_handle(f->handle); /* kept: graphs may still name them, which shows */
	drop_handle(h);
	return SUCCESS;
}

/* The most local memory that a group may have: what the capability says, where it is asked for. */
static int shared_optin(void) {
	switch (set.capability) {
	case 75: return 64 << 10;
	case 80: case 87: return 163 << 10;
	case 86: case 89: return 99 << 10;
	case 90: return 227 << 10;
	}
	return 48 << 10;
}

API(cuFuncSetAttribute, READY | CURRENT, (void *h, int attribute, int value), (h, attribute, value)) {
	function *f = object(h, H_FUNCTION);
	if (!f) return INVALID_HANDLE;
	if (attribute == 9) return value >= -1 && value <= 100 ? SUCCESS : INVALID_VALUE;
	if (attribute != 8 || value < 0 || value > shared_optin()) return INVALID_VALUE;
	f->shared_most = value;
	return SUCCESS;
}

API(cuFuncGetAttribute, READY | CURRENT, (int *out, int attribute, void *h), (out, attribute, h)) {
	function *f = object(h, H_FUNCTION);
	if (!f) return INVALID_HANDLE;
	switch (attribute) {
	case 0: *out = f->k->entry.threads; return SUCCESS;
	case 1: case 2: case 3: *out = 0; return SUCCESS;
	case 5: case 6: *out = f->of->image->capability; return SUCCESS;
	case 8: *out = f->shared_most; return SUCCESS;
	}
	return NOT_SUPPORTED; /* registers, above all, which there are none of */
}

API(cuOccupancyMaxActiveBlocksPerMultiprocessor, READY | CURRENT, (int *out, void *h, int threads, size_t shared), (out, h, threads, shared)) {
	function *f = object(h, H_FUNCTION);
	if (!f) return INVALID_HANDLE;
	if (threads < 1) return INVALID_VALUE;
	int by_shared = (int)((size_t)(shared_optin() + 1024) / (shared + 1024));
	*out = threads > f->k->entry.threads || (int)shared > f->shared_most ? 0 : 2048 / threads < by_shared ? 2048 / threads : by_shared;
	return SUCCESS;
}
