/*
 * A plugin with a property "abs-neg": an Abs and the Neg that reads it are one node, with a kernel. It is right by default, and
 * wrong in one way each with -DODD=...
 */
#include <math.h>
#include <string.h>

#include "carve_plugin.h"

#ifndef ODD
#define ODD 0
#endif
#ifndef BACKEND
#define BACKEND ""
#endif
#ifndef KIND
#define KIND CARVE_CLAIM_ATOMIC
#endif

enum {
  RIGHT, CLAIMS, NO_FUNCTION, BAD_KIND, HUGE_STATE, BAD_NAME, BAD_ATTRIBUTE, SELECT_FAILS, FILTER_FAILS, FILTER_GROWS, FILTER_FOREIGN, FILTER_NONE,
  CLAIM_FAILS, CLAIM_BEYOND, CLAIM_APART, RUN_FAILS
};

#define STR(s) {s, sizeof(s) - 1}

static int is(const carve_graph *g, uint32_t node, const char *op) {
  carve_str s = g->nodes[node]->op;
  return s.len == strlen(op) && !memcmp(s.data, op, s.len) && !g->nodes[node]->domain.len;
}

static int32_t fail(carve_error *e, const char *text) {
  e->len = strlen(text);
  memcpy(e->text, text, e->len);
  return CARVE_FAILED;
}

/* The state is how many nodes the set has. */
static int32_t select_(const carve_property *p, const carve_graph *g, void *state, uint32_t seed) {
  (void)p;
  if (ODD == SELECT_FAILS) return CARVE_FAILED;
  if (*(uint64_t *)state) return 7; /* it was not zeroed */
  return (int32_t)(*(uint64_t *)state = (uint64_t)is(g, seed, "Abs"));
}

static int32_t select_output(const carve_property *p, const carve_graph *g, void *state, uint32_t node, uint32_t reader) {
  (void)p;
  if (!is(g, node, "Abs") || !is(g, reader, "Neg") || g->nodes[reader]->inputs[0] != g->nodes[node]->outputs[0]) return 0;
  return ++*(uint64_t *)state == 2;
}

static int32_t filter(const carve_property *p, const carve_graph *g, void *state, uint32_t *nodes, uint64_t *n) {
  (void)p, (void)g, (void)state;
  if (ODD == FILTER_FAILS) return CARVE_FAILED;
  if (ODD == FILTER_GROWS) *n = UINT64_MAX;
  if (ODD == FILTER_FOREIGN) nodes[0] = 12345;
  if (*n != 2 || ODD == FILTER_NONE) *n = 0;
  if (ODD == FILTER_GROWS) *n = 99;
  return CARVE_OK;
}

static int32_t claim(const carve_property *p, const carve_graph *g, const carve_claims **out, carve_error *e) {
  static uint32_t nodes[2];
  static carve_claim c = {.size = sizeof c, .nodes = nodes, .n_nodes = 2};
  static const carve_claim *const list[] = {&c};
  static const carve_claims claims = {sizeof claims, 1, list};
  (void)p;
  if (ODD == CLAIM_FAILS) return fail(e, "no claims today");
  for (uint32_t i = 0; i < g->n_nodes; i++) {
    if (is(g, i, "Abs")) nodes[0] = i;
    if (is(g, i, ODD == CLAIM_APART ? "Relu" : "Neg")) nodes[1] = ODD == CLAIM_BEYOND ? 4321 : i;
  }
  *out = &claims;
  return CARVE_OK;
}

static int32_t run(const carve_property *p, const carve_graph *g, const carve_run *r, carve_error *e) {
  const carve_tensor *x = r->inputs[0], *y = r->outputs[0];
  const float *from = (const float *)(const void *)((const char *)x->data + x->byte_offset);
  (void)p;
  if (ODD == RUN_FAILS || g->n_nodes != 2) return fail(e, "the pair is on fire");
  for (int64_t i = 0; i < y->bytes / 4; i++) ((float *)(void *)((char *)y->data + y->byte_offset))[i] = -fabsf(from[i]);
  return CARVE_OK;
}

static const carve_attr level = {.size = sizeof level, .type = ODD == BAD_ATTRIBUTE ? CARVE_ATTR_TENSOR : CARVE_ATTR_INT, .name = STR("level"), .i = 3};
static const carve_attr *const attrs[] = {&level};

static const carve_property property = {
    .size = sizeof property, .kind = ODD == BAD_KIND ? 77 : KIND, .backend = STR(BACKEND), .attrs = attrs, .n_attrs = 1,
    .name = {ODD == BAD_NAME ? "No name" : "abs-neg", 7}, .state_bytes = ODD == HUGE_STATE ? UINT64_MAX : sizeof(uint64_t),
#if ODD == 1 || ODD >= 12 && ODD <= 14
    .claim = claim,
#elif ODD != 2
    .select = select_, .select_output = select_output, .filter = filter,
#endif
    .run = KIND == CARVE_CLAIM_ATOMIC ? run : NULL};

static const carve_property *const properties[] = {&property};

static const carve_plugin plugin = {
    .size = sizeof plugin, .abi_major = CARVE_ABI_MAJOR, .abi_minor = CARVE_ABI_MINOR, .name = STR("pairs"), .version = STR("1"),
    .properties = properties, .n_properties = 1};

const carve_plugin *carve_plugin_query(const carve_query *q) {
  (void)q;
  (void)claim, (void)select_, (void)select_output, (void)filter;
  return &plugin;
}
