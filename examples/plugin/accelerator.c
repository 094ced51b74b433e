/*
 * A vendor's accelerator as a plugin, in one file: an imaginary processor with memory of its own, whose blocks are known by
 * handles that are no addresses of data; with images in blocks of eight channels (its layout "tiny-npu@1:c8"); with a thread that
 * does the runs one after another; with ten operators, and Conv followed by Relu as one.
 *
 *     gcc -O2 -shared -fPIC -o tiny-npu.so -I backend/plugin examples/plugin/accelerator.c -lm -lpthread
 *     carve run model.onnx --plugin ./tiny-npu.so --backend tiny-npu,cpu
 *
 * Read it from the end: query, processors, operators, supports, claim, compile, specialize, session, enqueue. What it leaves to
 * the host: queues (streams), notices of ended work, several sub-steps of a run, counts of what is alive.
 */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "carve_plugin.h"
#pragma GCC diagnostic ignored "-Wunused-parameter" /* the signatures are the table's */

#define STR(s) {s, sizeof(s) - 1}

static int is(carve_str s, const char *t) { return s.len == strlen(t) && memcmp(s.data, t, s.len) == 0; }

static int32_t fail(carve_error *err, int32_t status, const char *text) {
  if (err && err->text) {
    uint64_t n = strlen(text);
    err->len = n < err->cap ? n : err->cap;
    memcpy(err->text, text, err->len);
  }
  return status;
}

/* ------------------------------------------------------------------------------------------ the processor: memory, work */
/* A block of the unit's memory. Its handle is the address of this, so that no arithmetic leads from it to the data. */
typedef struct block {
  uint64_t bytes;
  void *data;
} block;
#define BLOCK(handle) ((block *)(uintptr_t)(handle))

static int32_t alloc(uint64_t b, uint64_t bytes, uint64_t align, carve_mem *out, carve_error *err) {
  block *p = malloc(sizeof *p);
  if (!p || bytes > 1ull << 34 || posix_memalign(&p->data, (size_t)align, (size_t)bytes) != 0)
    return free(p), fail(err, CARVE_OUT_OF_MEMORY, "the unit has no such block");
  p->bytes = bytes;
  out->handle = (uint64_t)(uintptr_t)p, out->bytes = (int64_t)bytes;
  return CARVE_OK;
}

static int32_t release(uint64_t b, uint64_t handle) {
  free(BLOCK(handle)->data), free(BLOCK(handle));
  return CARVE_OK;
}

/* at returns the address of n bytes of a block, NULL where there are none. */
static char *at(uint64_t h, uint64_t off, uint64_t n) {
  return h && off <= BLOCK(h)->bytes && n <= BLOCK(h)->bytes - off ? (char *)BLOCK(h)->data + off : NULL;
}

static float *data(const carve_tensor *t) {
  if (t->device_type == 1) return (float *)(void *)((char *)t->data + t->byte_offset);
  return (float *)(void *)at((uint64_t)(uintptr_t)t->data, t->byte_offset, (uint64_t)t->bytes);
}

static int32_t copy(uint64_t b, const carve_copy *const *copies, uint64_t n, uint64_t stream, carve_error *err) {
  for (uint64_t i = 0; i < n; i++) {
    const carve_copy *c = copies[i];
    char *dst = c->kind == CARVE_COPY_FROM ? (char *)(uintptr_t)c->dst : at(c->dst, c->dst_offset, c->bytes);
    char *src = c->kind == CARVE_COPY_TO ? (char *)(uintptr_t)c->src : at(c->src, c->src_offset, c->bytes);
    if (!dst || !src) return fail(err, CARVE_BAD_ARGUMENT, "the copy does not fit");
    memcpy(dst, src, c->bytes);
  }
  return CARVE_OK;
}

/* A sequence of runs, of which one is under way at a time: it is its own event. */
typedef struct session {
  struct session *next; /* that is queued behind it */
  const struct instance *in;
  const carve_run *run;
  int done;
  int32_t status;
} session;
#define SESSION(handle) ((session *)(uintptr_t)(handle))

