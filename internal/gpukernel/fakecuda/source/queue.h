/*
 * Streams are queues. What stands in them runs late: when a thread waits or asks, now and then when something is queued, or on
 * a worker thread where that is set. Which stream goes on is drawn from the seed, among those whose first command waits for
 * nothing. Kernels run one at a time.
 */
#define PARAMS_MOST 64

typedef enum { O_KERNEL, O_COPY, O_SET, O_MARK, O_WAIT, O_GRAPH, O_FREE, O_CALL } op_kind;

struct body;
struct stream;
struct event;

/* Memory that a library's work reads or writes. */
typedef struct {
	void *at;
	size_t bytes;
	int written;
} span;

typedef struct op {
	op_kind kind;
	int device;
	struct op *next;
	function *f; /* of a kernel */
	unsigned grid[3], threads[3], shared;
	u64 *values;
	u8 *to; /* of a copy or a set: rows of width bytes */
	const u8 *from;
	size_t width, height, to_pitch, from_pitch;
	int to_host, from_host; /* the caller's memory */
	u8 *staged;
	u32 value;
	int unit;
	struct stream *other; /* of a wait */
	u64 ticket;
	struct event *event; /* of a mark: gets the time */
	struct body *graph;
	block *freed;
	int *deps, dep_count; /* of a node: nodes before it */
	void *handle;
	void (*call)(const void *args); /* of a library's work */
	void *args;
	size_t args_bytes;
	span spans[6];
	int span_count;
} op;

/* The nodes of a graph, in an order in which they may run. Launches that are under way share it. */
typedef struct body {
	int users, count;
	size_t room;
	op **nodes;
} body;

typedef struct capture {
	body *graph;
	int mode, invalid;
	pthread_t thread;
	struct stream *origin;
} capture;

typedef struct stream {
	int device, destroyed;
	op *first, *last;
	u64 issued, done;
	capture *capture;
	int *frontier, frontier_count; /* the last nodes of the capture on this stream */
	size_t frontier_room;
	void *handle;
} stream;

typedef struct event {
	int device, timed;
	stream *on; /* where it was last recorded, and behind what */
	u64 ticket;
	capture *captured; /* its last record was in this capture; only compared, and followed while a stream has it */
	int *frontier, frontier_count;
	size_t frontier_room;
	struct timespec at;
} event;

static stream **streams;
static size_t stream_count, stream_room;
static int executing;
static pthread_t worker;

static void drop_body(body *b);

static void free_op(op *o) {
	if (o->graph) drop_body(o->graph);
	if (o->handle) drop_handle(o->handle);
	free(o->values);
	free(o->staged);
	free(o->deps);
	free(o->args);
	free(o);
}

static void drop_body(body *b) {
	if (--b->users > 0) return;
	for (int i = 0; i < b->count; i++) free_op(b->nodes[i]);
	free(b->nodes);
	free(b);
}

static void *fault_jump[5];
static char fault_text[512];

static _Noreturn void fibre_fault(const char *text) {
	snprintf(fault_text, sizeof fault_text, "%s", text);
	__builtin_longjmp(fault_jump, 1);
}

/* Runs all groups, without the lock. Returns whether the kernel came to its end. */
static __attribute__((noinline)) int run_groups(const op *o, u8 *local) {
	void *params[PARAMS_MOST];
	kernel_entry entry = o->f->k->entry;
	for (int i = 0; i < o->f->k->params; i++) params[i] = &o->values[i];
	entry.threads = (int)o->threads[0];
	entry.arena = (int)o->shared;
	current_kernel = &entry;
	current_params = params;
	group_items = entry.threads;
	arena_bytes = entry.arena;
	arena = local;
	if (__builtin_setjmp(fault_jump)) {
		for (int i = 0; i < FIBRES_MAX; i++) { /* they stand somewhere within the kernel */
			free(fibres[i].stack);
			fibres[i].stack = 0;
		}
		return 0;
	}
	if (entry.switches) prepare_fibres(entry.threads);
	for (int d = 0; d < 3; d++) group_count[d] = (int)o->grid[d];
	for (group_id[2] = 0; group_id[2] < group_count[2]; group_id[2]++)
		for (group_id[1] = 0; group_id[1] < group_count[1]; group_id[1]++)
			for (group_id[0] = 0; group_id[0] < group_count[0]; group_id[0]++) {
				run_group();
				for (int i = 0; i < GUARD; i++)
					if (local[arena_bytes + i] != GUARD_BYTE) fibre_fault("local memory is written behind what the launch gave it");
			}
	return 1;
}

