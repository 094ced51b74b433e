/*
 * A plugin with an operator com.crash.Double, a property "abs-neg" for Abs and the Neg that reads it, one "exp-neg" that claims, and
 * a pass "nothing" that changes nothing. All are right, until a node of the model has a name that begins with "PLACE=NUMBER": the
 * function of that name then does what the number stands for.
 */
#include <math.h>

#include "fault.h"

#define STR(s) {s, sizeof(s) - 1}

static const carve_host *host;

/* in reads the fault for a place from a text, which need not end. */
static void in(const char *text, uint64_t n, const char *place) {
  uint64_t len = strlen(place);
  if (n > len && !memcmp(text, place, len) && text[len] == '=') misbehave(atoi(text + len + 1));
}

/* at looks at all nodes of a graph. */
static void at(const carve_graph *g, const char *place) {
  for (uint32_t i = 0; i < g->n_nodes; i++) in(g->nodes[i]->name.data, g->nodes[i]->name.len, place);
}

static int is(const carve_graph *g, uint32_t node, const char *op) {
  carve_str s = g->nodes[node]->op;
  return s.len == strlen(op) && !memcmp(s.data, op, s.len) && !g->nodes[node]->domain.len;
}

static int32_t infer(const carve_operator *op, const carve_graph *g, carve_result *const *results, uint64_t n, carve_error *e) {
  const carve_value *x = g->values[g->nodes[0]->inputs[0]];
  (void)op, (void)n, (void)e;
  at(g, "infer");
  if (x->ndim < 0) return CARVE_OK;
  results[0]->ndim = x->ndim;
  for (int32_t i = 0; i < x->ndim; i++) {
    results[0]->dims[i].value = x->dims[i];
    results[0]->dims[i].symbol = x->symbols ? x->symbols[i] : 0;
  }
  return CARVE_OK;
}

static int32_t workspace(const carve_operator *op, const carve_graph *g, uint64_t *bytes, carve_error *e) {
  (void)op, (void)e;
  at(g, "workspace");
  *bytes = 64;
  return CARVE_OK;
}

static void twice(void *arg, int64_t lo, int64_t hi) {
  const carve_run *r = arg;
  const float *x = (const float *)(const void *)((const char *)r->inputs[0]->data + r->inputs[0]->byte_offset);
  float *y = (float *)(void *)((char *)r->outputs[0]->data + r->outputs[0]->byte_offset);
  for (int64_t i = lo; i < hi; i++) y[i] = 2 * x[i];
}

static int32_t run(const carve_operator *op, const carve_graph *g, const carve_run *r, carve_error *e) {
  (void)op, (void)e;
  at(g, "run");
  memset(r->buffers[0]->data, 1, 64);
  return host->parallel_for(host->ctx, r->run, r->outputs[0]->bytes / 4, twice, (void *)(uintptr_t)r);
}

/* Above is an operator whose result has as many elements as are above 0. */
static int32_t infer_above(const carve_operator *op, const carve_graph *g, carve_result *const *results, uint64_t n, carve_error *e) {
  (void)op, (void)g, (void)n, (void)e;
  results[0]->ndim = 1;
  results[0]->dims[0].value = -1;
  return CARVE_OK;
}

static int32_t above(const carve_operator *op, const carve_graph *g, const carve_run *r, carve_error *e) {
  const float *x = (const float *)(const void *)((const char *)r->inputs[0]->data + r->inputs[0]->byte_offset);
  int64_t found = 0, shape[1] = {0};
  (void)op, (void)e;
  at(g, "above");
  for (int64_t i = 0; i < r->inputs[0]->bytes / 4; i++) shape[0] += x[i] > 0;
  if (host->output(host->ctx, r->run, 0, shape, 1) != CARVE_OK) return CARVE_FAILED;
  for (int64_t i = 0; i < r->inputs[0]->bytes / 4; i++)
    if (x[i] > 0) ((float *)r->outputs[0]->data)[found++] = x[i];
  return CARVE_OK;
}

static int32_t select_(const carve_property *p, const carve_graph *g, void *state, uint32_t seed) {
  (void)p;
  at(g, "select");
  return (int32_t)(*(uint64_t *)state = (uint64_t)is(g, seed, "Abs"));
}

static int32_t select_input(const carve_property *p, const carve_graph *g, void *state, uint32_t node, uint32_t producer) {
  (void)p, (void)state, (void)node, (void)producer;
  at(g, "select_input");
  return 0;
}

static int32_t select_output(const carve_property *p, const carve_graph *g, void *state, uint32_t node, uint32_t reader) {
  (void)p;
  at(g, "select_output");
  if (!is(g, node, "Abs") || !is(g, reader, "Neg")) return 0;
  return ++*(uint64_t *)state == 2;
}

static int32_t filter(const carve_property *p, const carve_graph *g, void *state, uint32_t *nodes, uint64_t *n) {
  (void)p, (void)state, (void)nodes;
  at(g, "filter");
  if (*n != 2) *n = 0;
  return CARVE_OK;
}

