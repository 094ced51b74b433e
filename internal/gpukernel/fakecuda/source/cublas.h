/*
 * cuBLASLt, as far as products need it: descriptors with their attributes, a heuristic of one algorithm, and products that are queued
 * like kernels. It is in the driver's library, so that errors are injected into it, and what it makes is counted, as there.
 */
enum { LT_INVALID_VALUE = 7, LT_NOT_SUPPORTED = 15 };

typedef enum { D_MATMUL, D_LAYOUT, D_PREFERENCE, D_TENSOR, D_FILTER, D_CONV, D_ACTIVATION } descriptor_kind;
static const char *const descriptor_names[] = {"product", "matrix", "preference", "tensor", "filter", "convolution", "activation"};

typedef struct {
	descriptor_kind kind;
	int compute, scale, trans[2], epilogue, bias_type; /* of a product */
	void *bias;
	int type, batches; /* of a matrix, or of what has elements */
	u64 rows, columns;
	i64 ld, stride;
	u64 workspace; /* of a preference */
	unsigned align[4];
	int rank, dims[8], strides[8], format;                         /* of tensors and filters */
	int spatial, pad[6], step[6], dilation[6], mode, math, groups; /* of a convolution */
	int activation, nan;
} descriptor;

static int make_descriptor(void **out, descriptor_kind kind, descriptor **d) {
	*d = calloc(1, sizeof **d);
	(*d)->kind = kind;
	*out = make_handle(H_DESCRIPTOR, -1, *d);
	return SUCCESS;
}

static descriptor *descriptor_of(const void *h, descriptor_kind kind) {
	descriptor *d = object(h, H_DESCRIPTOR);
	if (d && d->kind != kind) {
		wrong("the descriptor of a %s is given for that of a %s", descriptor_names[d->kind], descriptor_names[kind]);
		return 0;
	}
	return d;
}

static int drop_descriptor(const void *h, descriptor_kind kind, int invalid) {
	descriptor *d = descriptor_of(h, kind);
	if (!d) return invalid;
	drop_handle(h);
	free(d);
	return SUCCESS;
}

/* A library's handle, which has to be of the context that is current. */
static int right_handle(const void *h, handle_kind kind) {
	handle_entry *e = entry_of(h, kind);
	if (e && e->device != current_device()) {
		wrong("the %s's handle is of another context than the one that is current", kind_names[kind]);
		return 0;
	}
	return e != 0;
}

static float round_operand(float v, int compute) {
	u32 u;
	switch (compute) {
	case 74: return (float)(_Float16)v;
	case 75: case 77:
		memcpy(&u, &v, 4);
		if (compute == 75) u = (u + 0x7fff + (u >> 16 & 1)) & 0xffff0000u;
		else u = (u + 0x1000) & ~0x1fffu;
		memcpy(&v, &u, 4);
		return v;
	}
	return v;
}

static size_t type_bytes(int type) { return type == 0 ? 4 : 2; }

static float load_type(const void *p, size_t i, int type) {
	if (type == 0) return ((const float *)p)[i];
	if (type == 2) return (float)((const _Float16 *)p)[i];
	u32 u = (u32)((const u16 *)p)[i] << 16;
	float v;
	memcpy(&v, &u, 4);
	return v;
}

static void store_type(void *p, size_t i, int type, float v) {
	if (type == 0) ((float *)p)[i] = v;
	else if (type == 2) ((_Float16 *)p)[i] = (_Float16)v;
	else ((u16 *)p)[i] = (u16)({ float r = round_operand(v, 75); u32 u; memcpy(&u, &r, 4); u >> 16; });
}

EXPORT size_t cublasLtGetVersion(void) { return (size_t)set.blas_version; }
EXPORT const char *cublasLtGetStatusName(int code) { return code == 0 ? "a success" : code == LT_INVALID_VALUE ? "an invalid value" : code == LT_NOT_SUPPORTED ? "not supported" : "an error"; }

API(cublasLtCreate, READY | CURRENT | UNSAFE, (void **out), (out)) {
	*out = make_handle(H_BLAS, current_device(), 0);
	return SUCCESS;
}

API(cublasLtDestroy, READY | CURRENT | UNSAFE | RELEASES, (void *h), (h)) {
	if (!right_handle(h, H_BLAS)) return LT_INVALID_VALUE;
	drop_handle(h);
	return SUCCESS;
}