static void take_longer(long long us) {
	if (us <= 0) return;
	struct timespec t = {us / 1000000, us % 1000000 * 1000};
	nanosleep(&t, 0);
}

static void run_kernel(op *o) {
	const fake_kernel *k = o->f->k;
	if (!entry_of(o->f->handle, H_FUNCTION)) { /* its module was unloaded */
		lose(o->device, LAUNCH_FAILED);
		return;
	}
	block *used[PARAMS_MOST];
	int count = 0;
	for (int i = 0; i < k->params; i++) {
		if (!k->pointers[i]) continue;
		block *b = block_of((void *)(uintptr_t)o->values[i], 1);
		if (!b || (b->kind == B_DEVICE && b->device != o->device)) {
			wrong("parameter %d of kernel %s, %p, lies in no live block of the device", i, k->entry.name, (void *)(uintptr_t)o->values[i]);
			lose(o->device, ILLEGAL_ADDRESS);
			return;
		}
		used[count++] = b;
	}
	kernels_run++;
	if (set.fault_at == kernels_run) {
		lose(o->device, ILLEGAL_ADDRESS);
		return;
	}
	void *local = 0;
	if (posix_memalign(&local, 128, o->shared + GUARD) != 0) abort();
	memset((u8 *)local + o->shared, GUARD_BYTE, GUARD);
	random_state = ((u64)set.seed * 0x9e3779b97f4a7c15ull + (u64)kernels_run) | 1;
	long long us = set.slow_us;
	pthread_mutex_unlock(&lock);
	take_longer(us);
	int ended = run_groups(o, local);
	pthread_mutex_lock(&lock);
	call_now = 0;
	free(local);
	if (!ended) {
		wrong("%s", fault_text);
		lose(o->device, LAUNCH_FAILED);
	}
	for (int i = 0; i < count; i++)
		if (!guards_hold(used[i])) {
			wrong("kernel %s writes outside of %s of %zu bytes", k->entry.name, block_names[used[i]->kind], used[i]->bytes);
			mend_guards(used[i]);
			lose(o->device, ILLEGAL_ADDRESS);
		}
}

/* Whether the memory that a library's work is about is a device's, and live. */
static int spans_there(const op *o) {
	for (int i = 0; i < o->span_count; i++) {
		const span *x = &o->spans[i];
		block *b = block_of(x->at, x->bytes);
		if (b && b->kind == B_DEVICE && b->device == o->device && (uintptr_t)x->at % 16 == 0) continue;
		wrong("%zu bytes from %p on do not lie in one live block of the device, or not at a multiple of 16", x->bytes, x->at);
		return 0;
	}
	return 1;
}

static void run_call(const op *o) {
	if (!spans_there(o)) {
		lose(o->device, ILLEGAL_ADDRESS);
		return;
	}
	kernels_run++;
	if (set.fault_at == kernels_run) {
		lose(o->device, ILLEGAL_ADDRESS);
		return;
	}
	long long us = set.slow_library_us;
	pthread_mutex_unlock(&lock);
	take_longer(us);
	o->call(o->args);
	pthread_mutex_lock(&lock);
	call_now = 0;
}

/* Whether the memory of one side of a copy is there: a device's has to be live, and the caller's own is his. */
static int there(const u8 *p, size_t pitch, const op *o, int host) {
	block *b = block_of(p, (o->height - 1) * pitch + o->width);
	if (b) return 1;
	if (host && !block_of(p, 1)) return 1;
	wrong("%zu bytes from %p on do not lie in one live block", (o->height - 1) * pitch + o->width, (const void *)p);
	lose(o->device, ILLEGAL_ADDRESS);
	return 0;
}

static void run_copy(const op *o) {
	const u8 *from = o->staged ? o->staged : o->from;
	size_t pitch = o->staged ? o->width : o->from_pitch;
	if (!o->staged && !there(o->from, o->from_pitch, o, o->from_host)) return;
	if (!there(o->to, o->to_pitch, o, o->to_host)) return;
	for (size_t i = 0; i < o->height; i++) memmove(o->to + i * o->to_pitch, from + i * pitch, o->width);
}

