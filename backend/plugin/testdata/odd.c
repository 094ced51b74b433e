/*
 * A plugin for Relu of float32 in the host's memory, right by default, and wrong in one way each with -DODD=...
 * The smallest plugin there is: what it does not set is left to the host.
 */
#include <stdlib.h>
#include <string.h>

#include "carve_plugin.h"

#ifndef ODD
#define ODD 0
#endif

enum {
  RIGHT, NO_TABLE, OTHER_MAJOR, SHORT_TABLE, NO_NAME, NULL_PROCESSOR, TINY_STRUCT, LATER_VERSION, OTHER_DIGEST, MORE_PORTS, UNKNOWN_VARIABLE,
  BAD_BUFFER, BAD_STEPS, FAILS, REFUSES, COMPILE_FAILS, NO_HANDLE, BAD_CLAIM, ODD_COST, NEWER_TABLE, NO_REASON, LONG_ERROR, STRIDED, LEAK,
  BAD_OPERATORS, NEEDS_SHAPES, TAKES_STRIDES, ABORTS, TWO_PROCESSORS, NULL_NAME,
  ENDLESS_NAME, DEVICE_OF_HOST, TWICE, BACKWARDS, NULL_OPERATOR, ODD_LAYOUT, LONG_LAYOUT, ODD_DEVICE, NULL_VARIABLES, NO_FORMATS, NULL_PORTS, ENDLESS_REASON, BIG_BUFFER,
  BIG_BUFFERS, ODD_ALIGN, HUGE_ALIGN, SHORT_OUTPUT, BIG_OUTPUT, BIG_INPUT, NO_REQUIREMENTS, ODD_INPLACE, ODD_CONSTANT, NULL_LABELS, ODD_NODES, MANY_STEPS, NO_SESSION,
  NO_INSTANCE, ODD_STATUS, NO_EVENT, CLAIMS_TWICE, CLAIMS_NOTHING, CLAIMS_NULL, CUT_STRUCT, SAVES, SAVES_NOTHING, SAVES_ENDLESS
};

#define STR(s) {s, sizeof(s) - 1}

typedef struct session { const carve_run *run; int runs; } session;

static session sessions[1024];
static int n_sessions, n_live;

static int32_t fail(carve_error *e, int32_t status, int32_t index, const char *text) {
  e->index = index;
  e->len = strlen(text) < e->cap ? strlen(text) : e->cap;
  memcpy(e->text, text, e->len);
  if (ODD == LONG_ERROR) e->len = UINT64_MAX;
  return status;
}

static int32_t processors(const carve_processor *const **out, uint64_t *n, carve_error *e) {
  static const carve_processor p = {ODD == TINY_STRUCT ? 2 : ODD == CUT_STRUCT ? 36 : sizeof p, 0, 1, 0, CARVE_PROCESSOR_HOST_MEMORY | (ODD >= SAVES ? CARVE_PROCESSOR_ONNX : 0), 0, STR("odd"), STR("test"), {0, 0}};
  static const carve_processor of_host = {sizeof p, 0, 1, 0, 0, INT64_MIN, STR("odd"), STR("test"), {0, 0}};
  static const carve_processor nameless = {sizeof p, 0, 1, 0, CARVE_PROCESSOR_HOST_MEMORY, 0, {ODD == NULL_NAME ? NULL : "odd", ODD == NULL_NAME ? 3 : 4}, STR("test"), {0, 0}};
  static const carve_processor *list[] = {ODD == NULL_PROCESSOR ? NULL : ODD == DEVICE_OF_HOST ? &of_host : ODD == NULL_NAME || ODD == ENDLESS_NAME ? &nameless : &p, &p};
  (void)e;
  *out = list;
  *n = ODD == TWO_PROCESSORS ? 2 : 1;
  return CARVE_OK;
}

static int32_t open_odd(uint32_t p, const carve_str *o, uint64_t n, uint64_t *b, carve_error *e) {
  (void)p, (void)o;
  if (n) return fail(e, CARVE_BAD_ARGUMENT, -1, "no options");
  *b = ODD == NO_HANDLE ? 0 : 1;
  return CARVE_OK;
}

