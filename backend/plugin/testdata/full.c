/*
 * The accelerator of examples/plugin with more of the interface, for tests: streams and their marks, notices of ended work,
 * copies in the queue, blocks known by tickets, sub-steps with lifetimes of buffers, counts of what is alive, other operators.
 */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "carve_plugin.h"

#define STR(s) {s, sizeof(s) - 1}
#define MAX_BLOCKS 4096

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

typedef struct {
  carve_live live; /* what the host has not closed */
} backend;

#define BACKEND(handle) ((backend *)(uintptr_t)(handle))

typedef struct event {
  backend *owner;
  int refs; /* the work's and the host's */
  int done;
  int32_t status;
  uint64_t token; /* of event_notify */
} event;

typedef struct job {
  struct job *next;
  int32_t (*run)(struct job *);
  event *ev;
  struct session *session; /* whose run it is, or */
  carve_copy copy;
} job;

typedef struct npu {
  const carve_host *host;
  pthread_t thread;
  pthread_mutex_t mu;
  pthread_cond_t work, over;
  job *first, *last;
  int32_t failed; /* the first failure that no record or sync has told of */
  int busy, started;
  char *blocks[MAX_BLOCKS]; /* by ticket, less one */
  int64_t sizes[MAX_BLOCKS];
} npu;

static npu unit = {.mu = PTHREAD_MUTEX_INITIALIZER, .work = PTHREAD_COND_INITIALIZER, .over = PTHREAD_COND_INITIALIZER};

static void count(int64_t *what, int64_t by) { __atomic_add_fetch(what, by, __ATOMIC_RELAXED); }

static void unref(event *e) { /* with the lock held */
  if (--e->refs == 0) {
    free(e);
  }
}

static void *worker(void *unused) {
  (void)unused;
  pthread_mutex_lock(&unit.mu);
  for (;;) {
    while (!unit.first) pthread_cond_wait(&unit.work, &unit.mu);
    job *j = unit.first;
    if (!(unit.first = j->next)) unit.last = NULL;
    unit.busy = 1;
    pthread_mutex_unlock(&unit.mu);
    int32_t status = j->run ? j->run(j) : CARVE_OK;
    pthread_mutex_lock(&unit.mu);
    unit.busy = 0;
    if (!j->run) { /* a mark: it tells of what failed before */
      status = unit.failed;
      unit.failed = CARVE_OK;
    } else if (status < 0 && unit.failed == CARVE_OK && !j->ev) {
      unit.failed = status;
    }
    uint64_t token = 0;
    if (j->ev) {
      j->ev->done = 1;
      j->ev->status = status;
      token = j->ev->token;
      unref(j->ev);
    }
    pthread_cond_broadcast(&unit.over);
    if (token) {
      pthread_mutex_unlock(&unit.mu);
      unit.host->done(unit.host->ctx, token, status);
      pthread_mutex_lock(&unit.mu);
    }
    free(j);
  }
  return NULL;
}

/* push queues work, and gives its event where the host wants one. */
static int32_t push(backend *owner, job j, uint64_t *out) {
  job *p = malloc(sizeof *p);
  event *e = out ? calloc(1, sizeof *e) : NULL;
  if (!p || (out && !e)) {
    free(p);
    free(e);
    return CARVE_OUT_OF_MEMORY;
  }
  *p = j;
  p->next = NULL;
  p->ev = e;
  pthread_mutex_lock(&unit.mu);
  if (e) {
    e->refs = 2;
    e->owner = owner;
    count(&owner->live.events, 1);
    *out = (uint64_t)(uintptr_t)e;
  }
  if (unit.last) unit.last->next = p;
  else unit.first = p;
  unit.last = p;
  pthread_cond_signal(&unit.work);
  pthread_mutex_unlock(&unit.mu);
  return CARVE_OK;
}

/* wait_until waits until over(arg), for ns nanoseconds at most, with the lock held. */
static int wait_until(int (*over)(void *), void *arg, uint64_t ns) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  t.tv_sec += (time_t)(ns / 1000000000u);
  t.tv_nsec += (long)(ns % 1000000000u);
  if (t.tv_nsec >= 1000000000) {
    t.tv_nsec -= 1000000000;
    t.tv_sec++;
  }
  while (!over(arg))
    if (pthread_cond_timedwait(&unit.over, &unit.mu, &t) != 0) return over(arg);
  return 1;
}