static struct {
  pthread_mutex_t mu;
  pthread_cond_t work, over;
  session *first, *last;
  int started;
} unit = {.mu = PTHREAD_MUTEX_INITIALIZER, .work = PTHREAD_COND_INITIALIZER, .over = PTHREAD_COND_INITIALIZER};

static int32_t run(const session *s);

static void *worker(void *arg) {
  pthread_mutex_lock(&unit.mu);
  for (;;) {
    while (!unit.first) pthread_cond_wait(&unit.work, &unit.mu);
    session *s = unit.first;
    unit.first = s->next;
    pthread_mutex_unlock(&unit.mu);
    int32_t status = run(s);
    pthread_mutex_lock(&unit.mu);
    s->status = status, s->done = 1;
    pthread_cond_broadcast(&unit.over);
  }
  return NULL;
}

static int32_t enqueue(uint64_t h, uint64_t *event, carve_error *err) {
  session *s = SESSION(h);
  pthread_mutex_lock(&unit.mu);
  s->done = 0, s->next = NULL;
  if (unit.first) unit.last->next = s;
  else unit.first = s;
  unit.last = s;
  pthread_cond_signal(&unit.work);
  pthread_mutex_unlock(&unit.mu);
  *event = h;
  return CARVE_OK;
}

static int32_t event_wait(uint64_t h, uint64_t ns, carve_error *err) {
  struct timespec t;
  int late = 0;
  clock_gettime(CLOCK_REALTIME, &t);
  ns += (uint64_t)t.tv_nsec;
  t.tv_sec += (time_t)(ns / 1000000000u), t.tv_nsec = (long)(ns % 1000000000u);
  pthread_mutex_lock(&unit.mu);
  while (!SESSION(h)->done && !late) late = pthread_cond_timedwait(&unit.over, &unit.mu, &t) != 0;
  int32_t status = SESSION(h)->done ? SESSION(h)->status : CARVE_PENDING;
  pthread_mutex_unlock(&unit.mu);
  return status < 0 ? fail(err, status, "the work failed") : status;
}

static int32_t event_poll(uint64_t h, carve_error *err) { return event_wait(h, 0, err); }

static int32_t nothing(uint64_t handle) { /* closes what holds nothing */
  return CARVE_OK;
}

/* ------------------------------------------------------------------------------------------------- formats and converters */
static const carve_format rows = {sizeof rows, 12, 0, 0, {0, 0}};
static const carve_format c8 = {sizeof c8, 12, 0, 0, STR("tiny-npu@1:c8")};
static const carve_format host_rows = {sizeof host_rows, 1, 0, 0, {0, 0}};

static int64_t blocks_of(int64_t channels) { return (channels + 7) / 8; }

/* place is the index of pixel y, x (of plane pixels) of channel c of image n. */
static int64_t place(int blocked, int64_t n, int64_t c, int64_t channels, int64_t pixel, int64_t plane) {
  return blocked ? ((n * blocks_of(channels) + c / 8) * plane + pixel) * 8 + c % 8 : (n * channels + c) * plane + pixel;
}

static int is_c8(const carve_format *f) { return f && f->layout.len > 0; }

static int32_t converted_size(uint64_t b, const carve_format *f, const carve_tensor *t, int64_t *bytes, carve_error *err) {
  if (!is_c8(f) || t->ndim != 4 || t->type != 1) return fail(err, CARVE_BAD_ARGUMENT, "c8 is for float32 images");
  *bytes = 4 * t->shape[0] * blocks_of(t->shape[1]) * 8 * t->shape[2] * t->shape[3];
  return CARVE_OK;
}

static void reorder(const int64_t *d, int to8, float *to, int from8, const float *from) {
  int64_t c = d[1], plane = d[2] * d[3];
  if (to8) memset(to, 0, (size_t)(d[0] * blocks_of(c) * 8 * plane) * sizeof *to);
  for (int64_t k = 0; k < d[0] * c; k++)
    for (int64_t p = 0; p < plane; p++) to[place(to8, k / c, k % c, c, p, plane)] = from[place(from8, k / c, k % c, c, p, plane)];
}