static int32_t close_any(uint64_t h) {
  (void)h;
  return CARVE_OK;
}

static int32_t executable_close(uint64_t h) {
  (void)h;
  if (ODD != LEAK) n_live--;
  return CARVE_OK;
}

static int32_t live(uint64_t b, carve_live *out) {
  (void)b;
  out->executables = n_live;
  return CARVE_OK;
}

static int32_t operators(uint64_t b, const carve_op *const **out, uint64_t *n) {
  static const carve_op relu = {sizeof relu, ODD == LATER_VERSION ? 99 : 6, 0, 0, {0, 0}, STR("Relu"), 2, ODD == OTHER_DIGEST ? 1 : 0};
  static const carve_op backwards = {sizeof relu, 9, -4, 0, {0, 0}, STR("Relu"), UINT64_MAX, 0};
  static const carve_op *const list[] = {ODD == NULL_OPERATOR ? NULL : ODD == BACKWARDS ? &backwards : &relu, &relu};
  (void)b;
  *out = list;
  *n = ODD == BAD_OPERATORS ? UINT64_MAX : ODD == TWICE || ODD == BACKWARDS ? 2 : 1;
  return CARVE_OK;
}

static int32_t supports(uint64_t b, const carve_graph *g, const uint32_t *nodes, uint64_t n, carve_support *const *out, carve_error *e) {
  static char long_tag[100000];
  static carve_format other = {sizeof other, 1, 0, 0, STR("aBcd0b")};
  static const carve_port_format rows = {sizeof rows, ODD == UNKNOWN_VARIABLE ? 7 : ODD == NULL_VARIABLES || ODD == NO_FORMATS ? 1 : 0, ODD == ODD_LAYOUT || ODD == LONG_LAYOUT || ODD == ODD_DEVICE ? &other : NULL};
  static const carve_port_format *const ports[] = {ODD == NULL_PORTS ? NULL : &rows, &rows};
  static const carve_formats none = {sizeof none, ODD == NO_FORMATS ? 0 : 1, NULL};
  static const carve_formats *const variables[] = {&none};
  static const carve_signature s = {sizeof s, ODD == MORE_PORTS ? 2 : 1, 1, ODD == NULL_VARIABLES ? 1u << 31 : ODD == NO_FORMATS, STR("rows"), ports, ports, ODD == NULL_VARIABLES ? NULL : variables, ODD == ODD_COST ? -1e300 * 1e300 : 0};
  static const carve_signature *const list[] = {&s};
  (void)b, (void)g, (void)nodes, (void)e;
  if (ODD == LONG_LAYOUT) other.layout.data = memset(long_tag, 'a', sizeof long_tag), other.layout.len = sizeof long_tag;
  if (ODD == ODD_DEVICE) other.device_type = -77, other.layout.len = 0;
  for (uint64_t i = 0; i < n; i++) {
    if (ODD == ENDLESS_REASON) {
      out[i]->status = CARVE_REFUSED, out[i]->reason = UINT32_MAX, out[i]->text = NULL, out[i]->len = UINT64_MAX;
      continue;
    }
    out[i]->status = ODD == NO_REASON ? CARVE_REFUSED : CARVE_OK;
    out[i]->n_signatures = 1;
    out[i]->signatures = list;
    out[i]->ns = ODD == ODD_COST ? 0.0 / 0.0 : 0;
  }
  return CARVE_OK;
}

