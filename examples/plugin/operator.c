/*
 * A plugin with one operator, Snake of the domain com.example: y = x + sin(alpha * x)^2 / alpha (doi:10.48550/arXiv.2006.08195).
 *
 *   gcc -O2 -shared -fPIC -I backend/plugin -o snake.so examples/plugin/operator.c -lm
 *   carve run MODEL --plugin ./snake.so
 */
#include <math.h>

#include "carve_plugin.h"

#define STR(s) {s, sizeof(s) - 1}

static const carve_host *host;

typedef struct work {
  const float *x;
  float *y;
  float alpha;
} work;

static void range(void *arg, int64_t lo, int64_t hi) {
  const work *w = arg;
  for (int64_t i = lo; i < hi; i++) {
    float s = sinf(w->alpha * w->x[i]);
    w->y[i] = w->x[i] + s * s / w->alpha;
  }
}

/* run computes a node. Attributes have their defaults; the first is the only one. */
static int32_t run(const carve_operator *op, const carve_graph *g, const carve_run *r, carve_error *err) {
  const carve_tensor *x = r->inputs[0], *y = r->outputs[0];
  int64_t n = y->bytes / (int64_t)sizeof(float);
  work w = {(const float *)((const char *)x->data + x->byte_offset), (float *)((char *)y->data + y->byte_offset),
            (float)g->nodes[0]->attrs[0]->f};
  (void)op, (void)err;
  if (n < 20000 || host->parallel_for(host->ctx, r->run, n, range, &w) != CARVE_OK) range(&w, 0, n); /* small ones here */
  return CARVE_OK;
}

static const carve_operator snake = {
    .size = sizeof snake,
    .domain = STR("com.example"),
    .name = STR("Snake"),
    .schema = STR("in X:T\nout Y:T\nat alpha:float=1\nty T=float"), /* infer is absent: Y is as X */
    .run = run,
};

static const carve_operator *const operators[] = {&snake};

static const carve_plugin plugin = {
    .size = sizeof plugin, .abi_major = CARVE_ABI_MAJOR, .abi_minor = CARVE_ABI_MINOR, .name = STR("snake"), .version = STR("1.0"),
    .own_operators = operators, .n_own_operators = 1,
};

const carve_plugin *carve_plugin_query(const carve_query *query) {
  host = query->host;
  return query->abi_major == CARVE_ABI_MAJOR ? &plugin : 0;
}