static int idle(void *unused) {
  (void)unused;
  return !unit.first && !unit.busy;
}

static int happened(void *e) { return ((event *)e)->done; }

static int32_t alloc(uint64_t b, uint64_t bytes, uint64_t align, carve_mem *out, carve_error *err) {
  void *p = NULL;
  if (bytes > (1ull << 34) || posix_memalign(&p, align < sizeof(void *) ? sizeof(void *) : (size_t)align, bytes ? bytes : 1) != 0)
    return fail(err, CARVE_OUT_OF_MEMORY, "the unit has no such block");
  pthread_mutex_lock(&unit.mu);
  int i = 0;
  while (i < MAX_BLOCKS && unit.blocks[i]) i++;
  if (i == MAX_BLOCKS) {
    pthread_mutex_unlock(&unit.mu);
    free(p);
    return fail(err, CARVE_OUT_OF_MEMORY, "the unit has no more tickets");
  }
  unit.blocks[i] = p;
  unit.sizes[i] = (int64_t)bytes;
  count(&BACKEND(b)->live.blocks, 1);
  pthread_mutex_unlock(&unit.mu);
  out->handle = (uint64_t)i + 1;
  out->bytes = (int64_t)bytes;
  return CARVE_OK;
}

static int32_t release(uint64_t b, uint64_t handle) {
  pthread_mutex_lock(&unit.mu);
  int ok = handle > 0 && handle <= MAX_BLOCKS && unit.blocks[handle - 1];
  if (ok) {
    free(unit.blocks[handle - 1]);
    unit.blocks[handle - 1] = NULL;
    count(&BACKEND(b)->live.blocks, -1);
  }
  pthread_mutex_unlock(&unit.mu);
  return ok ? CARVE_OK : CARVE_BAD_ARGUMENT;
}

/* at returns the address of n bytes of a block, NULL where there are none. */
static char *at(uint64_t handle, uint64_t off, uint64_t n) {
  char *p = NULL;
  pthread_mutex_lock(&unit.mu);
  if (handle > 0 && handle <= MAX_BLOCKS && unit.blocks[handle - 1] && off <= (uint64_t)unit.sizes[handle - 1] &&
      n <= (uint64_t)unit.sizes[handle - 1] - off)
    p = unit.blocks[handle - 1] + off;
  pthread_mutex_unlock(&unit.mu);
  return p;
}

static float *data(const carve_tensor *t) {
  if (t->device_type == 1) return (float *)(void *)((char *)t->data + t->byte_offset);
  return (float *)(void *)at((uint64_t)(uintptr_t)t->data, t->byte_offset, (uint64_t)t->bytes);
}

static int32_t do_copy(job *j) {
  const carve_copy *c = &j->copy;
  char *dst = c->kind == CARVE_COPY_FROM ? (char *)(uintptr_t)c->dst : at(c->dst, c->dst_offset, c->bytes);
  char *src = c->kind == CARVE_COPY_TO ? (char *)(uintptr_t)c->src : at(c->src, c->src_offset, c->bytes);
  if (!dst || !src) return CARVE_BAD_ARGUMENT;
  memcpy(dst, src, c->bytes);
  return CARVE_OK;
}

static int32_t copy(uint64_t b, const carve_copy *const *copies, uint64_t n, uint64_t stream, carve_error *err) {
  (void)b;
  for (uint64_t i = 0; i < n; i++) {
    job j = {.run = do_copy, .copy = *copies[i]};
    int32_t status = stream ? push(BACKEND(stream), j, NULL) : do_copy(&j);
    if (status < 0) return fail(err, status, "the copy does not fit");
  }
  return CARVE_OK;
}

/* All streams are the one queue, so whatever is queued later waits for what was queued before. */
static int32_t stream_open(uint64_t b, uint64_t flags, uint64_t *stream, carve_error *err) {
  (void)flags, (void)err;
  count(&BACKEND(b)->live.streams, 1);
  *stream = b;
  return CARVE_OK;
}

static int32_t stream_record(uint64_t s, uint64_t *out, carve_error *err) {
  (void)err;
  job j = {0};
  return push(BACKEND(s), j, out);
}

