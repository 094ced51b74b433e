/* The calls that give and take memory, and those that copy. */

static int allocate(block_kind kind, u64 *out, size_t n) {
	int d = current_device();
	if (!out || n == 0) {
		wrong("%zu bytes", n);
		return INVALID_VALUE;
	}
	if (kind == B_DEVICE && (n > (size_t)set.memory || devices[d].used + (long long)n > set.memory)) return OUT_OF_MEMORY;
	if (n > (size_t)1 << 40) return OUT_OF_MEMORY;
	block *b = new_block(kind, d, n);
	if (!b) return OUT_OF_MEMORY;
	*out = (u64)(uintptr_t)b->at;
	return SUCCESS;
}

API(cuMemAlloc_v2, READY | CURRENT | UNSAFE, (u64 *out, size_t n), (out, n)) { return allocate(B_DEVICE, out, n); }

API(cuMemFree_v2, READY | CURRENT | UNSAFE | RELEASES, (u64 p), (p)) {
	if (p == 0) return SUCCESS;
	block *b = whole_block((void *)(uintptr_t)p, B_DEVICE);
	if (!b) return INVALID_VALUE;
	if (!devices[b->device].lost) drain(b->device); /* as the real one waits */
	drop_block(b);
	return SUCCESS;
}

API(cuMemGetInfo_v2, READY | CURRENT, (size_t *available, size_t *total), (available, total)) {
	*total = (size_t)set.memory;
	*available = (size_t)(set.memory - devices[current_device()].used);
	return SUCCESS;
}

API(cuMemHostAlloc, READY | CURRENT | UNSAFE, (void **out, size_t n, unsigned flags), (out, n, flags)) {
	u64 p;
	if (flags > 7) return INVALID_VALUE;
	int code = allocate(B_PINNED, &p, n);
	if (!code) *out = (void *)(uintptr_t)p;
	return code;
}

API(cuMemFreeHost, READY | CURRENT | UNSAFE | RELEASES, (void *p), (p)) {
	block *b = whole_block(p, B_PINNED);
	if (!b) return INVALID_VALUE;
	if (!devices[b->device].lost) drain(b->device);
	drop_block(b);
	return SUCCESS;
}

API(cuMemHostRegister_v2, READY | CURRENT | UNSAFE, (void *p, size_t n, unsigned flags), (p, n, flags)) {
	if (!p || n == 0 || flags > 15) return INVALID_VALUE;
	size_t i = place_of((u8 *)p + n - 1);
	if (i > 0 && blocks[i - 1]->at + blocks[i - 1]->bytes > (u8 *)p) return ALREADY_REGISTERED;
	block *b = calloc(1, sizeof *b);
	*b = (block){B_REGISTERED, current_device(), 0, 0, p, n};
	add_block(b);
	return SUCCESS;
}

API(cuMemHostUnregister, READY | CURRENT | UNSAFE | RELEASES, (void *p), (p)) {
	block *b = block_of(p, 0);
	if (!b || b->kind != B_REGISTERED || b->at != p) {
		wrong("%p is not registered", p);
		return NOT_REGISTERED;
	}
	if (!devices[b->device].lost) drain(b->device);
	drop_block(b);
	return SUCCESS;
}

API(cuMemHostGetDevicePointer_v2, READY | CURRENT, (u64 *out, void *p, unsigned flags), (out, p, flags)) {
	block *b = block_of(p, 1);
	if (flags != 0 || !b || b->kind == B_DEVICE) return INVALID_VALUE;
	*out = (u64)(uintptr_t)p;
	return SUCCESS;
}

/* Pools: memory that is given back in a stream's order. */
static int pools(void) { return !set.no_pools && set.driver >= 11020; }

API(cuDeviceGetDefaultMemPool, READY, (void **out, int d), (out, d)) {
	if (d < 0 || d >= set.devices) return INVALID_DEVICE;
	if (!pools()) return NOT_SUPPORTED;
	if (!devices[d].pool) {
		devices[d].pool = make_handle(H_POOL, d, &devices[d]);
		live[H_POOL]--; /* it is the device's, and not given back */
	}
	*out = devices[d].pool;
	return SUCCESS;
}

API(cuMemPoolSetAttribute, READY, (void *h, int attribute, void *value), (h, attribute, value)) {
	if (!object(h, H_POOL)) return INVALID_HANDLE;
	return attribute >= 1 && attribute <= 4 && value ? SUCCESS : INVALID_VALUE;
}