static int32_t convert(uint64_t b, uint32_t i, const carve_tensor *d, const carve_tensor *s, uint64_t stream, carve_error *err) {
  float *to = data(d), *from = data(s);
  if (!to || !from) return fail(err, CARVE_BAD_ARGUMENT, "the conversion does not fit");
  reorder(d->shape, is_c8(d->format), to, is_c8(s->format), from);
  return CARVE_OK;
}

static const carve_converter conversions[] = {
    {sizeof(carve_converter), 0, STR("npu-upload-c8"), &host_rows, &c8, 2, 4, 4, 5000, 0.3},
    {sizeof(carve_converter), 1, STR("npu-download-c8"), &c8, &host_rows, 2, 4, 4, 5000, 0.3},
};

static int32_t converters(uint64_t b, const carve_converter *const **out, uint64_t *n) {
  static const carve_converter *list[] = {&conversions[0], &conversions[1]};
  *out = list, *n = 2;
  return CARVE_OK;
}

/* --------------------------------------------------------------------------------------------------------------- kernels */
enum { CONV, MAX_POOL, RELU, TANH, NEG, SIGMOID, ADD, SUB, MUL, MATMUL, N_OPS, CONVERT };

static const carve_op ops[N_OPS] = {
#define OP(name, since) {sizeof(carve_op), since, 0, 0, {0, 0}, STR(name), 2, 0}
    OP("Conv", 1), OP("MaxPool", 1), OP("Relu", 6), OP("Tanh", 6), OP("Neg", 6),
    OP("Sigmoid", 6), OP("Add", 7), OP("Sub", 7), OP("Mul", 7), OP("MatMul", 1),
};

typedef struct {
  int rank, blocked;
  int64_t d[4];
  uint32_t symbol[4];
  char kind; /* 'i'nput, 'o'utput, 'c'onstant or 'b'uffer, of the run */
  int at;    /* which */
} value;

typedef struct {
  int op, relu, x[3], y; /* values, x[2] is -1 for none */
  int64_t k[2], s[2], p[4], dil[2], group;
} step;

static int64_t elements(const value *v) {
  int64_t n = 1;
  for (int i = 0; i < v->rank; i++) n *= v->blocked && i == 1 ? 8 * blocks_of(v->d[1]) : v->d[i];
  return n;
}

/* window computes Conv and MaxPool over images in c8. */
static void window(const step *s, const value *vx, const value *vy, const value *vw, const float *x, const float *w, const float *bias, float *y) {
  int64_t C = vx->d[1], H = vx->d[2], W = vx->d[3], M = vy->d[1], OH = vy->d[2], OW = vy->d[3], per = vw ? vw->d[1] : 1;
  memset(y, 0, (size_t)elements(vy) * sizeof *y);
  for (int64_t n = 0; n < vx->d[0]; n++)
    for (int64_t m = 0; m < M; m++)
      for (int64_t o = 0; o < OH * OW; o++) {
        double sum = bias ? bias[m] : 0;
        float top = -INFINITY;
        for (int64_t c = 0; c < per; c++)
          for (int64_t k = 0; k < s->k[0] * s->k[1]; k++) {
            int64_t iy = o / OW * s->s[0] - s->p[0] + k / s->k[1] * s->dil[0], ix = o % OW * s->s[1] - s->p[1] + k % s->k[1] * s->dil[1];
            if (iy < 0 || ix < 0 || iy >= H || ix >= W) continue;
            float v = x[place(1, n, vw ? m / (M / s->group) * per + c : m, C, iy * W + ix, H * W)];
            if (vw) sum += (double)v * w[(m * per + c) * s->k[0] * s->k[1] + k];
            top = v > top ? v : top;
          }
        float r = vw ? (float)sum : top;
        y[place(1, n, m, M, o, OH * OW)] = s->relu && r < 0 ? 0 : r;
      }
}

static float point(int op, float a, float b) {
  if (op <= NEG) return op == RELU ? (a < 0 ? 0 : a) : op == TANH ? tanhf(a) : -a;
  return op == SIGMOID ? 1 / (1 + expf(-a)) : op == ADD ? a + b : op == SUB ? a - b : a * b;
}