static int32_t claim(uint64_t b, const carve_graph *g, const carve_claims **out, carve_error *e) {
  static const uint32_t nodes[] = {12345};
  static const carve_claim c = {sizeof c, CARVE_CLAIM_ATOMIC, STR("odd"), nodes, 1, 0};
  static const carve_claim *const list[] = {&c};
  static const carve_claims all = {sizeof all, 1, list};
  static const uint32_t same[] = {0, 0};
  static const carve_claim twice = {sizeof c, CARVE_CLAIM_ATOMIC, STR("odd"), same, 2, 0}, nothing = {sizeof c, 99, {NULL, 7}, NULL, 0, -1}, null = {sizeof c, CARVE_CLAIM_BOUNDING, STR("odd"), NULL, 5, 0};
  static const carve_claim *const odd[] = {ODD == CLAIMS_TWICE ? &twice : ODD == CLAIMS_NOTHING ? &nothing : &null};
  static const carve_claims other = {sizeof other, 1, odd};
  (void)b, (void)g, (void)e;
  *out = ODD == BAD_CLAIM ? &all : ODD == CLAIMS_TWICE || ODD == CLAIMS_NOTHING || ODD == CLAIMS_NULL ? &other : NULL;
  return CARVE_OK;
}

/* What compile saves is the graph as a model. */
static char model[1 << 16];
static uint64_t model_len;

static int32_t save(uint64_t x, carve_saved *out, carve_error *e) {
  if (x != 1) return fail(e, CARVE_BAD_ARGUMENT, -1, "no such executable");
  if (ODD == SAVES_NOTHING) return CARVE_OK;
  out->data = model;
  out->len = ODD == SAVES_ENDLESS ? UINT64_MAX : model_len;
  return CARVE_OK;
}

static int32_t load(uint64_t b, const carve_graph *g, const carve_options *o, const carve_saved *saved, uint64_t *x, carve_error *e) {
  (void)b, (void)o;
  if (!g->onnx || saved->len != g->onnx->len || memcmp(saved->data, g->onnx->data, saved->len)) return fail(e, CARVE_FAILED, -1, "saved from another graph");
  n_live++;
  *x = 1;
  return CARVE_OK;
}

static int32_t compile(uint64_t b, const carve_graph *g, const carve_options *o, uint64_t *x, carve_error *e) {
  (void)b, (void)g, (void)o;
  if (ODD == REFUSES) return fail(e, CARVE_REFUSED, -1, "not today");
  if (ODD == COMPILE_FAILS || ODD == LONG_ERROR) return fail(e, CARVE_FAILED, -1, "out of ideas");
  model_len = 0;
  if (g->onnx && g->onnx->len < sizeof model) memcpy(model, g->onnx->data, model_len = g->onnx->len);
  if (g->onnx && g->onnx->n_weights && *(const float *)g->onnx->weights[0]->data != 3) return fail(e, CARVE_FAILED, -1, "other weights");
  n_live++;
  *x = 1;
  return CARVE_OK;
}

static int32_t specialize(uint64_t x, const carve_binding *b, uint64_t n, uint64_t *i, carve_error *e) {
  (void)x, (void)b, (void)n;
  if (ODD == NEEDS_SHAPES) return fail(e, CARVE_REFUSED, -1, "not this shape");
  *i = ODD == NO_INSTANCE ? 0 : 1;
  return CARVE_OK;
}

static int32_t requirements(uint64_t i, const carve_requirements **out) {
  static const carve_buffer b = {sizeof b, 0, ODD == BAD_BUFFER ? 5 : 0, 0, ODD == BIG_BUFFER ? INT64_MAX : ODD == BIG_BUFFERS ? INT64_MAX / 2 : 64,
                                 ODD == ODD_ALIGN ? 3 : ODD == HUGE_ALIGN ? INT64_C(1) << 62 : 0};
  static const carve_buffer *const list[] = {&b, &b, &b};
  static const carve_port p = {sizeof p, ODD == STRIDED || ODD == TAKES_STRIDES ? CARVE_PORT_STRIDED : 0, ODD == BIG_INPUT ? INT64_MAX : 0, 0, 0, 0};
  static const carve_port q = {sizeof q, ODD == STRIDED || ODD == TAKES_STRIDES ? CARVE_PORT_STRIDED : 0, ODD == SHORT_OUTPUT ? 1 : ODD == BIG_OUTPUT ? INT64_MAX : 0, 0, 0, 0};
  static const carve_port *const ports[] = {&p}, *const results[] = {&q};
  static const carve_inplace over[] = {{99, -1}};
  static const carve_constant_form form = {sizeof form, 99, NULL};
  static const carve_constant_form *const forms[] = {&form};
  static const uint32_t nodes[] = {99, UINT32_MAX};
  static const carve_label label = {sizeof label, ODD == ODD_NODES ? 2 : 0, {NULL, 9}, {NULL, 9}, nodes};
  static const carve_label *const labels[] = {ODD == NULL_LABELS ? NULL : &label};
  static const carve_requirements r = {.size = sizeof r, .steps = ODD == BAD_STEPS ? -4 : ODD == MANY_STEPS ? INT32_MAX : 1, .inputs = ports, .outputs = results, .buffers = list,
                                       .n_buffers = ODD == BIG_BUFFERS ? 3 : 1, .inplace = over, .n_inplace = ODD == ODD_INPLACE, .constants = forms,
                                       .n_constants = ODD == ODD_CONSTANT, .labels = ODD == NULL_LABELS || ODD == ODD_NODES ? labels : NULL};
  (void)i;
  *out = ODD == NO_REQUIREMENTS ? NULL : &r;
  return CARVE_OK;
}