static void run_set(const op *o) {
	if (!there(o->to, 0, o, 0)) return;
	if (o->unit == 1) memset(o->to, (int)o->value, o->width);
	else
		for (size_t i = 0; i < o->width; i += (size_t)o->unit) memcpy(o->to + i, &o->value, (size_t)o->unit);
}

static void run_op(op *o);

/* Runs the nodes of a graph, in an order drawn from the seed. */
static void run_graph(const body *b) {
	char *done = calloc((size_t)b->count + 1, 1);
	for (int left = b->count; left > 0; left--) {
		int ready = 0, pick = -1;
		for (int i = 0; i < b->count; i++) {
			int free_of = !done[i];
			for (int j = 0; free_of && j < b->nodes[i]->dep_count; j++) free_of = done[b->nodes[i]->deps[j]];
			if (free_of && order_below((unsigned)++ready) == 0) pick = i;
		}
		done[pick] = 1;
		run_op(b->nodes[pick]);
	}
	free(done);
}

static void run_op(op *o) {
	executed_ops++;
	if (o->kind == O_MARK) {
		if (o->event) clock_gettime(CLOCK_MONOTONIC, &o->event->at);
		return;
	}
	if (o->kind == O_FREE) {
		drop_block(o->freed);
		return;
	}
	if (devices[o->device].lost) return;
	switch (o->kind) {
	case O_KERNEL: run_kernel(o); break;
	case O_COPY: run_copy(o); break;
	case O_SET: run_set(o); break;
	case O_GRAPH: run_graph(o->graph); break;
	case O_CALL: run_call(o); break;
	default: break;
	}
}

/* Runs the first command of a stream that may go on; 0 where there is none. Nothing else may be executing. */
static int step(void) {
	stream *pick = 0;
	unsigned ready = 0;
	for (size_t i = 0; i < stream_count; i++) {
		op *o = streams[i]->first;
		if (!o || (o->kind == O_WAIT && o->other->done < o->ticket)) continue;
		if (order_below(++ready) == 0) pick = streams[i];
	}
	if (!pick) return 0;
	op *o = pick->first;
	counter *call = call_now;
	call_now = 0;
	executing = 1;
	run_op(o);
	executing = 0;
	call_now = call;
	pick->first = o->next;
	if (!pick->first) pick->last = 0;
	pick->done++;
	free_op(o);
	pthread_cond_broadcast(&changed);
	return 1;
}

/* Waits for another thread's doing, for a while. */
static void pause_here(void) {
	counter *call = call_now;
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	t.tv_nsec += 20000000;
	if (t.tv_nsec >= 1000000000) {
		t.tv_sec++;
		t.tv_nsec -= 1000000000;
	}
	pthread_cond_timedwait(&changed, &lock, &t);
	call_now = call;
}

/* Waits until what was queued up to the ticket has run. */
static int wait_for(const stream *s, u64 ticket) {
	while (s->done < ticket) {
		if (executing || set.worker) {
			pause_here();
		} else if (!step()) {
			wrong("waits for what will never be");
			return LAUNCH_FAILED;
		}
	}
	return devices[s->device].lost;
}

static void drain(int device) {
	for (size_t i = 0; i < stream_count; i++)
		if (streams[i]->device == device) wait_for(streams[i], streams[i]->issued);
}

/* Lets some commands run because the host asks: it may do so for ever. */
static void give_way(unsigned most) {
	for (unsigned n = 1 + order_below(most); n > 0 && !executing && !set.worker; n--)
		if (!step()) return;
}

static void *work(void *unused) {
	pthread_mutex_lock(&lock);
	while (set.worker)
		if (executing || !step()) pause_here();
	pthread_mutex_unlock(&lock);
	return unused;
}

/* Starts the worker thread. It takes no signals, which are the host program's. */
static void start_worker(void) {
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	if (pthread_create(&worker, 0, work, 0) != 0) abort();
	pthread_detach(worker);
	pthread_sigmask(SIG_SETMASK, &before, 0);
}