static void matmul(const value *a, const value *b, const float *x, const float *w, float *y) {
  int64_t m = a->d[0], k = a->d[1], n = b->d[1];
  for (int64_t i = 0; i < m * n; i++) {
    double sum = 0;
    for (int64_t j = 0; j < k; j++) sum += (double)x[i / n * k + j] * w[j * n + i % n];
    y[i] = (float)sum;
  }
}

/* ------------------------------------------------------------------------------------------------------------- planning */
static int op_of(const carve_node *n) {
  const carve_graph *b = n->body; /* Conv and Relu as one */
  if (is(n->domain, "carve") && is(n->op, "Convert")) return CONVERT; /* between the unit's two formats, within a group */
  if (b) return b->n_nodes == 2 && is(b->nodes[0]->op, "Conv") && is(b->nodes[1]->op, "Relu") ? CONV : -1;
  for (int i = 0; i < N_OPS; i++)
    if (n->domain.len == 0 && n->op.len == ops[i].name.len && memcmp(n->op.data, ops[i].name.data, n->op.len) == 0) return i;
  return -1;
}

static const carve_attr *attr(const carve_node *n, const char *name) {
  for (uint64_t i = 0; i < n->n_attrs; i++)
    if (is(n->attrs[i]->name, name)) return n->attrs[i];
  return NULL;
}

static void ints(const carve_node *n, const char *name, int64_t *out, int count, int64_t def) {
  const carve_attr *a = attr(n, name);
  for (int i = 0; i < count; i++) out[i] = a && a->n == (uint64_t)count ? a->ints[i] : def;
}

static const char *refusal(const carve_graph *g, const carve_node *n, int op) {
  if (n->body) return NULL; /* claim has looked */
  const carve_value *x = g->values[n->inputs[0]], *y = g->values[n->outputs[0]];
  const carve_attr *a = attr(n, "auto_pad");
  if (x->ndim < 1 || x->ndim > 4 || y->ndim < 1 || y->ndim > 4 || n->n_outputs != 1) return "one result, of 1 to 4 dims";
  if (op <= MAX_POOL && (x->ndim != 4 || (a && !is(a->s, "NOTSET")))) return "images, and explicit padding";
  if (op == MAX_POOL && ((a = attr(n, "ceil_mode")) && a->i)) return "no ceil_mode";
  if (op == MATMUL && (x->ndim != 2 || g->values[n->inputs[1]]->ndim != 2)) return "two matrices";
  if (op >= ADD && op <= MUL) { /* equal shapes */
    const carve_value *b = g->values[n->inputs[1]];
    int same = x->ndim == b->ndim;
    for (int i = 0; same && i < x->ndim; i++)
      same = x->dims[i] == b->dims[i] && (x->dims[i] >= 0 || x->symbols[i] == b->symbols[i]);
    if (!same) return "operands of equal shapes";
  }
  return NULL;
}

#define PORT(f) {sizeof(carve_port_format), 0, f}
static const carve_port_format in_rows = PORT(&rows), in_c8 = PORT(&c8), either = {sizeof either, 1, NULL};
static const carve_port_format *const images[] = {&in_c8, &in_rows, &in_rows}, *const any[] = {&either, &either};
static const carve_port_format *const matrices[] = {&in_rows, &in_rows};
static const carve_format *const both[] = {&c8, &rows};
static const carve_formats choice = {sizeof choice, 2, both};
static const carve_formats *const choices[] = {&choice};
#define SIGNATURE(name, n, ports, vars) {sizeof(carve_signature), n, 1, vars, STR(name), ports, ports, choices, 0}
static const carve_signature image1 = SIGNATURE("c8", 1, images, 0), image2 = SIGNATURE("c8", 2, images, 0), image3 = SIGNATURE("c8", 3, images, 0),
                             row1 = SIGNATURE("row-major", 1, matrices, 0), row2 = SIGNATURE("row-major", 2, matrices, 0),
                             any1 = SIGNATURE("any", 1, any, 1), any2 = SIGNATURE("any", 2, any, 1);