static int32_t reset(const carve_property *p, const carve_graph *g, void *state) {
  (void)p;
  at(g, "reset");
  *(uint64_t *)state = 0;
  return CARVE_OK;
}

static int32_t claim(const carve_property *p, const carve_graph *g, const carve_claims **out, carve_error *e) {
  static uint32_t nodes[2];
  static carve_claim c = {.size = sizeof c, .nodes = nodes, .n_nodes = 2};
  static const carve_claim *const list[] = {&c};
  static const carve_claims claims = {sizeof claims, 1, list};
  int found = 0;
  (void)p, (void)e;
  at(g, "claim");
  for (uint32_t i = 0; i + 1 < g->n_nodes; i++)
    if (is(g, i, "Exp") && is(g, i + 1, "Neg")) nodes[0] = i, nodes[1] = i + 1, found = 1;
  at(g, "claimed");
  if (found) *out = &claims;
  return CARVE_OK;
}

static char releasing[64]; /* the fault for release_claims, which sees no graph */

static int32_t claim_noted(const carve_property *p, const carve_graph *g, const carve_claims **out, carve_error *e) {
  for (uint32_t i = 0; i < g->n_nodes; i++)
    if (g->nodes[i]->name.len < sizeof releasing && g->nodes[i]->name.len > 14 && !memcmp(g->nodes[i]->name.data, "release_claims", 14)) {
      memset(releasing, 0, sizeof releasing);
      memcpy(releasing, g->nodes[i]->name.data, g->nodes[i]->name.len);
    }
  return claim(p, g, out, e);
}

static void release_claims(const carve_property *p, const carve_claims *c) {
  (void)p, (void)c;
  in(releasing, strlen(releasing), "release_claims");
}

static int32_t pair_workspace(const carve_property *p, const carve_graph *g, uint64_t *bytes, carve_error *e) {
  (void)p, (void)e;
  at(g, "pair_workspace");
  *bytes = 64;
  return CARVE_OK;
}

static int32_t pair(const carve_property *p, const carve_graph *g, const carve_run *r, carve_error *e) {
  const float *x = (const float *)(const void *)((const char *)r->inputs[0]->data + r->inputs[0]->byte_offset);
  float *y = (float *)(void *)((char *)r->outputs[0]->data + r->outputs[0]->byte_offset);
  int claimed = 0;
  (void)p, (void)e;
  at(g, "pair");
  for (uint32_t i = 0; i < g->n_nodes; i++) claimed |= is(g, i, "Exp");
  for (int64_t i = 0; i < r->outputs[0]->bytes / 4; i++) y[i] = claimed ? -expf(x[i]) : -fabsf(x[i]);
  return CARVE_OK;
}

/* anywhere finds the fault for a place in the bytes of a model. */
static void anywhere(const carve_onnx *m, const char *place) {
  const char *p = m->data;
  for (uint64_t i = 0; i < m->len; i++) in(p + i, m->len - i, place);
}

static int32_t nothing(const carve_pass *pass, const carve_onnx *m, const carve_options *o, carve_onnx *out, carve_error *e) {
  (void)pass, (void)o, (void)e;
  anywhere(m, "pass");
  char *copy = malloc(m->len);
  memcpy(copy, m->data, m->len);
  out->data = copy;
  out->len = m->len;
  return CARVE_OK;
}

static void release(const carve_pass *pass, carve_onnx *out) {
  (void)pass;
  anywhere(out, "release");
  free((void *)(uintptr_t)out->data);
}

static const carve_operator twice_op = {.size = sizeof twice_op, .domain = STR("com.crash"), .name = STR("Double"),
    .schema = STR("in X:T\nout Y:T\nty T=float"), .infer = infer, .workspace = workspace, .run = run};
static const carve_operator above_op = {.size = sizeof above_op, .domain = STR("com.crash"), .name = STR("Above"),
    .schema = STR("in X:tensor(float)\nout Y:tensor(float)"), .infer = infer_above, .run = above};
static const carve_operator *const operators[] = {&twice_op, &above_op};

static const carve_property walked = {.size = sizeof walked, .name = STR("abs-neg"), .state_bytes = 8, .select = select_,
    .select_input = select_input, .select_output = select_output, .filter = filter, .reset = reset, .workspace = pair_workspace, .run = pair};
static const carve_property claimed = {.size = sizeof claimed, .name = STR("exp-neg"), .claim = claim_noted,
    .release_claims = release_claims, .run = pair};
static const carve_property *const properties[] = {&walked, &claimed};

static const carve_pass pass = {.size = sizeof pass, .name = STR("nothing"), .before = STR("simplify"), .run = nothing, .release = release};
static const carve_pass *const passes[] = {&pass};

static const carve_plugin plugin = {.size = sizeof plugin, .abi_major = CARVE_ABI_MAJOR, .abi_minor = CARVE_ABI_MINOR, .name = STR("crash-own"),
    .version = STR("1"), .own_operators = operators, .n_own_operators = 2, .properties = properties, .n_properties = 2, .passes = passes,
    .n_passes = 1};

const carve_plugin *carve_plugin_query(const carve_query *q) {
  host = q->host;
  return &plugin;
}