/* A stream by its handle, which has to be of the context that is current. */
static stream *stream_of(void *h) {
	if ((uintptr_t)h <= 2) {
		wrong("the default stream is used");
		return 0;
	}
	stream *s = object(h, H_STREAM);
	if (s && s->device != current_device()) {
		wrong("the stream is of another context than the one that is current");
		return 0;
	}
	return s;
}

static void add_dep(int **list, int *count, size_t *room, int node) {
	for (int i = 0; i < *count; i++)
		if ((*list)[i] == node) return;
	*list = grow(*list, room, (size_t)*count + 1, sizeof **list);
	(*list)[(*count)++] = node;
}

static int invalidate(capture *c, int code) {
	c->invalid = 1;
	return code;
}

/* Records a command as a node. */
static int record_node(stream *s, op *o) {
	body *g = s->capture->graph;
	o->deps = malloc(((size_t)s->frontier_count + 1) * sizeof *o->deps);
	memcpy(o->deps, s->frontier, (size_t)s->frontier_count * sizeof *o->deps);
	o->dep_count = s->frontier_count;
	g->nodes = grow(g->nodes, &g->room, (size_t)g->count + 1, sizeof *g->nodes);
	g->nodes[g->count] = o;
	s->frontier_count = 0;
	add_dep(&s->frontier, &s->frontier_count, &s->frontier_room, g->count++);
	return SUCCESS;
}

/* Whether a range of the caller's memory is read or written by a command. */
static int touches(const op *o, const u8 *p, size_t n, int reads_only) {
	if (o->kind == O_GRAPH) {
		for (int i = 0; i < o->graph->count; i++)
			if (touches(o->graph->nodes[i], p, n, reads_only)) return 1;
		return 0;
	}
	if (o->kind == O_KERNEL) { /* which may read mapped memory */
		for (int i = 0; i < o->f->k->params; i++)
			if (o->f->k->pointers[i] && block_of(p, 1) == block_of((void *)(uintptr_t)o->values[i], 1)) return 1;
		return 0;
	}
	if (o->kind != O_COPY) return 0;
	size_t reads = (o->height - 1) * o->from_pitch + o->width, writes = (o->height - 1) * o->to_pitch + o->width;
	if (o->from_host && !o->staged && o->from < p + n && p < o->from + reads) return 1;
	return !reads_only && o->to_host && o->to < p + n && p < o->to + writes;
}

/* Poisons the caller's memory that a command will write, if nothing before it uses that: who does not wait reads poison. */
static void poison_target(const op *o) {
	if (o->kind == O_GRAPH) {
		for (int i = 0; i < o->graph->count; i++) {
			const op *n = o->graph->nodes[i];
			int used = 0;
			for (int j = 0; j < o->graph->count && n->kind == O_COPY && n->to_host; j++)
				used = used || touches(o->graph->nodes[j], n->to, n->width, 1);
			if (!used) poison_target(n);
		}
		return;
	}
	if (o->kind != O_COPY || !o->to_host || o->height != 1 || !block_of(o->to, o->width)) return;
	for (size_t i = 0; i < stream_count; i++)
		for (const op *p = streams[i]->first; p; p = p->next)
			if (touches(p, o->to, o->width, 0)) return;
	memset(o->to, POISON_BYTE, o->width);
}

/* Queues a command, or records it where the stream is captured. The command is the queue's then, also where this fails. */
static int enqueue(stream *s, op *o) {
	o->device = s->device;
	if (s->capture) {
		if (s->capture->invalid) {
			free_op(o);
			return CAPTURE_INVALIDATED;
		}
		return record_node(s, o);
	}
	poison_target(o);
	executed_early = executed_ops;
	if (s->last) s->last->next = o;
	else s->first = o;
	s->last = o;
	s->issued++;
	pthread_cond_broadcast(&changed);
	if ((long long)order_below(100) < set.early) give_way(3);
	return SUCCESS;
}

static op *new_op(op_kind kind) {
	op *o = calloc(1, sizeof *o);
	if (!o) abort();
	o->kind = kind;
	return o;
}