API(cuMemPoolTrimTo, READY, (void *h, size_t keep), (h, keep)) {
	(void)keep;
	return object(h, H_POOL) ? SUCCESS : INVALID_HANDLE;
}

API(cuMemAllocAsync, READY | CURRENT, (u64 *out, size_t n, void *on), (out, n, on)) {
	stream *s = stream_of(on);
	if (!s) return INVALID_HANDLE;
	if (!pools()) return NOT_SUPPORTED;
	if (s->capture) {
		wrong("nodes of memory are none of this driver's");
		return invalidate(s->capture, NOT_SUPPORTED);
	}
	return allocate(B_DEVICE, out, n);
}

API(cuMemFreeAsync, READY | CURRENT | RELEASES, (u64 p, void *on), (p, on)) {
	stream *s = stream_of(on);
	if (!s) return INVALID_HANDLE;
	if (s->capture) {
		wrong("nodes of memory are none of this driver's");
		return invalidate(s->capture, NOT_SUPPORTED);
	}
	block *b = whole_block((void *)(uintptr_t)p, B_DEVICE);
	if (!b) return INVALID_VALUE;
	b->freeing = 1;
	op *o = new_op(O_FREE);
	o->freed = b;
	return enqueue(s, o);
}

/* Whether an address is the caller's memory, pinned or not. */
static int is_host(const void *p) {
	block *b = block_of(p, 1);
	return !b || b->kind != B_DEVICE;
}

/* Says whether the addresses of a copy are what its name says. */
static int right_sides(const op *o) {
	struct {
		const u8 *at;
		size_t bytes;
		int host;
	} sides[2] = {{o->to, (o->height - 1) * o->to_pitch + o->width, o->to_host}, {o->from, (o->height - 1) * o->from_pitch + o->width, o->from_host}};
	for (int i = 0; i < 2; i++) {
		if (sides[i].host ? is_host(sides[i].at) && sides[i].at : !is_host(sides[i].at) && block_of(sides[i].at, sides[i].bytes)) continue;
		wrong("%zu bytes from %p on are not %s memory that is live", sides[i].bytes, (const void *)sides[i].at, sides[i].host ? "the host's" : "a device's");
		return 0;
	}
	return 1;
}

/*
 * Queues a copy. Of memory that is not pinned the driver reads what is there at once, and what is written there is there when
 * the call returns; pinned memory is read and written late.
 */
static int copy(void *on, op *o) {
	stream *s = stream_of(on);
	int code = SUCCESS;
	if (!s) code = INVALID_HANDLE;
	else if (o->width == 0 || o->height == 0) {
		if (!s->capture) {
			free_op(o);
			return SUCCESS;
		}
		wrong("a copy of no bytes is captured");
		code = invalidate(s->capture, INVALID_VALUE);
	} else if (!right_sides(o)) code = INVALID_VALUE;
	if (code) {
		free_op(o);
		return code;
	}
	int loose = (o->from_host && !block_of(o->from, 1)) || (o->to_host && !block_of(o->to, 1));
	if (loose && s->capture) {
		wrong("a copy of memory that is not pinned is captured");
		free_op(o);
		return invalidate(s->capture, INVALID_VALUE);
	}
	if (o->from_host && !block_of(o->from, 1)) {
		o->staged = malloc(o->width * o->height);
		for (size_t i = 0; i < o->height; i++) memcpy(o->staged + i * o->width, o->from + i * o->from_pitch, o->width);
	}
	int wait = o->to_host && !block_of(o->to, 1);
	code = enqueue(s, o);
	return code || !wait ? code : wait_for(s, s->issued);
}

static op *line(const void *to, int to_host, const void *from, int from_host, size_t n) {
	op *o = new_op(O_COPY);
	o->to = (u8 *)to;
	o->from = from;
	o->to_host = to_host;
	o->from_host = from_host;
	o->width = n;
	o->height = 1;
	o->to_pitch = o->from_pitch = n;
	return o;
}

API(cuMemcpyHtoDAsync_v2, READY | CURRENT, (void *to, const void *from, size_t n, void *s), (to, from, n, s)) { return copy(s, line(to, 0, from, 1, n)); }
API(cuMemcpyDtoHAsync_v2, READY | CURRENT, (void *to, const void *from, size_t n, void *s), (to, from, n, s)) { return copy(s, line(to, 1, from, 0, n)); }
API(cuMemcpyDtoDAsync_v2, READY | CURRENT, (void *to, const void *from, size_t n, void *s), (to, from, n, s)) { return copy(s, line(to, 0, from, 0, n)); }