static int32_t supports(uint64_t b, const carve_graph *g, const uint32_t *nodes, uint64_t n, carve_support *const *out, carve_error *err) {
  static const carve_signature *const list[] = {&image1, &image2, &image3, &row1, &row2, &any1, &any2};
  for (uint64_t i = 0; i < n; i++) {
    const carve_node *x = g->nodes[nodes[i]];
    int op = op_of(x);
    const char *why = op < 0 ? "the unit lacks the operator" : refusal(g, x, op);
    carve_error text = {sizeof text, 0, out[i]->text, out[i]->cap, 0};
    out[i]->status = why ? fail(&text, CARVE_REFUSED, why) : CARVE_OK, out[i]->len = text.len;
    if (why) continue;
    int four = g->values[x->inputs[0]]->ndim == 4 && op != SIGMOID; /* the padding of c8 has to stay zero */
    out[i]->n_signatures = 1;
    out[i]->signatures = &list[op <= MAX_POOL ? x->n_inputs - 1 : (four && op <= MUL ? 4 : 2) + x->n_inputs];
  }
  return CARVE_OK;
}

static int32_t operators(uint64_t b, const carve_op *const **out, uint64_t *n) {
  static const carve_op *list[N_OPS];
  for (int i = 0; i < N_OPS; i++) list[i] = &ops[i];
  *out = list, *n = N_OPS;
  return CARVE_OK;
}

#define MAX_CLAIMS 1024
typedef struct {
  carve_claims head;
  const carve_claim *list[MAX_CLAIMS];
  carve_claim claims[MAX_CLAIMS];
  uint32_t nodes[MAX_CLAIMS][2];
} claims;

/* reads counts who reads a value; the graph's outputs have a reader beside its nodes. */
static uint32_t reads(const carve_graph *g, uint32_t value) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < g->n_outputs; i++) n += g->outputs[i] == value;
  for (uint32_t i = 0; i < g->n_nodes; i++)
    for (uint32_t k = 0; k < g->nodes[i]->n_inputs; k++) n += g->nodes[i]->inputs[k] == value;
  return n;
}

/* claim takes every Conv that a Relu follows, where nobody else reads what is between. */
static int32_t claim(uint64_t b, const carve_graph *g, const carve_claims **out, carve_error *err) {
  claims *all = calloc(1, sizeof *all);
  uint32_t n = 0;
  if (!all) return fail(err, CARVE_OUT_OF_MEMORY, "claims");
  for (uint32_t i = 0; i + 1 < g->n_nodes && n < MAX_CLAIMS; i++) {
    const carve_node *conv = g->nodes[i], *relu = g->nodes[i + 1];
    if (op_of(conv) != CONV || op_of(relu) != RELU || relu->inputs[0] != conv->outputs[0] || refusal(g, conv, CONV)) continue;
    if (reads(g, conv->outputs[0]) > 1) continue;
    all->nodes[n][0] = i, all->nodes[n][1] = i + 1;
    all->claims[n] = (carve_claim){sizeof(carve_claim), CARVE_CLAIM_ATOMIC, STR("conv-relu"), all->nodes[n], 2, 0};
    all->list[n] = &all->claims[n], n++;
  }
  all->head = (carve_claims){sizeof(carve_claims), n, all->list};
  *out = &all->head;
  return CARVE_OK;
}

static void release_claims(uint64_t b, const carve_claims *c) {
  free((void *)c);
}

/* -------------------------------------------------------------------------------------------------- compiling and running */
typedef struct {
  uint32_t n_values, n_steps;
  step *steps;
  value values[];
} executable; /* in one block of memory with its steps */

typedef struct instance {
  carve_requirements needs;
  const executable *e;
  value *values; /* with their sizes */
  carve_buffer *buffers;
  const carve_buffer *list[];
} instance; /* in one block with what it points to */

/* drop gives back what one block holds: executables, instances and sessions. */
static int32_t drop(uint64_t handle) {
  free((void *)(uintptr_t)handle);
  return CARVE_OK;
}