/* Queues a library's work, with arguments that are copied; 0, or why not. Its own memory, if any, is aligned to 256. */
static int queue_call(stream *s, void (*call)(const void *), const void *args, size_t n, const span *spans, int count, const void *workspace) {
	op *o = new_op(O_CALL);
	o->device = s->device;
	o->call = call;
	o->args = malloc(n);
	o->args_bytes = n;
	memcpy(o->args, args, n);
	memcpy(o->spans, spans, (size_t)count * sizeof *spans);
	o->span_count = count;
	int fits = spans_there(o);
	for (int i = 0; fits && i < count; i++)
		for (int j = 0; j < count; j++) {
			if (i == j || !spans[i].written || (u8 *)spans[i].at >= (u8 *)spans[j].at + spans[j].bytes || (u8 *)spans[j].at >= (u8 *)spans[i].at + spans[i].bytes) continue;
			wrong("what is written lies in what is read");
			fits = 0;
		}
	if ((uintptr_t)workspace % 256 != 0) {
		wrong("the work's own memory is at no multiple of 256");
		fits = 0;
	}
	if (!fits) {
		free_op(o);
		return INVALID_VALUE;
	}
	return enqueue(s, o);
}

/* Calls that may not be made while this thread captures, or, where a capture is global, while any does. */
static int refuse_in_capture(void) {
	int code = SUCCESS;
	for (size_t i = 0; i < stream_count; i++) {
		capture *c = streams[i]->capture;
		if (!c || c->origin != streams[i] || c->mode == 2) continue;
		if (c->mode == 1 && !pthread_equal(c->thread, pthread_self())) continue;
		wrong("may not be called while a stream is captured");
		code = invalidate(c, CAPTURE_UNSUPPORTED);
	}
	return code;
}

API(cuStreamCreate, READY | CURRENT, (void **out, unsigned flags), (out, flags)) {
	if (!out || flags > 1) return INVALID_VALUE;
	stream *s = calloc(1, sizeof *s);
	s->device = current_device();
	streams = grow(streams, &stream_room, stream_count + 1, sizeof *streams);
	streams[stream_count++] = s;
	*out = s->handle = make_handle(H_STREAM, s->device, s);
	return SUCCESS;
}

API(cuStreamDestroy_v2, READY | CURRENT | RELEASES, (void *h), (h)) {
	stream *s = stream_of(h);
	if (!s) return INVALID_HANDLE;
	if (s->capture) s->capture->invalid = 1;
	s->destroyed = 1; /* what it has queued still runs */
	drop_handle(h);
	return SUCCESS;
}

/* What waits for a stream or asks about it may not be done while it is captured, and ends the capture. */
#define NOT_CAPTURED(s) \
	if ((s)->capture) { \
		wrong("the stream is captured"); \
		return invalidate((s)->capture, CAPTURE_UNSUPPORTED); \
	}

API(cuStreamSynchronize, READY | CURRENT, (void *h), (h)) {
	stream *s = stream_of(h);
	if (!s) return INVALID_HANDLE;
	NOT_CAPTURED(s)
	return wait_for(s, s->issued);
}

API(cuStreamQuery, READY | CURRENT, (void *h), (h)) {
	stream *s = stream_of(h);
	if (!s) return INVALID_HANDLE;
	NOT_CAPTURED(s)
	if (s->done < s->issued) give_way(2);
	return s->done < s->issued ? NOT_READY : devices[s->device].lost;
}

API(cuCtxSynchronize, READY | CURRENT | UNSAFE, (void), ()) {
	int d = current_device();
	drain(d);
	return devices[d].lost;
}

API(cuEventCreate, READY | CURRENT, (void **out, unsigned flags), (out, flags)) {
	if (!out || flags > 7) return INVALID_VALUE;
	event *e = calloc(1, sizeof *e);
	e->device = current_device();
	e->timed = !(flags & 2);
	*out = make_handle(H_EVENT, e->device, e);
	return SUCCESS;
}

API(cuEventDestroy_v2, READY | RELEASES, (void *h), (h)) {
	event *e = object(h, H_EVENT);
	if (!e) return INVALID_HANDLE;
	drop_handle(h); /* the event stays: marks that are queued name it */
	return SUCCESS;
}