API(cuMemcpyPeerAsync, READY | CURRENT, (void *to, void *to_context, const void *from, void *from_context, size_t n, void *s), (to, to_context, from, from_context, n, s)) {
	handle_entry *a = entry_of(to_context, H_CONTEXT), *b = entry_of(from_context, H_CONTEXT);
	if (!a || !b) return INVALID_CONTEXT;
	block *x = block_of(to, 1), *y = block_of(from, 1);
	if (n > 0 && (!x || !y || x->device != a->device || y->device != b->device)) {
		wrong("memory is not of the context that is named");
		return INVALID_VALUE;
	}
	return copy(s, line(to, 0, from, 0, n));
}

/* A copy of rows, as the driver's interface describes it. */
typedef struct {
	size_t from_x, from_y;
	unsigned from_kind;
	const u8 *from_host;
	u8 *from_device;
	void *from_array;
	size_t from_pitch, to_x, to_y;
	unsigned to_kind;
	u8 *to_host, *to_device;
	void *to_array;
	size_t to_pitch, width, height;
} rows;

API(cuMemcpy2DAsync_v2, READY | CURRENT, (const rows *r, void *s), (r, s)) {
	if (r->from_kind < 1 || r->from_kind > 2 || r->to_kind < 1 || r->to_kind > 2) return INVALID_VALUE;
	op *o = line(r->to_kind == 1 ? r->to_host : r->to_device, r->to_kind == 1, r->from_kind == 1 ? r->from_host : r->from_device, r->from_kind == 1, r->width);
	o->to_pitch = r->to_pitch ? r->to_pitch : r->width;
	o->from_pitch = r->from_pitch ? r->from_pitch : r->width;
	o->height = r->height;
	o->to += r->to_y * o->to_pitch + r->to_x;
	o->from += r->from_y * o->from_pitch + r->from_x;
	if (o->to_pitch < o->width || o->from_pitch < o->width) {
		free_op(o);
		return INVALID_VALUE;
	}
	return copy(s, o);
}

static int set_memory(void *on, u8 *to, u32 value, int unit, size_t n) {
	stream *s = stream_of(on);
	if (!s) return INVALID_HANDLE;
	if (n == 0) {
		if (!s->capture) return SUCCESS;
		wrong("a set of no bytes is captured");
		return invalidate(s->capture, INVALID_VALUE);
	}
	if ((uintptr_t)to % (unsigned)unit != 0 || !block_of(to, n * (size_t)unit)) {
		wrong("%zu bytes from %p on do not lie in one live block", n * (size_t)unit, (void *)to);
		return INVALID_VALUE;
	}
	op *o = new_op(O_SET);
	o->to = to;
	o->value = value;
	o->unit = unit;
	o->width = n * (size_t)unit;
	o->height = 1;
	return enqueue(s, o);
}

API(cuMemsetD8Async, READY | CURRENT, (u8 *to, u8 value, size_t n, void *s), (to, value, n, s)) { return set_memory(s, to, value, 1, n); }
API(cuMemsetD16Async, READY | CURRENT, (u8 *to, u16 value, size_t n, void *s), (to, value, n, s)) { return set_memory(s, to, value, 2, n); }
API(cuMemsetD32Async, READY | CURRENT, (u8 *to, u32 value, size_t n, void *s), (to, value, n, s)) { return set_memory(s, to, value, 4, n); }

/* The copies that are over when they return. They belong to the default stream, for which other streams do not wait here. */
static int copy_now(op *o) {
	if (o->width > 0) {
		o->device = current_device();
		if (!right_sides(o)) {
			free_op(o);
			return INVALID_VALUE;
		}
		run_op(o);
	}
	free_op(o);
	return devices[current_device()].lost;
}

API(cuMemcpyHtoD_v2, READY | CURRENT | UNSAFE, (void *to, const void *from, size_t n), (to, from, n)) { return copy_now(line(to, 0, from, 1, n)); }
API(cuMemcpyDtoH_v2, READY | CURRENT | UNSAFE, (void *to, const void *from, size_t n), (to, from, n)) { return copy_now(line(to, 1, from, 0, n)); }
API(cuMemcpyDtoD_v2, READY | CURRENT | UNSAFE, (void *to, const void *from, size_t n), (to, from, n)) { return copy_now(line(to, 0, from, 0, n)); }