API(cublasLtMatmulDescCreate, 0, (void **out, int compute, int scale), (out, compute, scale)) {
	descriptor *d;
	if (scale != 0 || (compute != 68 && compute != 74 && compute != 75 && compute != 77)) return LT_INVALID_VALUE;
	make_descriptor(out, D_MATMUL, &d);
	d->compute = compute;
	d->epilogue = 1;
	d->bias_type = -1;
	return SUCCESS;
}

API(cublasLtMatmulDescDestroy, RELEASES, (void *h), (h)) { return drop_descriptor(h, D_MATMUL, LT_INVALID_VALUE); }

API(cublasLtMatmulDescSetAttribute, 0, (void *h, int attribute, const void *value, size_t bytes), (h, attribute, value, bytes)) {
	descriptor *d = descriptor_of(h, D_MATMUL);
	u64 v = 0;
	if (!d || bytes != (attribute == 8 ? 8 : 4) || !read_caller(&v, value, bytes)) {
		wrong("attribute %d of %zu bytes", attribute, bytes);
		return LT_INVALID_VALUE;
	}
	switch (attribute) {
	case 3: case 4: d->trans[attribute - 3] = (int)v; return v > 1 ? LT_NOT_SUPPORTED : SUCCESS;
	case 7: d->epilogue = (int)v; return v == 1 || v == 2 || v == 4 || v == 6 || v == 32 || v == 36 ? SUCCESS : LT_INVALID_VALUE;
	case 8: d->bias = (void *)(uintptr_t)v; return SUCCESS;
	case 26: d->bias_type = (int)v; return SUCCESS;
	}
	wrong("attribute %d is none that this library knows", attribute);
	return LT_INVALID_VALUE;
}

API(cublasLtMatrixLayoutCreate, 0, (void **out, int type, u64 rows, u64 columns, i64 ld), (out, type, rows, columns, ld)) {
	descriptor *d;
	if ((type != 0 && type != 2 && type != 14) || rows == 0 || columns == 0 || ld < (i64)rows) {
		wrong("a matrix of type %d of %llu × %llu, %lld apart", type, (unsigned long long)rows, (unsigned long long)columns, (long long)ld);
		return LT_INVALID_VALUE;
	}
	make_descriptor(out, D_LAYOUT, &d);
	d->type = type;
	d->rows = rows;
	d->columns = columns;
	d->ld = ld;
	d->batches = 1;
	return SUCCESS;
}

API(cublasLtMatrixLayoutDestroy, RELEASES, (void *h), (h)) { return drop_descriptor(h, D_LAYOUT, LT_INVALID_VALUE); }

API(cublasLtMatrixLayoutSetAttribute, 0, (void *h, int attribute, const void *value, size_t bytes), (h, attribute, value, bytes)) {
	descriptor *d = descriptor_of(h, D_LAYOUT);
	u64 v = 0;
	if (!d || bytes != (attribute == 6 ? 8 : 4) || !read_caller(&v, value, bytes)) {
		wrong("attribute %d of %zu bytes", attribute, bytes);
		return LT_INVALID_VALUE;
	}
	if (attribute == 5) d->batches = (int)v;
	else if (attribute == 6) d->stride = (i64)v;
	else {
		wrong("attribute %d is none that this library knows", attribute);
		return LT_INVALID_VALUE;
	}
	return SUCCESS;
}

API(cublasLtMatmulPreferenceCreate, 0, (void **out), (out)) {
	descriptor *d;
	make_descriptor(out, D_PREFERENCE, &d);
	for (int i = 0; i < 4; i++) d->align[i] = 256;
	return SUCCESS;
}

API(cublasLtMatmulPreferenceDestroy, RELEASES, (void *h), (h)) { return drop_descriptor(h, D_PREFERENCE, LT_INVALID_VALUE); }

API(cublasLtMatmulPreferenceSetAttribute, 0, (void *h, int attribute, const void *value, size_t bytes), (h, attribute, value, bytes)) {
	descriptor *d = descriptor_of(h, D_PREFERENCE);
	u64 v = 0;
	if (!d || bytes != (attribute == 1 ? 8 : 4) || !read_caller(&v, value, bytes)) {
		wrong("attribute %d of %zu bytes", attribute, bytes);
		return LT_INVALID_VALUE;
	}
	if (attribute == 1) d->workspace = v;
	else if (attribute >= 5 && attribute <= 8) d->align[attribute - 5] = (unsigned)v;
	else {
		wrong("attribute %d is none that this library knows", attribute);
		return LT_INVALID_VALUE;
	}
	return SUCCESS;
}

