/* Captures, and graphs made of them. */

API(cuStreamBeginCapture_v2, READY | CURRENT, (void *h, int mode), (h, mode)) {
	stream *s = stream_of(h);
	if (!s) return INVALID_HANDLE;
	if (mode < 0 || mode > 2) return INVALID_VALUE;
	if (s->capture) {
		wrong("the stream is captured already");
		return CAPTURE_UNSUPPORTED;
	}
	capture *c = calloc(1, sizeof *c);
	c->graph = calloc(1, sizeof *c->graph);
	c->graph->users = 1;
	c->mode = mode;
	c->thread = pthread_self();
	c->origin = s;
	s->capture = c;
	s->frontier_count = 0;
	return SUCCESS;
}

/* Whether every node comes before the end of the stream that the capture began on. */
static int joined(const capture *c) {
	char *seen = calloc((size_t)c->graph->count + 1, 1);
	for (int i = 0; i < c->origin->frontier_count; i++) seen[c->origin->frontier[i]] = 1;
	int all = 1;
	for (int i = c->graph->count - 1; i >= 0; i--) {
		if (!seen[i]) all = 0;
		for (int j = 0; seen[i] && j < c->graph->nodes[i]->dep_count; j++) seen[c->graph->nodes[i]->deps[j]] = 1;
	}
	free(seen);
	return all;
}

API(cuStreamEndCapture, READY | CURRENT | RELEASES, (void *h, void **out), (h, out)) {
	stream *s = stream_of(h);
	if (!s) return INVALID_HANDLE;
	capture *c = s->capture;
	*out = 0;
	if (!c || c->origin != s) {
		wrong("no capture began on this stream");
		return c ? invalidate(c, CAPTURE_UNMATCHED) : INVALID_VALUE;
	}
	if (c->mode != 2 && !pthread_equal(c->thread, pthread_self())) {
		wrong("the capture began on another thread");
		return invalidate(c, CAPTURE_WRONG_THREAD);
	}
	int code = c->invalid ? CAPTURE_INVALIDATED : SUCCESS;
	if (!code && !joined(c)) {
		wrong("a stream was not joined");
		code = CAPTURE_UNJOINED;
	}
	for (size_t i = 0; i < stream_count; i++)
		if (streams[i]->capture == c) streams[i]->capture = 0;
	if (code || failing) drop_body(c->graph); /* with an error there is no graph */
	else *out = make_handle(H_GRAPH, s->device, c->graph);
	return code; /* the capture itself stays, as events still name it */
}

API(cuStreamIsCapturing, READY | CURRENT, (void *h, int *out), (h, out)) {
	stream *s = stream_of(h);
	if (!s) return INVALID_HANDLE;
	*out = !s->capture ? 0 : s->capture->invalid ? 2 : 1;
	return SUCCESS;
}

API(cuGraphDestroy, READY | RELEASES, (void *h), (h)) {
	body *g = object(h, H_GRAPH);
	if (!g) return INVALID_HANDLE;
	drop_handle(h);
	drop_body(g);
	return SUCCESS;
}

API(cuGraphGetNodes, READY, (void *h, void **out, size_t *count), (h, out, count)) {
	body *g = object(h, H_GRAPH);
	if (!g) return INVALID_HANDLE;
	size_t most = out ? *count : 0;
	*count = (size_t)g->count;
	for (int i = 0; i < g->count && (size_t)i < most; i++) {
		if (!g->nodes[i]->handle) g->nodes[i]->handle = make_handle(H_NODE, g->nodes[i]->device, g->nodes[i]);
		out[i] = g->nodes[i]->handle;
	}
	return SUCCESS;
}

API(cuGraphNodeGetType, READY, (void *h, int *out), (h, out)) {
	op *o = object(h, H_NODE);
	if (!o) return INVALID_HANDLE;
	*out = o->kind == O_KERNEL || o->kind == O_CALL ? 0 : o->kind == O_COPY ? 1 : o->kind == O_SET ? 2 : 4;
	return SUCCESS;
}

/* A body of one's own, with copies of the nodes. */
static body *copy_body(const body *from) {
	body *b = calloc(1, sizeof *b);
	b->users = 1;
	b->nodes = calloc((size_t)from->count + 1, sizeof *b->nodes);
	for (; b->count < from->count; b->count++) {
		const op *o = from->nodes[b->count];
		op *n = b->nodes[b->count] = new_op(o->kind);
		*n = *o;
		n->handle = 0;
		n->next = 0;
		n->deps = malloc(((size_t)o->dep_count + 1) * sizeof *n->deps);
		memcpy(n->deps, o->deps, (size_t)o->dep_count * sizeof *n->deps);
		if (o->kind == O_KERNEL) {
			n->values = malloc(value_words(o->f->k) * sizeof *n->values);
			memcpy(n->values, o->values, value_words(o->f->k) * sizeof *n->values);
		}
		if (o->kind == O_CALL) {
			n->args = malloc(o->args_bytes);
			memcpy(n->args, o->args, o->args_bytes);
		}
		if (o->graph) o->graph->users++;
	}
	return b;
}

