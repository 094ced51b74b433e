/*
 * A plugin for Add of two float32 tensors of equal shapes in the host's memory, without queues, and its kernel as a function
 * of its own: what a call through the interface costs is their difference.
 */
#include <stdlib.h>
#include <string.h>

#include "carve_plugin.h"

#define STR(s) {s, sizeof(s) - 1}

CARVE_EXPORT void add_kernel(const float *a, const float *b, float *y, int64_t n) {
  for (int64_t i = 0; i < n; i++) y[i] = a[i] + b[i];
}

/* With it, equal groups are compiled once. */
#ifdef REPEATS
#define FLAGS (CARVE_PROCESSOR_HOST_MEMORY | CARVE_PROCESSOR_REPEATS)
#else
#define FLAGS CARVE_PROCESSOR_HOST_MEMORY
#endif

static uint64_t compiled;

CARVE_EXPORT uint64_t add_compiled(void) { return __atomic_load_n(&compiled, __ATOMIC_SEQ_CST); }

static int32_t processors(const carve_processor *const **out, uint64_t *n, carve_error *e) {
  static const carve_processor p = {sizeof p, 0, 1, 0, FLAGS, 0, STR("add"), STR("test"), {0, 0}};
  static const carve_processor *const list[] = {&p};
  (void)e;
  *out = list, *n = 1;
  return CARVE_OK;
}

static int32_t open_add(uint32_t p, const carve_str *o, uint64_t n, uint64_t *b, carve_error *e) {
  (void)p, (void)o, (void)n, (void)e;
  *b = 1;
  return CARVE_OK;
}

static int32_t close_any(uint64_t h) {
  (void)h;
  return CARVE_OK;
}

static int32_t operators(uint64_t b, const carve_op *const **out, uint64_t *n) {
  static const carve_op op = {sizeof op, 7, 0, 0, {0, 0}, STR("Add"), 2, 0};
  static const carve_op *const list[] = {&op};
  (void)b;
  *out = list, *n = 1;
  return CARVE_OK;
}

static int32_t supports(uint64_t b, const carve_graph *g, const uint32_t *nodes, uint64_t n, carve_support *const *out, carve_error *e) {
  (void)b, (void)e;
  for (uint64_t i = 0; i < n; i++) {
    const carve_node *x = g->nodes[nodes[i]];
    const carve_value *p = g->values[x->inputs[0]], *q = g->values[x->inputs[1]];
    out[i]->status = p->ndim == q->ndim && p->ndim >= 0 && memcmp(p->dims, q->dims, 8 * (size_t)p->ndim) == 0 ? CARVE_OK : CARVE_REFUSED;
  }
  return CARVE_OK;
}

static int32_t compile(uint64_t b, const carve_graph *g, const carve_options *o, uint64_t *x, carve_error *e) {
  (void)b, (void)o, (void)e;
  if (g->n_nodes != 1) return CARVE_REFUSED;
  __atomic_add_fetch(&compiled, 1, __ATOMIC_SEQ_CST);
  *x = g->n_constants == 1 ? 2 : 1; /* 2: an operand is a constant */
  return CARVE_OK;
}

static int32_t specialize(uint64_t x, const carve_binding *s, uint64_t n, uint64_t *in, carve_error *e) {
  (void)s, (void)n, (void)e;
  *in = x;
  return CARVE_OK;
}

static int32_t session_open(uint64_t in, const carve_run *run, uint64_t stream, uint64_t *s, carve_error *e) {
  (void)stream, (void)e;
  *s = (uint64_t)(uintptr_t)run | (in == 2); /* it stays where it is */
  return CARVE_OK;
}

static float *data(const carve_tensor *t) { return (float *)(void *)((char *)t->data + t->byte_offset); }

static int32_t enqueue(uint64_t s, uint64_t *event, carve_error *e) {
  const carve_run *run = (const carve_run *)(uintptr_t)(s & ~(uint64_t)1);
  int64_t n = 1;
  (void)event, (void)e;
  for (int i = 0; i < run->outputs[0]->ndim; i++) n *= run->outputs[0]->shape[i];
  add_kernel(data(run->inputs[0]), data(s & 1 ? run->constants[0] : run->inputs[1]), data(run->outputs[0]), n);
  return CARVE_OK;
}

const carve_plugin *carve_plugin_query(const carve_query *q) {
  static const carve_plugin table = {.size = sizeof table, .abi_major = CARVE_ABI_MAJOR, .abi_minor = CARVE_ABI_MINOR, .name = STR("add"),
      .version = STR("1"), .processors = processors, .open = open_add, .close = close_any, .operators = operators, .supports = supports,
      .compile = compile, .executable_close = close_any, .specialize = specialize, .instance_close = close_any,
      .session_open = session_open, .enqueue = enqueue, .session_close = close_any};
  return q->abi_major == CARVE_ABI_MAJOR ? &table : NULL;
}
