/*
 * A plugin with operators of its own, right by default, and wrong in one way each with -DOWN=...
 *   Twice     Y [2N, C] has X [N, C] twice, by way of a workspace
 *   Positive  the elements of X that are above 0: how many there are depends on data
 * and with -DPASS=..., a pass "rewrite" that does, wrong in most cases, what is asked for
 */
#include <string.h>

#include "carve_plugin.h"

#ifndef OWN
#define OWN 0
#endif

enum {
  RIGHT, NO_RUN, NO_OPERATOR_NAME, ONNX_DOMAIN, NULL_OPERATOR, NEGATIVE_DIM, BAD_RANK, WRONG_TYPE, NO_TYPE, BAD_SYMBOL,
  NEGATIVE_FACTOR, INFER_FAILS, HUGE_WORKSPACE, WORKSPACE_FAILS, RUN_FAILS, RUN_PENDING, OTHER_SHAPE, ENDLESS_SHAPE, NO_STORAGE, LATER
};

#define STR(s) {s, sizeof(s) - 1}
#define WHEN(x, a, b) {OWN == x ? a : b, OWN == x ? sizeof(a) - 1 : sizeof(b) - 1}

static const carve_host *host;

static int32_t fail(carve_error *e, int32_t status, const char *text) {
  e->len = strlen(text) < e->cap ? strlen(text) : e->cap;
  memcpy(e->text, text, e->len);
  return status;
}

static int32_t infer(const carve_operator *op, const carve_graph *g, carve_result *const *results, uint64_t n, carve_error *e) {
  const carve_value *x = g->values[g->nodes[0]->inputs[0]];
  carve_result *y = results[0];
  (void)op, (void)n;
  if (OWN == INFER_FAILS) return fail(e, CARVE_FAILED, "not this one");
  if (OWN == WRONG_TYPE) y->type = 7;
  if (OWN == NO_TYPE) y->type = 99;
  if (x->ndim < 0) return CARVE_OK;
  for (int32_t i = 0; i < x->ndim; i++) {
    y->dims[i].value = x->dims[i];
    y->dims[i].symbol = x->symbols ? x->symbols[i] : 0;
  }
  y->ndim = OWN == BAD_RANK ? 1000 : x->ndim;
  y->dims[0].value *= y->dims[0].symbol ? 1 : 2;
  y->dims[0].factor = OWN == NEGATIVE_FACTOR ? -2 : 2;
  if (OWN == NEGATIVE_DIM) y->dims[1].value = -7;
  if (OWN == BAD_SYMBOL) y->dims[1].symbol = 1234;
  return CARVE_OK;
}

static int32_t workspace(const carve_operator *op, const carve_graph *g, uint64_t *bytes, carve_error *e) {
  const carve_value *x = g->values[g->nodes[0]->inputs[0]];
  (void)op;
  if (OWN == WORKSPACE_FAILS) return fail(e, CARVE_REFUSED, "not today");
  *bytes = OWN == HUGE_WORKSPACE ? UINT64_MAX : (uint64_t)(x->dims[0] * x->dims[1] * 4);
  return CARVE_OK;
}

static int32_t twice(const carve_operator *op, const carve_graph *g, const carve_run *r, carve_error *e) {
  const carve_tensor *x = r->inputs[0], *y = r->outputs[0], *w = r->buffers[0];
  (void)op, (void)g;
  if (OWN == RUN_FAILS) return fail(e, CARVE_FAILED, "the unit is on fire");
  if (OWN == RUN_PENDING) return CARVE_PENDING;
  memcpy(w->data, (char *)x->data + x->byte_offset, (size_t)x->bytes);
  memcpy((char *)y->data + y->byte_offset, w->data, (size_t)x->bytes);
  memcpy((char *)y->data + y->byte_offset + x->bytes, w->data, (size_t)x->bytes);
  return CARVE_OK;
}

static int32_t infer_positive(const carve_operator *op, const carve_graph *g, carve_result *const *results, uint64_t n, carve_error *e) {
  (void)op, (void)g, (void)n, (void)e;
  results[0]->ndim = 1;
  results[0]->dims[0].value = -1;
  return CARVE_OK;
}

