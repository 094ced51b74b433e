/* cuDNN, as far as convolutions of float32 with channels last need it; see cublas.h. */
enum { DNN_BAD_PARAM = 2000, DNN_NOT_SUPPORTED = 3000 };

EXPORT size_t cudnnGetVersion(void) { return (size_t)set.dnn_version; }
EXPORT const char *cudnnGetErrorString(int code) { return code == DNN_BAD_PARAM ? "a bad parameter" : code == DNN_NOT_SUPPORTED ? "not supported" : "an error"; }

API(cudnnCreate, READY | CURRENT | UNSAFE, (void **out), (out)) {
	*out = make_handle(H_DNN, current_device(), calloc(1, sizeof(void *)));
	return SUCCESS;
}

API(cudnnDestroy, READY | CURRENT | UNSAFE | RELEASES, (void *h), (h)) {
	if (!right_handle(h, H_DNN)) return DNN_BAD_PARAM;
	free(object(h, H_DNN));
	drop_handle(h);
	return SUCCESS;
}

API(cudnnSetStream, READY | CURRENT, (void *h, void *on), (h, on)) {
	if (!right_handle(h, H_DNN) || !stream_of(on)) return DNN_BAD_PARAM;
	*(void **)object(h, H_DNN) = on;
	return SUCCESS;
}