/* What a product is called with. */
typedef struct {
	descriptor op, m[4]; /* of A, B, C and D */
	void *at[4];
	float alpha, beta;
	void *bias, *workspace;
	size_t workspace_bytes;
} product;

/* Takes copies of the descriptors, and says whether they fit each other. */
static int read_product(product *p, const void *op, const void *const *layouts) {
	descriptor *d = descriptor_of(op, D_MATMUL);
	if (!d) return LT_INVALID_VALUE;
	p->op = *d;
	for (int i = 0; i < 4; i++) {
		if (!(d = descriptor_of(layouts[i], D_LAYOUT))) return LT_INVALID_VALUE;
		p->m[i] = *d;
	}
	const descriptor *a = &p->m[0], *b = &p->m[1], *c = &p->m[2], *r = &p->m[3];
	u64 m = p->op.trans[0] ? a->columns : a->rows, k = p->op.trans[0] ? a->rows : a->columns;
	u64 depth = p->op.trans[1] ? b->columns : b->rows, n = p->op.trans[1] ? b->rows : b->columns;
	if (k != depth || r->rows != m || r->columns != n || c->rows != m || c->columns != n || a->type != b->type || c->type != r->type ||
		a->batches != r->batches || b->batches != r->batches || c->batches != r->batches || (r->type != 0 && r->type != a->type) ||
		(a->type != 0 && p->op.compute != 68)) {
		wrong("matrices do not fit each other");
		return LT_INVALID_VALUE;
	}
	if ((p->op.epilogue & 4) && (!p->op.bias || (p->op.bias_type != -1 && p->op.bias_type != r->type))) {
		wrong("the bias is missing, or of another type");
		return LT_INVALID_VALUE;
	}
	return SUCCESS;
}

/* A number that stands for all that an algorithm is chosen for. */
static u64 product_key(const product *p) {
	u64 h = 14695981039346656037ull;
	const u64 parts[] = {(u64)p->op.compute, (u64)p->op.trans[0], (u64)p->op.trans[1], (u64)p->op.epilogue};
	for (size_t i = 0; i < 4; i++) h = (h ^ parts[i]) * 1099511628211ull;
	for (int i = 0; i < 4; i++) {
		const descriptor *d = &p->m[i];
		const u64 more[] = {(u64)d->type, (u64)d->batches, d->rows, d->columns, (u64)d->ld, (u64)d->stride};
		for (size_t j = 0; j < 6; j++) h = (h ^ more[j]) * 1099511628211ull;
	}
	return h;
}

/* Deep products want memory of their own. */
static u64 product_workspace(const product *p) {
	u64 depth = p->op.trans[0] ? p->m[0].rows : p->m[0].columns;
	return depth >= 32 ? 256 * (depth / 32) : 0;
}

typedef struct {
	u64 opaque[8], workspace;
	int state;
	float waves;
	int reserved[4];
} heuristic;

API(cublasLtMatmulAlgoGetHeuristic, READY | CURRENT,
	(void *h, void *op, void *a, void *b, void *c, void *d, void *preference, int asked, heuristic *out, int *count), (h, op, a, b, c, d, preference, asked, out, count)) {
	descriptor *wish = descriptor_of(preference, D_PREFERENCE);
	product p = {0};
	if (!right_handle(h, H_BLAS) || !wish || asked < 1) return LT_INVALID_VALUE;
	int code = read_product(&p, op, (const void *[]){a, b, c, d});
	if (code) return code;
	for (int i = 0; i < 4; i++)
		if (wish->align[i] > 16) wrong("the algorithm may count on addresses that are multiples of %u", wish->align[i]);
	*count = 0;
	if (set.no_algorithms || product_workspace(&p) > wish->workspace) return LT_NOT_SUPPORTED;
	memset(out, 0, sizeof *out);
	out->opaque[0] = product_key(&p);
	out->opaque[7] = out->workspace = product_workspace(&p);
	*count = 1;
	return SUCCESS;
}

static float gelu_by_tanh(float v) { return 0.5f * v * (1 + tanhf(0.7978845608f * (v + 0.044715f * v * v * v))); }