static int32_t positive(const carve_operator *op, const carve_graph *g, const carve_run *r, carve_error *e) {
  const carve_tensor *x = r->inputs[0], *y = r->outputs[0];
  const float *from = (const float *)(const void *)((const char *)x->data + x->byte_offset);
  int64_t found = 0, shape[2] = {0, 1};
  (void)op, (void)g, (void)e;
  for (int64_t i = 0; i < x->bytes / 4; i++) shape[0] += from[i] > 0;
  if (OWN == NO_STORAGE) return CARVE_OK;
  if (host->output(host->ctx, r->run, 0, shape, OWN == ENDLESS_SHAPE ? 1 << 20 : OWN == OTHER_SHAPE ? 2 : 1) != CARVE_OK) return CARVE_FAILED;
  for (int64_t i = 0; i < x->bytes / 4; i++)
    if (from[i] > 0) ((float *)y->data)[found++] = from[i];
  return CARVE_OK;
}

static const carve_operator twice_op = {
    .size = sizeof twice_op, .since_min = OWN == LATER ? 5 : 1, .since_max = 7, .domain = WHEN(ONNX_DOMAIN, "ai.onnx", "com.own"),
    .name = WHEN(NO_OPERATOR_NAME, "Tw ice", "Twice"), .infer = infer, .workspace = workspace, .run = OWN == NO_RUN ? NULL : twice,
#if defined(SCHEMA)
    .schema = STR(SCHEMA),
#else
    .schema = STR("in X:T\nout Y:T\nty T=float,double"),
#endif
};

static const carve_operator positive_op = {
    .size = sizeof positive_op, .domain = STR("com.own"), .name = STR("Positive"), .schema = STR("in X:tensor(float)\nout Y:tensor(float)"),
    .infer = infer_positive, .run = positive};

static const carve_operator *const own_operators[] = {OWN == NULL_OPERATOR ? NULL : &twice_op, &positive_op};

#ifdef PASS
enum { NOTHING, GARBAGE, NULL_DATA, ENDLESS, OUTPUT_NAME, INPUT_NAME, OWN_WEIGHT, NO_WEIGHT, ODD_WEIGHT, PASS_FAILS, SAME };

/* swap replaces bytes by as many others wherever they are. */
static void swap(char *p, uint64_t n, const char *from, const char *to, uint64_t len) {
  for (uint64_t i = 0; i + len <= n; i++)
    if (!memcmp(p + i, from, len)) memcpy(p + i, to, len);
}

static int32_t rewrite(const carve_pass *pass, const carve_onnx *in, const carve_options *o, carve_onnx *out, carve_error *e) {
  static char bytes[1 << 16];
  static float ones[512];
  static int64_t shape[] = {512};
  static carve_tensor weight = {.size = sizeof weight, .data = ones, .device_type = 1, .ndim = 1, .dtype_code = 2, .dtype_bits = 32, .dtype_lanes = 1,
                                .shape = shape, .bytes = sizeof ones, .type = 1};
  static const carve_tensor *const weights[] = {&weight};
  (void)pass, (void)o;
  if (PASS == PASS_FAILS || in->len > sizeof bytes || in->n_weights != 1 || in->weights[0]->bytes != 2048) return fail(e, CARVE_FAILED, "no passage");
  if (PASS == NOTHING) return CARVE_OK;
  memcpy(bytes, in->data, in->len);
  for (int i = 0; i < 512; i++) ones[i] = 1;
  out->data = PASS == NULL_DATA ? NULL : PASS == GARBAGE ? "\x0a\xff\xff\xff\xff" : bytes;
  out->len = PASS == ENDLESS ? UINT64_MAX : PASS == GARBAGE ? 5 : in->len;
  if (PASS == OUTPUT_NAME) swap(bytes, in->len, "result", "tluser", 6);
  if (PASS == INPUT_NAME) swap(bytes, in->len, "operand", "dnarepo", 7);
  if (PASS == OWN_WEIGHT || PASS == ODD_WEIGHT) swap(bytes, in->len, "offset\x12\x01" "0", "offset\x12\x01" "1", 9);
  if (PASS == NO_WEIGHT) swap(bytes, in->len, "offset\x12\x01" "0", "offset\x12\x01" "9", 9);
  if (PASS == ODD_WEIGHT) weight.bytes = 12;
  out->weights = weights;
  out->n_weights = 1;
  return CARVE_OK;
}

static const carve_pass pass = {.size = sizeof pass, .name = STR("rewrite"), .before = STR(BEFORE), .run = rewrite};
static const carve_pass *const passes[] = {&pass};
#endif

static const carve_plugin plugin = {
    .size = sizeof plugin, .abi_major = CARVE_ABI_MAJOR, .abi_minor = CARVE_ABI_MINOR, .name = STR("own"), .version = STR("1"),
    .own_operators = own_operators, .n_own_operators = 2,
#ifdef PASS
    .passes = passes, .n_passes = 1,
#endif
};

const carve_plugin *carve_plugin_query(const carve_query *q) {
  host = q->host;
  return &plugin;
}