#define DESCRIPTOR(name, kind) \
	API(cudnnCreate##name##Descriptor, 0, (void **out), (out)) { \
		descriptor *d; \
		return make_descriptor(out, kind, &d); \
	} \
	API(cudnnDestroy##name##Descriptor, RELEASES, (void *h), (h)) { return drop_descriptor(h, kind, DNN_BAD_PARAM); }
DESCRIPTOR(Tensor, D_TENSOR)
DESCRIPTOR(Filter, D_FILTER)
DESCRIPTOR(Convolution, D_CONV)
DESCRIPTOR(Activation, D_ACTIVATION)

/* Reads so many numbers, all of which have to be at least that much. */
static int read_numbers(int *to, const int *from, int n, int least) {
	if (n < 1 || n > 8 || !read_caller(to, from, (size_t)n * sizeof *to)) return 0;
	for (int i = 0; i < n; i++)
		if (to[i] < least) return 0;
	return 1;
}

API(cudnnSetTensorNdDescriptor, 0, (void *h, int type, int rank, const int *dims, const int *strides), (h, type, rank, dims, strides)) {
	descriptor *d = descriptor_of(h, D_TENSOR);
	if (!d || type != 0 || rank < 4 || rank > 5 || !read_numbers(d->dims, dims, rank, 1) || !read_numbers(d->strides, strides, rank, 1)) return DNN_BAD_PARAM;
	d->rank = rank;
	return SUCCESS;
}

API(cudnnSetFilterNdDescriptor, 0, (void *h, int type, int format, int rank, const int *dims), (h, type, format, rank, dims)) {
	descriptor *d = descriptor_of(h, D_FILTER);
	if (!d || type != 0 || rank < 4 || rank > 5 || !read_numbers(d->dims, dims, rank, 1)) return DNN_BAD_PARAM;
	d->rank = rank;
	d->format = format;
	return format == 1 ? SUCCESS : DNN_NOT_SUPPORTED;
}

API(cudnnSetConvolutionNdDescriptor, 0, (void *h, int n, const int *pad, const int *step, const int *dilation, int mode, int compute), (h, n, pad, step, dilation, mode, compute)) {
	descriptor *d = descriptor_of(h, D_CONV);
	if (!d || n < 2 || n > 3 || compute != 0 || mode != 1 || !read_numbers(d->pad, pad, n, 0) || !read_numbers(d->step, step, n, 1) || !read_numbers(d->dilation, dilation, n, 1))
		return DNN_BAD_PARAM;
	d->spatial = n;
	d->groups = 1;
	d->math = 0;
	return SUCCESS;
}

API(cudnnSetConvolutionMathType, 0, (void *h, int math), (h, math)) {
	descriptor *d = descriptor_of(h, D_CONV);
	if (!d || (math != 0 && math != 3)) return DNN_BAD_PARAM;
	d->math = math;
	return SUCCESS;
}

API(cudnnSetConvolutionGroupCount, 0, (void *h, int groups), (h, groups)) {
	descriptor *d = descriptor_of(h, D_CONV);
	if (!d || groups < 1) return DNN_BAD_PARAM;
	d->groups = groups;
	return SUCCESS;
}

API(cudnnSetActivationDescriptor, 0, (void *h, int mode, int nan, double ceiling), (h, mode, nan, ceiling)) {
	descriptor *d = descriptor_of(h, D_ACTIVATION);
	if (!d || mode != 1 || nan < 0 || nan > 1 || ceiling != 0) {
		wrong("activation %d, %d, %g", mode, nan, ceiling);
		return DNN_BAD_PARAM;
	}
	d->activation = mode;
	d->nan = nan;
	return SUCCESS;
}

/* What a convolution is called with; fused: a bias, a matrix that is added and ReLU. */
typedef struct {
	descriptor x, w, conv, y;
	const float *image, *weights, *bias, *more;
	float *result;
	float alpha, beta; /* beta: of the matrix that is added */
	int fused, rounds;
	void *workspace;
	size_t workspace_bytes;
} convolution;

static int channels_last(const descriptor *d) {
	int step = d->dims[1];
	if (d->strides[1] != 1) return 0;
	for (int i = d->rank - 1; i > 1; i--) {
		if (d->strides[i] != step) return 0;
		step *= d->dims[i];
	}
	return d->strides[0] == step;
}

static int read_convolution(convolution *c, const void *x, const void *w, const void *conv, const void *y) {
	descriptor *dx = descriptor_of(x, D_TENSOR), *dw = descriptor_of(w, D_FILTER), *dc = descriptor_of(conv, D_CONV), *dy = descriptor_of(y, D_TENSOR);
	if (!dx || !dw || !dc || !dy) return DNN_BAD_PARAM;
	c->x = *dx;
	c->w = *dw;
	c->conv = *dc;
	c->y = *dy;
	c->rounds = dc->math == 0 && set.capability >= 80 ? 77 : 68;
	int fits = dx->rank == dw->rank && dy->rank == dx->rank && dc->spatial == dx->rank - 2 && dy->dims[0] == dx->dims[0] && dy->dims[1] == dw->dims[0] &&
		dx->dims[1] == dw->dims[1] * dc->groups && dy->dims[1] % dc->groups == 0;
	for (int i = 0; fits && i < dc->spatial; i++)
		fits = dy->dims[2 + i] == (dx->dims[2 + i] + 2 * dc->pad[i] - dc->dilation[i] * (dw->dims[2 + i] - 1) - 1) / dc->step[i] + 1;
	if (!fits) {
		wrong("the descriptors of a convolution do not fit each other");
		return DNN_BAD_PARAM;
	}
	return channels_last(dx) && channels_last(dy) ? SUCCESS : DNN_NOT_SUPPORTED;
}

static size_t convolution_workspace(const convolution *c, int algorithm) { return algorithm == 1 ? 256 * (size_t)c->w.dims[0] : algorithm == 6 ? 4096 : 0; }

typedef struct {
	int algorithm, status;
	float time;
	size_t memory;
	int determinism, math, reserved[3];
} performance;

API(cudnnGetConvolutionForwardAlgorithm_v7, READY | CURRENT, (void *h, void *x, void *w, void *conv, void *y, int asked, int *count, performance *out), (h, x, w, conv, y, asked, count, out)) {
	convolution c = {0};
	if (!right_handle(h, H_DNN) || asked < 4) return DNN_BAD_PARAM;
	int code = read_convolution(&c, x, w, conv, y);
	if (code) return code;
	*count = 0;
	if (set.no_algorithms) return DNN_NOT_SUPPORTED;
	/* One that fails, one whose results differ from time to time, one that transforms, and one that multiplies what it is given. */
	const performance list[] = {{0, DNN_NOT_SUPPORTED, 0, 0, 1, 0, {0}}, {2, 0, 1, 0, 0, 0, {0}}, {6, 0, 2, convolution_workspace(&c, 6), 1, 0, {0}}, {1, 0, 3, convolution_workspace(&c, 1), 1, 0, {0}}};
	memcpy(out, list, sizeof list);
	*count = 4;
	return SUCCESS;
}

API(cudnnGetConvolutionForwardWorkspaceSize, READY | CURRENT, (void *h, void *x, void *w, void *conv, void *y, int algorithm, size_t *out), (h, x, w, conv, y, algorithm, out)) {
	convolution c = {0};
	if (!right_handle(h, H_DNN)) return DNN_BAD_PARAM;
	int code = read_convolution(&c, x, w, conv, y);
	if (!code) *out = convolution_workspace(&c, algorithm);
	return code;
}

/* Weights [place, channel, filter] of a group's filters, so that filters lie beside each other. */
static float *turned_weights(const convolution *c, int places, int channels, int filters) {
	float *out = malloc((size_t)places * (size_t)channels * (size_t)filters * sizeof *out);
	for (int f = 0; f < filters; f++)
		for (int i = 0; i < places * channels; i++) out[(size_t)i * (size_t)filters + (size_t)f] = round_operand(c->weights[(size_t)f * (size_t)(places * channels) + (size_t)i], c->rounds);
	return out;
}

/* The pixel that place number k of a window reads for a pixel of the result, -1 for padding. */
static long read_pixel(const convolution *c, const int *to, int k) {
	long at = 0;
	int spatial = c->conv.spatial, place[3];
	for (int i = spatial - 1; i >= 0; i--) {
		place[i] = k % c->w.dims[2 + i];
		k /= c->w.dims[2 + i];
	}
	for (int i = 0; i < spatial; i++) {
		int from = to[i] * c->conv.step[i] - c->conv.pad[i] + place[i] * c->conv.dilation[i];
		if (from < 0 || from >= c->x.dims[2 + i]) return -1;
		at = at * c->x.dims[2 + i] + from;
	}
	return at;
}

static void run_convolution(const void *args) {
	const convolution *c = args;
	int spatial = c->conv.spatial, places = 1, groups = c->conv.groups, filters = c->y.dims[1], channels = c->w.dims[1], part = filters / groups;
	long in = 1, out = 1;
	for (int i = 0; i < spatial; i++) {
		places *= c->w.dims[2 + i];
		in *= c->x.dims[2 + i];
		out *= c->y.dims[2 + i];
	}
	if (c->workspace_bytes) memset(c->workspace, POISON_BYTE, c->workspace_bytes);
	float *w = turned_weights(c, places, channels, filters), *sums = malloc((size_t)filters * sizeof *sums);
	for (long pixel = 0; pixel < out * c->x.dims[0]; pixel++) {
		long image = pixel / out, rest = pixel % out;
		int to[3];
		for (int i = spatial - 1; i >= 0; i--) {
			to[i] = (int)(rest % c->y.dims[2 + i]);
			rest /= c->y.dims[2 + i];
		}
		memset(sums, 0, (size_t)filters * sizeof *sums);
		for (int k = 0; k < places; k++) {
			long from = read_pixel(c, to, k);
			if (from < 0) continue;
			const float *x = c->image + (image * in + from) * c->x.dims[1];
			for (int g = 0; g < groups; g++)
				for (int i = 0; i < channels; i++)
					add_scaled(sums + g * part, w + (size_t)(k * channels + i) * (size_t)filters + (size_t)(g * part), round_operand(x[g * channels + i], c->rounds), (size_t)part);
		}
		float *y = c->result + pixel * filters;
		for (int f = 0; f < filters; f++) {
			float v = c->alpha * sums[f];
			if (c->beta != 0) v += c->beta * c->more[pixel * filters + f];
			if (c->fused) v += c->bias[f];
			y[f] = c->fused && v < 0 ? 0 : v;
		}
	}
	free(w);
	free(sums);
}

static size_t floats(const descriptor *d) {
	size_t n = 1;
	for (int i = 0; i < d->rank; i++) n *= (size_t)d->dims[i];
	return 4 * n;
}

static int convolve(void *h, convolution *c, int algorithm) {
	if (c->workspace_bytes < convolution_workspace(c, algorithm) || (algorithm != 1 && algorithm != 6)) {
		wrong("algorithm %d with %zu bytes", algorithm, c->workspace_bytes);
		return DNN_BAD_PARAM;
	}
	stream *s = stream_of(*(void **)object(h, H_DNN));
	if (!s) return DNN_BAD_PARAM;
	span spans[6] = {{(void *)c->image, floats(&c->x), 0}, {(void *)c->weights, floats(&c->w), 0}, {c->result, floats(&c->y), 1}};
	int count = 3;
	if (c->beta != 0) spans[count++] = (span){(void *)c->more, floats(&c->y), 0};
	if (c->fused) spans[count++] = (span){(void *)c->bias, 4 * (size_t)c->y.dims[1], 0};
	if (c->workspace_bytes) spans[count++] = (span){c->workspace, c->workspace_bytes, 1};
	return queue_call(s, run_convolution, c, sizeof *c, spans, count, c->workspace_bytes ? c->workspace : 0);
}

API(cudnnConvolutionForward, READY | CURRENT,
	(void *h, const float *alpha, void *x_desc, const void *x, void *w_desc, const void *w, void *conv, int algorithm, void *workspace, size_t bytes, const float *beta, void *y_desc, void *y),
	(h, alpha, x_desc, x, w_desc, w, conv, algorithm, workspace, bytes, beta, y_desc, y)) {
	convolution c = {.image = x, .weights = w, .result = y, .more = y, .workspace = workspace, .workspace_bytes = bytes};
	if (!right_handle(h, H_DNN) || !read_caller(&c.alpha, alpha, 4) || !read_caller(&c.beta, beta, 4)) return DNN_BAD_PARAM;
	int code = read_convolution(&c, x_desc, w_desc, conv, y_desc);
	return code ? code : convolve(h, &c, algorithm);
}

API(cudnnConvolutionBiasActivationForward, READY | CURRENT,
	(void *h, const float *alpha, void *x_desc, const void *x, void *w_desc, const void *w, void *conv, int algorithm, void *workspace, size_t bytes, const float *beta, void *z_desc,
		const void *z, void *bias_desc, const void *bias, void *activation, void *y_desc, void *y),
	(h, alpha, x_desc, x, w_desc, w, conv, algorithm, workspace, bytes, beta, z_desc, z, bias_desc, bias, activation, y_desc, y)) {
	convolution c = {.image = x, .weights = w, .result = y, .more = z, .bias = bias, .fused = 1, .workspace = workspace, .workspace_bytes = bytes};
	descriptor *b = descriptor_of(bias_desc, D_TENSOR), *f = descriptor_of(activation, D_ACTIVATION), *more = descriptor_of(z_desc, D_TENSOR);
	if (!right_handle(h, H_DNN) || !b || !f || !more || f->activation != 1 || !read_caller(&c.alpha, alpha, 4) || !read_caller(&c.beta, beta, 4)) return DNN_BAD_PARAM;
	int code = read_convolution(&c, x_desc, w_desc, conv, y_desc);
	if (code) return code;
	if (floats(b) != 4 * (size_t)c.y.dims[1] || b->rank != c.y.rank || b->dims[1] != c.y.dims[1] || memcmp(more->dims, c.y.dims, sizeof c.y.dims) != 0 || !channels_last(more)) {
		wrong("the bias or what is added has another shape than the result");
		return DNN_BAD_PARAM;
	}
	return convolve(h, &c, algorithm);
}