static int32_t compile(uint64_t b, const carve_graph *g, const carve_options *o, uint64_t *out, carve_error *err) {
  executable *e = calloc(1, sizeof *e + g->n_values * sizeof(value) + g->n_nodes * sizeof(step));
  if (!e) return fail(err, CARVE_OUT_OF_MEMORY, "executable");
  e->n_values = g->n_values, e->n_steps = g->n_nodes, e->steps = (step *)(void *)&e->values[g->n_values];
  for (uint32_t i = 0; i < g->n_values; i++) {
    value *v = &e->values[i];
    v->rank = g->values[i]->ndim, v->blocked = is_c8(g->values[i]->format), v->kind = 'b';
    for (int k = 0; k < v->rank && k < 4; k++) {
      v->d[k] = g->values[i]->dims[k];
      v->symbol[k] = v->d[k] < 0 ? g->values[i]->symbols[k] : 0;
    }
  }
  for (uint32_t i = 0; i < g->n_constants; i++) e->values[g->constants[i]].kind = 'c', e->values[g->constants[i]].at = (int)i;
  for (uint32_t i = 0; i < g->n_outputs; i++) e->values[g->outputs[i]].kind = 'o', e->values[g->outputs[i]].at = (int)i;
  for (uint32_t i = 0; i < g->n_inputs; i++) e->values[g->inputs[i]].kind = 'i', e->values[g->inputs[i]].at = (int)i;
  for (uint32_t i = 0; i < g->n_nodes; i++) {
    const carve_node *n = g->nodes[i], *c = n->body ? n->body->nodes[0] : n;
    step *s = &e->steps[i];
    s->op = op_of(n), s->relu = n->body != NULL, s->y = (int)n->outputs[0], s->group = 1;
    for (uint32_t k = 0; k < 3; k++) s->x[k] = k < n->n_inputs && n->inputs[k] != CARVE_NO_VALUE ? (int)n->inputs[k] : -1;
    if (s->op > MAX_POOL) continue;
    ints(c, "strides", s->s, 2, 1), ints(c, "pads", s->p, 4, 0), ints(c, "dilations", s->dil, 2, 1), ints(c, "kernel_shape", s->k, 2, 0);
    if (s->op == CONV) s->k[0] = e->values[s->x[1]].d[2], s->k[1] = e->values[s->x[1]].d[3];
    if (attr(c, "group")) s->group = attr(c, "group")->i;
  }
  *out = (uint64_t)(uintptr_t)e;
  return CARVE_OK;
}

static int32_t specialize(uint64_t h, const carve_binding *bindings, uint64_t n, uint64_t *out, carve_error *err) {
  const executable *e = (const executable *)(uintptr_t)h;
  size_t values = e->n_values * sizeof(value), buffers = e->n_values * sizeof(carve_buffer), list = e->n_values * sizeof(void *);
  instance *in = calloc(1, sizeof *in + list + buffers + values);
  if (!in) return fail(err, CARVE_OUT_OF_MEMORY, "instance");
  in->e = e, in->buffers = (carve_buffer *)(void *)&in->list[e->n_values], in->values = (value *)(void *)&in->buffers[e->n_values];
  value *v = memcpy(in->values, e->values, values);
  in->needs.size = sizeof in->needs, in->needs.buffers = in->list;
  for (uint32_t i = 0; i < e->n_values; i++) {
    for (int k = 0; k < v[i].rank; k++) {
      for (uint64_t s = 0; s < n; s++)
        if (v[i].symbol[k] && bindings[s].symbol == v[i].symbol[k]) v[i].d[k] = bindings[s].value;
      if (v[i].d[k] < 0) return free(in), fail(err, CARVE_NEEDS_SHAPES, "a size is open");
    }
    if (v[i].kind != 'b') continue;
    v[i].at = (int)in->needs.n_buffers;
    in->buffers[v[i].at] = (carve_buffer){sizeof(carve_buffer), 0, 0, 0, 4 * elements(&v[i]), 0};
    in->list[in->needs.n_buffers++] = &in->buffers[v[i].at];
  }
  *out = (uint64_t)(uintptr_t)in;
  return CARVE_OK;
}

