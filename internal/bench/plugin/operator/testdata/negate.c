/* A plugin with Neg of float32 as an operator of its own, Negate of the domain bench, to be compared with the built-in one. */
#include "carve_plugin.h"

#define STR(s) {s, sizeof(s) - 1}

static int32_t run(const carve_operator *op, const carve_graph *g, const carve_run *r, carve_error *err) {
  const float *restrict x = (const float *)(const void *)((const char *)r->inputs[0]->data + r->inputs[0]->byte_offset);
  float *restrict y = (float *)(void *)((char *)r->outputs[0]->data + r->outputs[0]->byte_offset);
  int64_t n = r->outputs[0]->bytes / 4;
  (void)op, (void)g, (void)err;
  for (int64_t i = 0; i < n; i++) y[i] = -x[i];
  return CARVE_OK;
}

static const carve_operator negate = {
    .size = sizeof negate, .domain = STR("bench"), .name = STR("Negate"), .schema = STR("in X:T\nout Y:T\nty T=float"), .run = run};
static const carve_operator *const operators[] = {&negate};
static const carve_plugin plugin = {.size = sizeof plugin, .abi_major = CARVE_ABI_MAJOR, .abi_minor = CARVE_ABI_MINOR, .name = STR("negate"),
                                    .own_operators = operators, .n_own_operators = 1};

const carve_plugin *carve_plugin_query(const carve_query *query) { return query->abi_major == CARVE_ABI_MAJOR ? &plugin : 0; }