/* A matrix of a batch as rows × columns of floats, transposed where it is to be, rounded as the product rounds. */
static float *whole_operand(const product *p, int i, int batch) {
	const descriptor *d = &p->m[i];
	size_t rows = p->op.trans[i] ? d->columns : d->rows, columns = p->op.trans[i] ? d->rows : d->columns;
	float *out = malloc(rows * columns * sizeof *out);
	const u8 *at = (const u8 *)p->at[i] + (size_t)batch * (size_t)d->stride * type_bytes(d->type);
	for (size_t c = 0; c < columns; c++)
		for (size_t r = 0; r < rows; r++)
			out[c * rows + r] = round_operand(load_type(at, p->op.trans[i] ? r * (size_t)d->ld + c : c * (size_t)d->ld + r, d->type), p->op.compute);
	return out;
}

__attribute__((optimize("O3"))) static void add_scaled(float *restrict to, const float *restrict from, float by, size_t n) {
	for (size_t i = 0; i < n; i++) to[i] += from[i] * by;
}

static void run_product(const void *args) {
	const product *p = args;
	const descriptor *c = &p->m[2], *d = &p->m[3];
	size_t m = d->rows, n = d->columns, k = p->op.trans[0] ? p->m[0].rows : p->m[0].columns;
	float *column = malloc(m * sizeof *column);
	if (p->workspace_bytes) memset(p->workspace, POISON_BYTE, p->workspace_bytes); /* it is the product's */
	for (int batch = 0; batch < d->batches; batch++) {
		float *a = whole_operand(p, 0, batch), *b = whole_operand(p, 1, batch);
		for (size_t j = 0; j < n; j++) {
			memset(column, 0, m * sizeof *column);
			for (size_t l = 0; l < k; l++) add_scaled(column, a + l * m, b[j * k + l], m);
			for (size_t i = 0; i < m; i++) {
				float v = p->alpha * column[i];
				if (p->beta != 0) v += p->beta * load_type(p->at[2], (size_t)batch * (size_t)c->stride + j * (size_t)c->ld + i, c->type);
				if (p->op.epilogue & 4) v += load_type(p->bias, i, d->type);
				if (p->op.epilogue & 2) v = v < 0 ? 0 : v;
				if (p->op.epilogue & 32) v = gelu_by_tanh(v);
				store_type(p->at[3], (size_t)batch * (size_t)d->stride + j * (size_t)d->ld + i, d->type, v);
			}
		}
		free(a);
		free(b);
	}
	free(column);
}

/* The bytes from the first element of a matrix to behind the last one. */
static size_t matrix_span(const descriptor *d) {
	return ((size_t)(d->batches - 1) * (size_t)d->stride + (d->columns - 1) * (size_t)d->ld + d->rows) * type_bytes(d->type);
}

API(cublasLtMatmul, READY | CURRENT,
	(void *h, void *op, const float *alpha, void *a, void *a_desc, void *b, void *b_desc, const float *beta, void *c, void *c_desc, void *d, void *d_desc,
		const u64 *algorithm, void *workspace, size_t bytes, void *on),
	(h, op, alpha, a, a_desc, b, b_desc, beta, c, c_desc, d, d_desc, algorithm, workspace, bytes, on)) {
	stream *s = stream_of(on);
	product p = {.at = {a, b, c, d}, .workspace = workspace, .workspace_bytes = bytes};
	u64 chosen[8];
	if (!right_handle(h, H_BLAS) || !s || !read_caller(&p.alpha, alpha, 4) || !read_caller(&p.beta, beta, 4) || !read_caller(chosen, algorithm, sizeof chosen)) return LT_INVALID_VALUE;
	int code = read_product(&p, op, (const void *[]){a_desc, b_desc, c_desc, d_desc});
	if (code) return code;
	p.bias = p.op.bias;
	if (chosen[0] != product_key(&p) || bytes < chosen[7]) {
		wrong("the algorithm is for another product, or for more than %zu bytes", bytes);
		return LT_INVALID_VALUE;
	}
	span spans[6] = {{a, matrix_span(&p.m[0]), 0}, {b, matrix_span(&p.m[1]), 0}, {d, matrix_span(&p.m[3]), 1}};
	int count = 3;
	if (p.beta != 0) spans[count++] = (span){c, matrix_span(&p.m[2]), 0};
	if (p.op.epilogue & 4) spans[count++] = (span){p.bias, p.m[3].rows * type_bytes(p.m[3].type), 0};
	if (bytes) spans[count++] = (span){workspace, bytes, 1};
	return queue_call(s, run_product, &p, sizeof p, spans, count, bytes ? workspace : 0);
}