static int32_t requirements(uint64_t h, const carve_requirements **out) { return *out = &((instance *)(uintptr_t)h)->needs, CARVE_OK; }

static int32_t session_open(uint64_t h, const carve_run *r, uint64_t stream, uint64_t *out, carve_error *err) {
  session *s = malloc(sizeof *s);
  if (!s) return fail(err, CARVE_OUT_OF_MEMORY, "session");
  *s = (session){.in = (instance *)(uintptr_t)h, .run = r};
  *out = (uint64_t)(uintptr_t)s;
  return CARVE_OK;
}

static float *operand(const session *s, int i) {
  if (i < 0) return NULL;
  const value *v = &s->in->values[i];
  carve_tensor *const *own = v->kind == 'c' ? s->run->constants : s->run->buffers;
  carve_tensor *const *list = v->kind == 'i' ? s->run->inputs : v->kind == 'o' ? s->run->outputs : own;
  return data(list[v->at]);
}

static int32_t run(const session *s) {
  const executable *e = s->in->e;
  for (uint32_t i = 0; i < e->n_steps; i++) {
    const step *t = &e->steps[i];
    const value *v = s->in->values, *x = &v[t->x[0]], *y = &v[t->y];
    float *a = operand(s, t->x[0]), *b = operand(s, t->x[1]), *c = operand(s, t->x[2]), *r = operand(s, t->y);
    if (*s->run->cancel) return CARVE_CANCELLED;
    if (elements(y) == 0) continue;
    if (!a || !r || (t->x[1] >= 0 && !b)) return CARVE_BAD_ARGUMENT;
    if (t->op <= MAX_POOL) window(t, x, y, t->op == CONV ? &v[t->x[1]] : NULL, a, b, c, r);
    else if (t->op == MATMUL) matmul(x, &v[t->x[1]], a, b, r);
    else if (t->op == CONVERT) reorder(x->d, y->blocked, r, x->blocked, a);
    else for (int64_t k = 0; k < elements(y); k++) r[k] = point(t->op, a[k], b ? b[k] : 0);
  }
  return CARVE_OK;
}

/* --------------------------------------------------------------------------------------------------------------- the table */
static int32_t processors(const carve_processor *const **out, uint64_t *n, carve_error *err) {
  static const carve_processor unit0 = {sizeof unit0, 0, 12, 0, CARVE_PROCESSOR_OWN_THREADS | CARVE_PROCESSOR_REPEATS, 1 << 30, STR("tiny-npu"), STR("imaginary unit"), {0, 0}};
  static const carve_processor *const list[] = {&unit0};
  *out = list, *n = 1;
  return CARVE_OK;
}

static int32_t open_unit(uint32_t i, const carve_str *options, uint64_t n, uint64_t *out, carve_error *err) {
  if (n) return fail(err, CARVE_BAD_ARGUMENT, "the unit has no options");
  pthread_mutex_lock(&unit.mu);
  if (!unit.started) unit.started = pthread_create(&(pthread_t){0}, NULL, worker, NULL) == 0;
  pthread_mutex_unlock(&unit.mu);
  *out = 1;
  return unit.started ? CARVE_OK : fail(err, CARVE_FAILED, "no thread");
}

const carve_plugin *carve_plugin_query(const carve_query *q) {
  static const carve_plugin table = {
      .size = sizeof table, .abi_major = CARVE_ABI_MAJOR, .abi_minor = CARVE_ABI_MINOR, .name = STR("tiny-npu"), .version = STR("1"),
      .vendor = STR("carve"), .processors = processors, .open = open_unit, .close = nothing, .operators = operators,
      .supports = supports, .claim = claim, .release_claims = release_claims, .compile = compile, .executable_close = drop,
      .specialize = specialize, .instance_close = drop, .requirements = requirements, .session_open = session_open, .enqueue = enqueue,
      .session_close = drop, .event_poll = event_poll, .event_wait = event_wait, .event_close = nothing, .alloc = alloc, .free = release,
      .copy = copy, .converters = converters, .converted_size = converted_size, .convert = convert};
  return q->abi_major == CARVE_ABI_MAJOR ? &table : NULL;
}