static int32_t session_open(uint64_t i, const carve_run *run, uint64_t stream, uint64_t *s, carve_error *e) {
  (void)i, (void)stream, (void)e;
  sessions[n_sessions % 1024].run = run;
  *s = (uint64_t)(n_sessions++ % 1024) + 1;
  if (ODD == NO_SESSION) *s = 0;
  return CARVE_OK;
}

static int32_t enqueue(uint64_t s, uint64_t *event, carve_error *e) {
  const carve_run *r = sessions[s - 1].run;
  const carve_tensor *x = r->inputs[0], *y = r->outputs[0];
  const float *from = (const float *)(const void *)((const char *)x->data + x->byte_offset);
  float *to = (float *)(void *)((char *)y->data + y->byte_offset);
  (void)event;
  if (ODD == ODD_STATUS) return 12345;
  if (ODD == NO_EVENT) return CARVE_PENDING;
  if (ODD == ABORTS) abort();
  if (ODD == FAILS) return fail(e, CARVE_FAILED, 0, "the \x01 unit is on fire");
  if (ODD == STRIDED && x->strides) return fail(e, CARVE_NEEDS_CONTIGUOUS, 0, "rows lie apart");
  for (int64_t i = 0; i < x->shape[0]; i++)
    for (int64_t k = 0; k < x->shape[1]; k++) {
      float v = x->strides ? from[i * x->strides[0] + k * x->strides[1]] : from[i * x->shape[1] + k];
      to[y->strides ? i * y->strides[0] + k * y->strides[1] : i * y->shape[1] + k] = v < 0 ? 0 : v;
    }
  return CARVE_OK;
}

/* The table of a later minor version: longer than what the host knows. */
typedef struct { carve_plugin table; void *more[16]; } newer;

const carve_plugin *carve_plugin_query(const carve_query *q) {
  static newer n = {{.size = sizeof(carve_plugin), .abi_major = CARVE_ABI_MAJOR, .name = STR("odd"), .processors = processors,
                     .open = open_odd, .close = close_any, .live = live, .operators = operators, .supports = supports, .claim = claim,
                     .compile = compile, .executable_close = executable_close, .specialize = specialize, .instance_close = close_any,
                     .requirements = requirements, .session_open = session_open, .enqueue = enqueue, .session_close = close_any, .save = ODD >= SAVES ? save : NULL, .load = ODD >= SAVES ? load : NULL},
                    {(void *)1}};
  if (ODD == NO_TABLE) {
    fail(q->err, CARVE_FAILED, -1, "another host, please");
    return NULL;
  }
  if (ODD == OTHER_MAJOR) n.table.abi_major = 7;
  if (ODD == SHORT_TABLE) n.table.size = (uint32_t)((char *)&n.table.compile - (char *)&n.table);
  if (ODD == NEWER_TABLE) n.table.size = sizeof n, n.table.abi_minor = 99;
  if (ODD == NO_NAME) n.table.name.len = 0;
  return &n.table;
}