API(cuEventRecord, READY | CURRENT, (void *h, void *on), (h, on)) {
	event *e = object(h, H_EVENT);
	stream *s = stream_of(on);
	if (!e || !s) return INVALID_HANDLE;
	if (e->device != s->device) {
		wrong("event and stream are of different contexts");
		return INVALID_HANDLE;
	}
	if (s->capture) {
		if (s->capture->invalid) return CAPTURE_INVALIDATED;
		e->captured = s->capture;
		e->frontier_count = 0;
		for (int i = 0; i < s->frontier_count; i++) add_dep(&e->frontier, &e->frontier_count, &e->frontier_room, s->frontier[i]);
		return SUCCESS;
	}
	op *o = new_op(O_MARK);
	o->event = e;
	e->captured = 0;
	e->on = s;
	e->ticket = s->issued + 1;
	return enqueue(s, o);
}

static int event_done(const event *e) { return !e->on || e->on->done >= e->ticket; }

API(cuEventQuery, READY | UNSAFE, (void *h), (h)) {
	event *e = object(h, H_EVENT);
	if (!e) return INVALID_HANDLE;
	if (e->captured) {
		wrong("the event was last recorded in a capture");
		return CAPTURED_EVENT;
	}
	if (!event_done(e)) give_way(2);
	return event_done(e) ? devices[e->device].lost : NOT_READY;
}

API(cuEventSynchronize, READY | UNSAFE, (void *h), (h)) {
	event *e = object(h, H_EVENT);
	if (!e) return INVALID_HANDLE;
	if (e->captured) {
		wrong("the event was last recorded in a capture");
		return CAPTURED_EVENT;
	}
	return e->on ? wait_for(e->on, e->ticket) : SUCCESS;
}

API(cuEventElapsedTime, READY, (float *out, void *begin, void *end), (out, begin, end)) {
	event *a = object(begin, H_EVENT), *b = object(end, H_EVENT);
	if (!a || !b || !a->timed || !b->timed || !a->on || !b->on) return INVALID_HANDLE;
	if (!event_done(a) || !event_done(b)) return NOT_READY;
	*out = (float)(b->at.tv_sec - a->at.tv_sec) * 1e3f + (float)(b->at.tv_nsec - a->at.tv_nsec) * 1e-6f;
	return SUCCESS;
}

API(cuStreamWaitEvent, READY | CURRENT, (void *on, void *h, unsigned flags), (on, h, flags)) {
	stream *s = stream_of(on);
	event *e = object(h, H_EVENT);
	if (!e || !s) return INVALID_HANDLE;
	if (flags > 1) return INVALID_VALUE;
	if (e->captured) {
		capture *c = 0;
		for (size_t i = 0; i < stream_count; i++)
			if (streams[i]->capture == e->captured) c = e->captured;
		if (!c || c->invalid || (s->capture && s->capture != c)) {
			wrong("the event was recorded in another capture");
			if (s->capture) return invalidate(s->capture, c ? CAPTURE_MERGE : CAPTURE_ISOLATION);
			return CAPTURED_EVENT;
		}
		if (!s->capture) {
			s->capture = c;
			s->frontier_count = 0;
		}
		for (int i = 0; i < e->frontier_count; i++) add_dep(&s->frontier, &s->frontier_count, &s->frontier_room, e->frontier[i]);
		return SUCCESS;
	}
	if (s->capture) {
		wrong("a capture may not wait for an event from outside of it");
		return invalidate(s->capture, CAPTURE_ISOLATION);
	}
	if (!e->on) return SUCCESS;
	op *o = new_op(O_WAIT);
	o->other = e->on;
	o->ticket = e->ticket;
	return enqueue(s, o);
}

/* What a launch's configuration is, as the driver's interface lays it out. */
typedef struct {
	unsigned grid[3], threads[3], shared;
	void *stream, *attributes;
	unsigned attribute_count;
} launch_config;