static int32_t stream_wait(uint64_t s, uint64_t e, carve_error *err) {
  (void)s, (void)e, (void)err;
  return CARVE_OK;
}

static int32_t stream_sync(uint64_t s, uint64_t ns, carve_error *err) {
  (void)s;
  pthread_mutex_lock(&unit.mu);
  int32_t status = CARVE_PENDING;
  if (wait_until(idle, NULL, ns)) {
    status = unit.failed;
    unit.failed = CARVE_OK;
  }
  pthread_mutex_unlock(&unit.mu);
  return status < 0 ? fail(err, status, "queued work failed") : status;
}

static int32_t stream_close(uint64_t s) {
  count(&BACKEND(s)->live.streams, -1);
  return CARVE_OK;
}

static int32_t event_wait(uint64_t h, uint64_t ns, carve_error *err) {
  event *e = (event *)(uintptr_t)h;
  pthread_mutex_lock(&unit.mu);
  int32_t status = ns ? (wait_until(happened, e, ns), e->done ? e->status : CARVE_PENDING) : e->done ? e->status : CARVE_PENDING;
  pthread_mutex_unlock(&unit.mu);
  return status < 0 ? fail(err, status, "the work failed") : status;
}

static int32_t event_poll(uint64_t h, carve_error *err) { return event_wait(h, 0, err); }

static int32_t event_notify(uint64_t h, uint64_t token) {
  event *e = (event *)(uintptr_t)h;
  pthread_mutex_lock(&unit.mu);
  e->token = token;
  int now = e->done;
  int32_t status = e->status;
  pthread_mutex_unlock(&unit.mu);
  if (now) unit.host->done(unit.host->ctx, token, status);
  return CARVE_OK;
}

