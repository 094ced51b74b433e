/*
 * A plugin for Relu of float32 that is right until it is asked for a fault: by the first number of an input, or by its option
 * "fault=PLACE". Processor "crash" works in the host's memory. "crash-memory" has its own, and with "fault=to" or "fault=from" looks
 * at the first number of what is copied there, or back; with "once=FILE" only as long as there is no such file.
 */
#include <fcntl.h>
#include <unistd.h>

#include "fault.h"

#define STR(s) {s, sizeof(s) - 1}

static const carve_host *host;
static char fault[64], once[512];

static int32_t fail(carve_error *e, int32_t status, const char *text) {
  e->len = strlen(text) < e->cap ? strlen(text) : e->cap;
  memcpy(e->text, text, e->len);
  return status;
}

static void at(const char *place) {
  if (strcmp(fault, place) == 0) misbehave(SEGFAULT);
}

static int32_t processors(const carve_processor *const **out, uint64_t *n, carve_error *e) {
  static const carve_processor p = {sizeof p, 0, 1, 0, CARVE_PROCESSOR_HOST_MEMORY, 0, STR("crash"), STR("test"), {0, 0}};
  static const carve_processor m = {sizeof m, 1, 12, 0, 0, 0, STR("crash-memory"), STR("test"), {0, 0}};
  static const carve_processor *list[] = {&p, &m};
  (void)e;
  *out = list;
  *n = 2;
  return CARVE_OK;
}

static int32_t open_unit(uint32_t p, const carve_str *o, uint64_t n, uint64_t *b, carve_error *e) {
  for (uint64_t i = 0; i < n; i++) {
    if (o[i].len > 5 && o[i].len < sizeof once && !memcmp(o[i].data, "once=", 5)) {
      memcpy(once, o[i].data + 5, o[i].len - 5);
      continue;
    }
    if (o[i].len < 6 || o[i].len > 60 || memcmp(o[i].data, "fault=", 6) != 0) return fail(e, CARVE_BAD_ARGUMENT, "no such option");
    memcpy(fault, o[i].data + 6, o[i].len - 6);
  }
  at("open");
  host->log(host->ctx, CARVE_LOG_INFO, "open", 4);
  *b = p + 1;
  return CARVE_OK;
}

static int32_t alloc(uint64_t b, uint64_t bytes, uint64_t align, carve_mem *out, carve_error *e) {
  (void)b, (void)align, (void)e;
  out->handle = (uint64_t)(uintptr_t)calloc(1, bytes);
  out->bytes = (int64_t)bytes;
  return out->handle ? CARVE_OK : CARVE_OUT_OF_MEMORY;
}

static int32_t free_block(uint64_t b, uint64_t handle) {
  (void)b;
  free((void *)(uintptr_t)handle);
  return CARVE_OK;
}

/* copy misbehaves in the middle of it. */
static int32_t copy(uint64_t b, const carve_copy *const *list, uint64_t n, uint64_t stream, carve_error *e) {
  (void)b, (void)stream, (void)e;
  for (uint64_t i = 0; i < n; i++) {
    const carve_copy *c = list[i];
    const char *from = (const char *)(uintptr_t)(c->src + c->src_offset);
    char *to = (char *)(uintptr_t)(c->dst + c->dst_offset);
    memcpy(to, from, c->bytes / 2);
    if (c->bytes >= 4 && !strcmp(fault, c->kind == CARVE_COPY_TO ? "to" : c->kind == CARVE_COPY_FROM ? "from" : "")) {
      int how = (int)*(const float *)(const void *)from, first = !*once;
      if (how >= ABORT && how <= ERASE && *once) {
        int file = open(once, O_CREAT | O_EXCL, 0600);
        if ((first = file >= 0)) close(file);
      }
      if (first) misbehave(how);
    }
    memcpy(to + c->bytes / 2, from + c->bytes / 2, c->bytes - c->bytes / 2);
  }
  return CARVE_OK;
}

static int32_t close_any(uint64_t h) {
  (void)h;
  return CARVE_OK;
}

static int32_t operators(uint64_t b, const carve_op *const **out, uint64_t *n) {
  static const carve_op relu = {sizeof relu, 6, 0, 0, {0, 0}, STR("Relu"), 2, 0};
  static const carve_op *const list[] = {&relu};
  (void)b;
  *out = list;
  *n = 1;
  return CARVE_OK;
}