typedef struct {
	body *now, *from; /* what it launches, and the graph that it was made of, whose nodes are named */
} graph_exec;

API(cuGraphInstantiateWithFlags, READY | CURRENT, (void **out, void *h, unsigned long long flags), (out, h, flags)) {
	body *g = object(h, H_GRAPH);
	if (!g) return INVALID_HANDLE;
	if (flags > 15) return INVALID_VALUE;
	graph_exec *x = calloc(1, sizeof *x);
	x->now = copy_body(g);
	x->from = g;
	*out = make_handle(H_EXEC, current_device(), x);
	return SUCCESS;
}

API(cuGraphExecDestroy, READY | RELEASES, (void *h), (h)) {
	graph_exec *x = object(h, H_EXEC);
	if (!x) return INVALID_HANDLE;
	drop_handle(h);
	drop_body(x->now);
	free(x);
	return SUCCESS;
}

static graph_exec *exec_of(void *h) {
	handle_entry *e = entry_of(h, H_EXEC);
	if (e && e->device != current_device()) {
		wrong("the graph is of another context than the one that is current");
		return 0;
	}
	return e ? e->of : 0;
}

API(cuGraphUpload, READY | CURRENT, (void *h, void *on), (h, on)) {
	stream *s = stream_of(on);
	return exec_of(h) && s ? SUCCESS : INVALID_HANDLE;
}

API(cuGraphLaunch, READY | CURRENT, (void *h, void *on), (h, on)) {
	graph_exec *x = exec_of(h);
	stream *s = stream_of(on);
	if (!x || !s) return INVALID_HANDLE;
	if (s->capture) {
		wrong("a graph within a graph is none of this driver's");
		return invalidate(s->capture, NOT_SUPPORTED);
	}
	op *o = new_op(O_GRAPH);
	o->graph = x->now;
	x->now->users++;
	return enqueue(s, o);
}

/* Before a change, launches that are under way get to keep what they had. */
static void own_body(graph_exec *x) {
	if (x->now->users == 1) return;
	body *b = copy_body(x->now);
	drop_body(x->now);
	x->now = b;
}

typedef struct {
	int result;
	void *node, *from;
} update_result;

API(cuGraphExecUpdate_v2, READY | CURRENT, (void *h, void *with, update_result *result), (h, with, result)) {
	graph_exec *x = exec_of(h);
	body *g = object(with, H_GRAPH);
	if (!x || !g || !result) return INVALID_HANDLE;
	if (set.driver < 12000) return NOT_SUPPORTED;
	*result = (update_result){0, 0, 0};
	if (g->count != x->now->count) result->result = 2;
	for (int i = 0; i < g->count && !result->result; i++) {
		const op *a = g->nodes[i], *b = x->now->nodes[i];
		if (a->kind != b->kind) result->result = 3;
		else if (a->dep_count != b->dep_count || memcmp(a->deps, b->deps, (size_t)a->dep_count * sizeof *a->deps) != 0) result->result = 2;
		else if (a->kind == O_KERNEL && a->f != b->f) result->result = 4;
	}
	if (result->result) return UPDATE_FAILURE;
	drop_body(x->now);
	x->now = copy_body(g);
	return SUCCESS;
}

typedef struct {
	void *f;
	unsigned grid[3], threads[3], shared;
	void **params, **extra;
	void *kernel, *context;
} node_params;

API(cuGraphExecKernelNodeSetParams_v2, READY | CURRENT, (void *h, void *node, const node_params *p), (h, node, p)) {
	graph_exec *x = exec_of(h);
	op *o = object(node, H_NODE);
	function *f = object(p->f, H_FUNCTION);
	if (!x || !o || !f) return INVALID_HANDLE;
	own_body(x);
	for (int i = 0; i < x->from->count && i < x->now->count; i++) {
		if (x->from->nodes[i] != o) continue;
		if (o->kind != O_KERNEL) return INVALID_VALUE;
		launch_config c = {{p->grid[0], p->grid[1], p->grid[2]}, {p->threads[0], p->threads[1], p->threads[2]}, p->shared, 0, 0, 0};
		op *n;
		int code = make_launch(&c, f, p->params, p->extra, &n);
		if (code) return code;
		op *old = x->now->nodes[i];
		n->deps = old->deps;
		n->dep_count = old->dep_count;
		old->deps = 0;
		x->now->nodes[i] = n;
		free_op(old);
		return SUCCESS;
	}
	wrong("the node is not of the graph");
	return INVALID_VALUE;
}