static int32_t event_close(uint64_t h) {
  pthread_mutex_lock(&unit.mu);
  count(&((event *)(uintptr_t)h)->owner->live.events, -1);
  unref((event *)(uintptr_t)h);
  pthread_mutex_unlock(&unit.mu);
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
  (void)b;
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

/* convert works on the host's thread, when what is queued is over. */
static int32_t convert(uint64_t b, uint32_t i, const carve_tensor *d, const carve_tensor *s, uint64_t stream, carve_error *err) {
  (void)b, (void)i, (void)stream;
  pthread_mutex_lock(&unit.mu);
  while (!wait_until(idle, NULL, 1000000000)) {}
  pthread_mutex_unlock(&unit.mu);
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
  (void)b;
  *out = list;
  *n = 2;
  return CARVE_OK;
}

/* --------------------------------------------------------------------------------------------------------------- kernels */

enum { CONV, MAX_POOL, AVERAGE, RELU, TANH, SIGMOID, ADD, MUL, MATMUL, SOFTMAX, N_OPS, CONVERT };

static const carve_op ops[N_OPS] = {
#define OP(name, since) {sizeof(carve_op), since, 0, 0, {0, 0}, STR(name), 2, 0}
    OP("Conv", 1), OP("MaxPool", 1), OP("GlobalAveragePool", 1), OP("Relu", 6), OP("Tanh", 6),
    OP("Sigmoid", 6), OP("Add", 7), OP("Mul", 7), OP("MatMul", 1), OP("Softmax", 13),
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

/* window computes Conv, MaxPool and GlobalAveragePool over images in c8. */
static void window(const step *s, const value *vx, const value *vy, const value *vw, const float *x, const float *w, const float *bias, float *y) {
  int64_t C = vx->d[1], H = vx->d[2], W = vx->d[3], M = vy->d[1], OH = vy->d[2], OW = vy->d[3], per = vw ? vw->d[1] : 1;
  int64_t kh = s->op == AVERAGE ? H : s->k[0], kw = s->op == AVERAGE ? W : s->k[1];
  memset(y, 0, (size_t)elements(vy) * sizeof *y);
  for (int64_t n = 0; n < vx->d[0]; n++)
    for (int64_t m = 0; m < M; m++)
      for (int64_t o = 0; o < OH * OW; o++) {
        double sum = bias ? bias[m] : 0;
        float top = -INFINITY;
        for (int64_t c = 0; c < per; c++)
          for (int64_t k = 0; k < kh * kw; k++) {
            int64_t iy = o / OW * s->s[0] - s->p[0] + k / kw * s->dil[0], ix = o % OW * s->s[1] - s->p[1] + k % kw * s->dil[1];
            if (iy < 0 || ix < 0 || iy >= H || ix >= W) continue;
            int64_t channel = s->op == CONV ? m / (M / s->group) * per + c : m;
            float v = x[place(1, n, channel, C, iy * W + ix, H * W)];
            sum += s->op == CONV ? (double)v * w[(m * per + c) * kh * kw + k] : v;
            top = v > top ? v : top;
          }
        float r = s->op == MAX_POOL ? top : (float)(s->op == AVERAGE ? sum / (double)(kh * kw) : sum);
        y[place(1, n, m, M, o, OH * OW)] = s->relu && r < 0 ? 0 : r;
      }
}

static float point(int op, float a, float b) {
  switch (op) {
    case RELU: return a < 0 ? 0 : a;
    case TANH: return tanhf(a);
    case SIGMOID: return 1 / (1 + expf(-a));
    case ADD: return a + b;
    default: return a * b;
  }
}

static void matmul(const value *a, const value *b, const float *x, const float *w, float *y) {
  int64_t m = a->d[0], k = a->d[1], n = b->d[1];
  for (int64_t i = 0; i < m * n; i++) {
    double sum = 0;
    for (int64_t j = 0; j < k; j++) sum += (double)x[i / n * k + j] * w[j * n + i % n];
    y[i] = (float)sum;
  }
}

static void softmax(const value *v, const float *x, float *y) {
  int64_t n = v->d[v->rank - 1];
  for (int64_t r = 0; r < elements(v); r += n) {
    float top = -INFINITY;
    double sum = 0;
    for (int64_t i = r; i < r + n; i++) top = x[i] > top ? x[i] : top;
    for (int64_t i = r; i < r + n; i++) sum += y[i] = expf(x[i] - top);
    for (int64_t i = r; i < r + n; i++) y[i] = (float)(y[i] / sum);
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
  if (op <= AVERAGE && (x->ndim != 4 || (a && !is(a->s, "NOTSET")))) return "images, and explicit padding";
  if (op == MAX_POOL && ((a = attr(n, "ceil_mode")) && a->i)) return "no ceil_mode";
  if (op == MATMUL && (x->ndim != 2 || g->values[n->inputs[1]]->ndim != 2)) return "two matrices";
  if (op == SOFTMAX && (a = attr(n, "axis")) && a->i != -1 && a->i != x->ndim - 1) return "the last axis";
  if (op == ADD || op == MUL) { /* equal shapes */
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
static const carve_port_format *const images[] = {&in_c8, &in_rows, &in_rows}, *const matrices[] = {&in_rows, &in_rows}, *const any[] = {&either, &either};
static const carve_format *const both[] = {&c8, &rows};
static const carve_formats choice = {sizeof choice, 2, both};
static const carve_formats *const choices[] = {&choice};
#define SIGNATURE(name, n, ports, vars) {sizeof(carve_signature), n, 1, vars, STR(name), ports, ports, choices, 0}
static const carve_signature image1 = SIGNATURE("c8", 1, images, 0), image2 = SIGNATURE("c8", 2, images, 0), image3 = SIGNATURE("c8", 3, images, 0),
                             row1 = SIGNATURE("row-major", 1, matrices, 0), row2 = SIGNATURE("row-major", 2, matrices, 0),
                             any1 = SIGNATURE("any", 1, any, 1), any2 = SIGNATURE("any", 2, any, 1);

static int32_t supports(uint64_t b, const carve_graph *g, const uint32_t *nodes, uint64_t n, carve_support *const *out, carve_error *err) {
  static const carve_signature *const list[] = {&image1, &image2, &image3, &row1, &row2, &any1, &any2};
  (void)b, (void)err;
  for (uint64_t i = 0; i < n; i++) {
    const carve_node *x = g->nodes[nodes[i]];
    int op = op_of(x);
    const char *why = op < 0 ? "the unit lacks the operator" : refusal(g, x, op);
    out[i]->status = why ? CARVE_REFUSED : CARVE_OK;
    if (why) {
      out[i]->len = strlen(why) < out[i]->cap ? strlen(why) : out[i]->cap;
      memcpy(out[i]->text, why, out[i]->len);
      continue;
    }
    int four = g->values[x->inputs[0]]->ndim == 4 && op != SIGMOID; /* the padding of c8 has to stay zero */
    out[i]->n_signatures = 1;
    out[i]->signatures = &list[op <= AVERAGE ? x->n_inputs - 1 : (four && op <= MUL ? 4 : 2) + x->n_inputs];
  }
  return CARVE_OK;
}

static int32_t operators(uint64_t b, const carve_op *const **out, uint64_t *n) {
  static const carve_op *list[N_OPS];
  (void)b;
  for (int i = 0; i < N_OPS; i++) list[i] = &ops[i];
  *out = list;
  *n = N_OPS;
  return CARVE_OK;
}

/* claim takes every Conv whose result only a Relu reads. */
static int32_t claim(uint64_t b, const carve_graph *g, const carve_claims **out, carve_error *err) {
  struct { carve_claims head; carve_claim claims[]; } *all = calloc(1, sizeof *all + g->n_nodes * sizeof(carve_claim));
  const carve_claim **list = calloc(g->n_nodes + 1, sizeof *list);
  uint32_t *nodes = calloc(2 * (size_t)g->n_nodes + 1, sizeof *nodes), *reads = calloc(g->n_values + 1, sizeof *reads), n = 0;
  (void)b;
  if (!all || !list || !nodes || !reads) return fail(err, CARVE_OUT_OF_MEMORY, "claims");
  for (uint32_t i = 0; i < g->n_nodes; i++)
    for (uint32_t k = 0; k < g->nodes[i]->n_inputs; k++)
      if (g->nodes[i]->inputs[k] != CARVE_NO_VALUE) reads[g->nodes[i]->inputs[k]]++;
  for (uint32_t i = 0; i < g->n_outputs; i++) reads[g->outputs[i]] += 2;
  for (uint32_t i = 0; i < g->n_nodes; i++)
    for (uint32_t k = i + 1; op_of(g->nodes[i]) == CONV && !refusal(g, g->nodes[i], CONV) && k < g->n_nodes; k++)
      if (op_of(g->nodes[k]) == RELU && g->nodes[k]->inputs[0] == g->nodes[i]->outputs[0] && reads[g->nodes[i]->outputs[0]] == 1) {
        nodes[2 * n] = i, nodes[2 * n + 1] = k;
        all->claims[n] = (carve_claim){sizeof(carve_claim), CARVE_CLAIM_ATOMIC, STR("conv-relu"), nodes + 2 * n, 2, 0};
        list[n] = &all->claims[n], n++;
      }
  free(reads);
  all->head = (carve_claims){sizeof(carve_claims), n, list};
  if (n == 0) free(nodes);
  *out = &all->head;
  return CARVE_OK;
}

static void release_claims(uint64_t b, const carve_claims *c) {
  (void)b;
  if (c->n) free((void *)c->claims[0]->nodes);
  free((void *)c->claims);
  free((void *)c);
}

/* -------------------------------------------------------------------------------------------------- compiling and running */

typedef struct {
  backend *owner;
  uint32_t n_values, n_steps;
  value *values;
  step *steps;
} executable; /* and an instance, once its dims are known */

typedef struct instance {
  executable e;
  carve_requirements needs;
  carve_buffer *buffers;
  const carve_buffer **list;
} instance;

typedef struct session {
  instance *in;
  const carve_run *run;
} session;

static int32_t compile(uint64_t b, const carve_graph *g, const carve_options *o, uint64_t *out, carve_error *err) {
  executable *e = calloc(1, sizeof *e);
  (void)o;
  if (!e || !(e->values = calloc(g->n_values + 1, sizeof(value))) || !(e->steps = calloc(g->n_nodes + 1, sizeof(step))))
    return fail(err, CARVE_OUT_OF_MEMORY, "executable");
  e->owner = BACKEND(b), e->n_values = g->n_values, e->n_steps = g->n_nodes;
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
    if (s->op > AVERAGE) continue;
    ints(c, "strides", s->s, 2, 1), ints(c, "pads", s->p, 4, 0), ints(c, "dilations", s->dil, 2, 1), ints(c, "kernel_shape", s->k, 2, 0);
    if (s->op == CONV) s->k[0] = e->values[s->x[1]].d[2], s->k[1] = e->values[s->x[1]].d[3];
    if (attr(c, "group")) s->group = attr(c, "group")->i;
  }
  count(&e->owner->live.executables, 1);
  *out = (uint64_t)(uintptr_t)e;
  return CARVE_OK;
}

static int32_t executable_close(uint64_t h) {
  executable *e = (executable *)(uintptr_t)h;
  count(&e->owner->live.executables, -1);
  free(e->values), free(e->steps), free(e);
  return CARVE_OK;
}

static int32_t specialize(uint64_t h, const carve_binding *bindings, uint64_t n, uint64_t *out, carve_error *err) {
  executable *e = (executable *)(uintptr_t)h;
  instance *in = calloc(1, sizeof *in);
  value *v = in ? malloc((e->n_values + 1) * sizeof *v) : NULL;
  if (!v || !(in->buffers = calloc(e->n_values + 1, sizeof *in->buffers)) || !(in->list = calloc(e->n_values + 1, sizeof *in->list)))
    return fail(err, CARVE_OUT_OF_MEMORY, "instance");
  memcpy(v, e->values, e->n_values * sizeof *v);
  in->e = *e, in->e.values = v;
  in->needs.size = sizeof in->needs, in->needs.steps = (int32_t)e->n_steps, in->needs.buffers = in->list;
  for (uint32_t i = 0; i < e->n_values; i++) {
    for (int k = 0; k < v[i].rank; k++) {
      for (uint64_t s = 0; s < n; s++)
        if (v[i].symbol[k] && bindings[s].symbol == v[i].symbol[k]) v[i].d[k] = bindings[s].value;
      if (v[i].d[k] < 0) return fail(err, CARVE_NEEDS_SHAPES, "a size is open");
    }
    if (v[i].kind != 'b') continue;
    int32_t first = -1, last = 0; /* the steps that touch it */
    for (int32_t s = 0; s < in->needs.steps; s++)
      for (int k = 0; k < 4; k++)
        if ((k < 3 ? e->steps[s].x[k] : e->steps[s].y) == (int)i) last = s, first = first < 0 ? s : first;
    v[i].at = (int)in->needs.n_buffers;
    carve_buffer *buffer = &in->buffers[in->needs.n_buffers];
    *buffer = (carve_buffer){sizeof *buffer, first < 0 ? 0 : first, last, 0, 4 * elements(&v[i]), 0};
    in->list[in->needs.n_buffers++] = buffer;
  }
  count(&e->owner->live.instances, 1);
  *out = (uint64_t)(uintptr_t)in;
  return CARVE_OK;
}

static int32_t instance_close(uint64_t h) {
  instance *in = (instance *)(uintptr_t)h;
  count(&in->e.owner->live.instances, -1);
  free(in->e.values), free(in->buffers), free(in->list), free(in);
  return CARVE_OK;
}

static int32_t requirements(uint64_t h, const carve_requirements **out) {
  *out = &((instance *)(uintptr_t)h)->needs;
  return CARVE_OK;
}

static int32_t session_open(uint64_t h, const carve_run *run, uint64_t stream, uint64_t *out, carve_error *err) {
  session *s = malloc(sizeof *s);
  (void)stream;
  if (!s) return fail(err, CARVE_OUT_OF_MEMORY, "session");
  *s = (session){(instance *)(uintptr_t)h, run};
  count(&s->in->e.owner->live.sessions, 1);
  *out = (uint64_t)(uintptr_t)s;
  return CARVE_OK;
}

static int32_t session_close(uint64_t h) {
  count(&((session *)(uintptr_t)h)->in->e.owner->live.sessions, -1);
  free((session *)(uintptr_t)h);
  return CARVE_OK;
}

static float *operand(const session *s, int i) {
  if (i < 0) return NULL;
  const value *v = &s->in->e.values[i];
  carve_tensor *const *list = v->kind == 'i' ? s->run->inputs : v->kind == 'o' ? s->run->outputs : v->kind == 'c' ? s->run->constants : s->run->buffers;
  return data(list[v->at]);
}

static int32_t do_run(job *j) {
  const session *s = j->session;
  const executable *e = &s->in->e;
  for (uint32_t i = 0; i < e->n_steps; i++) {
    const step *t = &e->steps[i];
    const value *v = e->values, *x = &v[t->x[0]], *y = &v[t->y];
    float *a = operand(s, t->x[0]), *b = operand(s, t->x[1]), *c = operand(s, t->x[2]), *r = operand(s, t->y);
    if (*s->run->cancel) return CARVE_CANCELLED;
    if (elements(y) == 0) continue;
    if (!a || !r || (t->x[1] >= 0 && !b)) return CARVE_BAD_ARGUMENT;
    if (t->op <= AVERAGE) window(t, x, y, t->op == CONV ? &v[t->x[1]] : NULL, a, b, c, r);
    else if (t->op == MATMUL) matmul(x, &v[t->x[1]], a, b, r);
    else if (t->op == SOFTMAX) softmax(x, a, r);
    else if (t->op == CONVERT) reorder(x->d, y->blocked, r, x->blocked, a);
    else for (int64_t k = 0; k < elements(y); k++) r[k] = point(t->op, a[k], b ? b[k] : 0);
  }
  return CARVE_OK;
}

static int32_t enqueue(uint64_t h, uint64_t *ev, carve_error *err) {
  job j = {.run = do_run, .session = (session *)(uintptr_t)h};
  (void)err;
  return push(j.session->in->e.owner, j, ev);
}

/* --------------------------------------------------------------------------------------------------------------- the table */

static int32_t processors(const carve_processor *const **out, uint64_t *n, carve_error *err) {
  static const carve_processor unit0 = {sizeof unit0, 0, 12, 0, CARVE_PROCESSOR_OWN_THREADS, 1 << 30, STR("tiny-npu"), STR("imaginary unit"), {0, 0}};
  static const carve_processor *const list[] = {&unit0};
  (void)err;
  *out = list;
  *n = 1;
  return CARVE_OK;
}

static int32_t open_unit(uint32_t i, const carve_str *options, uint64_t n, uint64_t *out, carve_error *err) {
  (void)i, (void)options;
  if (n) return fail(err, CARVE_BAD_ARGUMENT, "the unit has no options");
  pthread_mutex_lock(&unit.mu);
  if (!unit.started) unit.started = pthread_create(&unit.thread, NULL, worker, NULL) == 0;
  pthread_mutex_unlock(&unit.mu);
  void *b = calloc(1, sizeof(backend));
  *out = (uint64_t)(uintptr_t)b;
  return unit.started && b ? CARVE_OK : fail(err, CARVE_FAILED, "no thread, or no memory");
}

static int32_t close_unit(uint64_t b) { /* the thread waits for the next */
  free(BACKEND(b));
  return CARVE_OK;
}

static int32_t live(uint64_t b, carve_live *out) {
  uint32_t size = out->size;
  memcpy(out, &BACKEND(b)->live, size < sizeof *out ? size : sizeof *out);
  out->size = size;
  return CARVE_OK;
}

const carve_plugin *carve_plugin_query(const carve_query *q) {
  static const carve_plugin table = {
      .size = sizeof table, .abi_major = CARVE_ABI_MAJOR, .abi_minor = CARVE_ABI_MINOR, .name = STR("tiny-npu"), .version = STR("1"),
      .vendor = STR("carve"), .processors = processors, .open = open_unit, .close = close_unit, .live = live, .operators = operators,
      .supports = supports, .claim = claim, .release_claims = release_claims, .compile = compile, .executable_close = executable_close,
      .specialize = specialize, .instance_close = instance_close, .requirements = requirements, .session_open = session_open,
      .enqueue = enqueue, .session_close = session_close, .event_poll = event_poll, .event_wait = event_wait, .event_notify = event_notify,
      .event_close = event_close, .stream_open = stream_open, .stream_record = stream_record, .stream_wait = stream_wait,
      .stream_sync = stream_sync, .stream_close = stream_close, .alloc = alloc, .free = release, .copy = copy, .converters = converters,
      .converted_size = converted_size, .convert = convert};
  if (q->abi_major != CARVE_ABI_MAJOR) return NULL;
  unit.host = q->host;
  return &table;
}