static int32_t supports(uint64_t b, const carve_graph *g, const uint32_t *nodes, uint64_t n, carve_support *const *out, carve_error *e) {
  (void)b, (void)g, (void)nodes, (void)e;
  at("supports");
  for (uint64_t i = 0; i < n; i++) out[i]->status = CARVE_OK;
  return CARVE_OK;
}

static int32_t compile(uint64_t b, const carve_graph *g, const carve_options *o, uint64_t *x, carve_error *e) {
  (void)b, (void)g, (void)o, (void)e;
  at("compile");
  if (strcmp(fault, "slow-compile") == 0) misbehave(LOOP);
  *x = 1;
  return CARVE_OK;
}

static int32_t specialize(uint64_t x, const carve_binding *b, uint64_t n, uint64_t *i, carve_error *e) {
  (void)x, (void)b, (void)n, (void)e;
  at("specialize");
  *i = 1;
  return CARVE_OK;
}

static int32_t requirements(uint64_t i, const carve_requirements **out) {
  static const carve_port p = {sizeof p, CARVE_PORT_STRIDED, 0, 0, 0, 0};
  static const carve_port *const ports[] = {&p};
  static const carve_requirements r = {.size = sizeof r, .steps = 1, .inputs = ports, .outputs = ports};
  (void)i;
  *out = &r;
  return CARVE_OK;
}

static int32_t session_open(uint64_t i, const carve_run *run, uint64_t stream, uint64_t *s, carve_error *e) {
  (void)i, (void)stream, (void)e;
  *s = (uint64_t)(uintptr_t)run;
  return CARVE_OK;
}

/* relu does ranges of rows, on the host's threads. */
static void relu(void *arg, int64_t lo, int64_t hi) {
  const carve_run *r = arg;
  const carve_tensor *x = r->inputs[0], *y = r->outputs[0];
  const float *from = (const float *)(const void *)((const char *)x->data + x->byte_offset);
  float *to = (float *)(void *)((char *)y->data + y->byte_offset);
  int64_t n = x->shape[1], rows = x->strides ? x->strides[0] : n, columns = x->strides ? x->strides[1] : 1;
  int64_t to_rows = y->strides ? y->strides[0] : n, to_columns = y->strides ? y->strides[1] : 1;
  for (int64_t i = lo; i < hi; i++)
    for (int64_t k = 0; k < n; k++) {
      float v = from[i * rows + k * columns];
      to[i * to_rows + k * to_columns] = v < 0 ? 0 : v;
    }
}

static int32_t enqueue(uint64_t s, uint64_t *event, carve_error *e) {
  const carve_run *r = (const carve_run *)(uintptr_t)s;
  const carve_tensor *x = r->inputs[0];
  int how = x->device_type == 1 ? (int)*(const float *)(const void *)((const char *)x->data + x->byte_offset) : 0;
  misbehave(how);
  if (how == BAD_STATUS) return -12345;
  if (how == LONG_ERROR) {
    e->len = UINT64_MAX;
    e->text = (char *)(uintptr_t)12345;
    e->cap = UINT64_MAX;
    return CARVE_FAILED;
  }
  if (how == NEVER) {
    *event = 7;
    return CARVE_OK;
  }
  return host->parallel_for(host->ctx, r->run, x->shape[0], relu, (void *)(uintptr_t)r);
}

static int32_t event_poll(uint64_t event, carve_error *e) {
  (void)event, (void)e;
  return CARVE_PENDING;
}

static int32_t event_wait(uint64_t event, uint64_t ns, carve_error *e) {
  (void)event, (void)ns, (void)e;
  return CARVE_PENDING;
}

const carve_plugin *carve_plugin_query(const carve_query *q) {
  static const carve_plugin table = {
      .size = sizeof table, .abi_major = CARVE_ABI_MAJOR, .name = STR("crash"), .processors = processors, .open = open_unit,
      .close = close_any, .operators = operators, .supports = supports, .compile = compile, .executable_close = close_any,
      .specialize = specialize, .instance_close = close_any, .requirements = requirements, .session_open = session_open,
      .enqueue = enqueue, .session_close = close_any, .alloc = alloc, .free = free_block, .copy = copy, .event_poll = event_poll, .event_wait = event_wait, .event_close = close_any};
  host = q->host;
#ifdef QUERY_ABORTS
  abort();
#endif
  return &table;
}