static int check_launch(const function *f, const launch_config *c) {
	const kernel_entry *k = &f->k->entry;
	for (int d = 0; d < 3; d++)
		if (c->grid[d] == 0 || c->threads[d] == 0 || c->grid[d] > (d ? 65535u : 0x7fffffffu)) {
			wrong("kernel %s: a grid of %u × %u × %u groups of %u × %u × %u items", k->name, c->grid[0], c->grid[1], c->grid[2],
				c->threads[0], c->threads[1], c->threads[2]);
			return INVALID_VALUE;
		}
	if (c->threads[1] != 1 || c->threads[2] != 1 || c->threads[0] > 1024) {
		wrong("kernel %s: groups of %u × %u × %u items, where this driver knows rows of up to 1024", k->name, c->threads[0], c->threads[1], c->threads[2]);
		return INVALID_VALUE;
	}
	if ((int)c->threads[0] > k->threads) {
		wrong("kernel %s: groups of %u items, which was compiled for %d", k->name, c->threads[0], k->threads);
		return OUT_OF_RESOURCES;
	}
	if (c->shared > (unsigned)f->shared_most) {
		wrong("kernel %s: %u bytes of local memory, where %d are allowed", k->name, c->shared, f->shared_most);
		return INVALID_VALUE;
	}
	return SUCCESS;
}

/* The words of a kernel's parameters, one each, and more for the last one where that is a structure. */
static size_t value_words(const fake_kernel *k) {
	return (size_t)k->params + 1 + (k->params ? k->sizes[k->params - 1] / sizeof(u64) : 0);
}

/* Copies the parameters' values, which are the caller's again when the call returns. */
static int take_values(const fake_kernel *k, op *o, void **params, void **extra) {
	o->values = calloc(value_words(k), sizeof *o->values);
	void *list[PARAMS_MOST], *packed[5];
	u8 bytes[8 * PARAMS_MOST];
	if (params) {
		if (!read_caller(list, params, (size_t)k->params * sizeof *list)) return 0;
		for (int i = 0; i < k->params; i++)
			if (!list[i] || !read_caller(&o->values[i], list[i], k->sizes[i])) return 0;
		return 1;
	}
	if (!extra) return k->params == 0;
	if (!read_caller(packed, extra, sizeof packed) || packed[0] != (void *)1 || packed[2] != (void *)2 || packed[4]) return 0;
	size_t have, at = 0;
	if (!read_caller(&have, packed[3], sizeof have) || have > sizeof bytes || !read_caller(bytes, packed[1], have)) return 0;
	for (int i = 0; i < k->params; i++) {
		at = (at + k->sizes[i] - 1) / k->sizes[i] * k->sizes[i];
		if (at + k->sizes[i] > have) return 0;
		memcpy(&o->values[i], bytes + at, k->sizes[i]);
		at += k->sizes[i];
	}
	return at == have;
}

static int make_launch(const launch_config *c, function *f, void **params, void **extra, op **out) {
	int code = check_launch(f, c);
	if (code) return code;
	op *o = new_op(O_KERNEL);
	o->f = f;
	o->device = f->device;
	memcpy(o->grid, c->grid, sizeof o->grid);
	memcpy(o->threads, c->threads, sizeof o->threads);
	o->shared = c->shared;
	if (!take_values(f->k, o, params, extra)) {
		wrong("kernel %s has %d parameters, which these are not", f->k->entry.name, f->k->params);
		free_op(o);
		return INVALID_VALUE;
	}
	*out = o;
	return SUCCESS;
}

static int launch_kernel(const launch_config *c, void *h, void **params, void **extra) {
	function *f = object(h, H_FUNCTION);
	stream *s = stream_of(c->stream);
	if (!f || !s) return INVALID_HANDLE;
	if (f->device != s->device) {
		wrong("kernel and stream are of different contexts");
		return INVALID_HANDLE;
	}
	if (c->attribute_count > 0) {
		wrong("attributes of launches are none of this driver's");
		return NOT_SUPPORTED;
	}
	op *o;
	int code = make_launch(c, f, params, extra, &o);
	return code ? code : enqueue(s, o);
}

API(cuLaunchKernel, READY | CURRENT, (void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, void *s, void **params, void **extra),
	(f, gx, gy, gz, bx, by, bz, shared, s, params, extra)) {
	launch_config c = {{gx, gy, gz}, {bx, by, bz}, shared, s, 0, 0};
	return launch_kernel(&c, f, params, extra);
}

API(cuLaunchKernelEx, READY | CURRENT, (const launch_config *c, void *f, void **params, void **extra), (c, f, params, extra)) {
	launch_config own;
	if (!read_caller(&own, c, sizeof own)) return INVALID_VALUE;
	return launch_kernel(&own, f, params, extra);
}
