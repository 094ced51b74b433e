/*
 * A host in C that drives the accelerator in C as carve does, for sanitizers: it opens the library's processor, has Conv and
 * Relu claimed and compiled, runs them from several threads, compares the results, tries what has to fail, and closes all.
 *
 *     gcc -g -fsanitize=address,undefined -I backend/plugin -o host backend/plugin/testdata/host.c -lm -lpthread -ldl
 *     ./host ./tiny-npu.so
 */
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "carve_plugin.h"

#define STR(s) {s, sizeof(s) - 1}

enum { C = 3, M = 9, H = 8, W = 7, THREADS = 4, RUNS = 50 };

static const carve_plugin *p;
static uint64_t unit, group;

typedef struct { carve_error e; char text[128]; } failure;

static carve_error *fresh(failure *f) {
  f->e = (carve_error){sizeof f->e, -1, f->text, sizeof f->text, 0};
  return &f->e;
}

static void stop(const char *what, int32_t status, const failure *f) {
  fprintf(stderr, "%s: status %d: %.*s\n", what, (int)status, f ? (int)f->e.len : 0, f ? f->text : "");
  exit(1);
}

static void want(const char *what, int32_t status, int32_t wanted, const failure *f) {
  if (status != wanted) stop(what, status, f);
}

/* ---------------------------------------------------------------------------------------------------- the host's services */

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static int told[THREADS + 1]; /* times that done was called, by token */

static void *host_alloc(void *ctx, uint64_t bytes, uint64_t align) {
  void *at = NULL;
  (void)ctx;
  return posix_memalign(&at, align < sizeof at ? sizeof at : (size_t)align, (size_t)bytes) == 0 ? at : NULL;
}

static void host_free(void *ctx, void *block) {
  (void)ctx;
  free(block);
}

static void host_log(void *ctx, int32_t level, const char *text, uint64_t len) {
  (void)ctx;
  fprintf(stderr, "log %d: %.*s\n", (int)level, (int)len, text);
}

static int32_t host_parallel_for(void *ctx, uint64_t run, int64_t n, void (*fn)(void *, int64_t, int64_t), void *arg) {
  (void)ctx, (void)run;
  fn(arg, 0, n);
  return CARVE_OK;
}

static int32_t host_output(void *ctx, uint64_t run, uint64_t index, const int64_t *shape, uint64_t ndim) {
  (void)ctx, (void)run, (void)index, (void)shape, (void)ndim;
  return CARVE_BAD_ARGUMENT; /* no shape depends on data */
}

static void host_done(void *ctx, uint64_t token, int32_t status) {
  (void)ctx, (void)status;
  pthread_mutex_lock(&mu);
  told[token]++;
  pthread_cond_broadcast(&cond);
  pthread_mutex_unlock(&mu);
}

static carve_host host = {.size = sizeof host, .abi_minor = CARVE_ABI_MINOR, .alloc = host_alloc, .free = host_free, .log = host_log,
                          .parallel_for = host_parallel_for, .output = host_output, .done = host_done};

/* -------------------------------------------------------------------------------------------------- tensors and the graph */

static const carve_format rows = {sizeof rows, 12, 0, 0, {0, 0}};
static carve_format c8 = {sizeof c8, 12, 0, 0, STR("tiny-npu@1:c8")};
static int64_t x_dims[] = {1, C, H, W}, w_dims[] = {M, C, 3, 3}, y_dims[] = {1, M, H, W};
static float x_data[C * H * W], w_data[M * C * 9], y_data[M * H * W];

static carve_tensor tensor(int64_t *dims, void *data, int64_t bytes, const carve_format *f) {
  return (carve_tensor){.size = sizeof(carve_tensor), .data = data, .device_type = f ? 12 : 1, .ndim = 4, .dtype_code = 2, .dtype_bits = 32,
                        .dtype_lanes = 1, .shape = dims, .bytes = bytes, .type = 1, .format = f};
}

static uint64_t block(int64_t bytes) {
  failure f;
  carve_mem m = {.size = sizeof m};
  want("alloc", p->alloc(unit, (uint64_t)bytes, 256, &m, fresh(&f)), CARVE_OK, &f);
  return m.handle;
}

static int64_t blocked(const int64_t *d) { return 4 * d[0] * ((d[1] + 7) / 8 * 8) * d[2] * d[3]; }

/* upload brings an image to the unit, in its own layout. */
static carve_tensor upload(int64_t *dims, float *data, int64_t elements) {
  failure f;
  int64_t bytes = 0;
  carve_tensor s = tensor(dims, data, 4 * elements, NULL), d = tensor(dims, NULL, 0, &c8);
  want("converted_size", p->converted_size(unit, &c8, &d, &bytes, fresh(&f)), CARVE_OK, &f);
  want("converted_size", (int32_t)bytes, (int32_t)blocked(dims), NULL);
  d.data = (void *)(uintptr_t)block(bytes), d.bytes = bytes;
  if (data) want("convert", p->convert(unit, 0, &d, &s, 0, fresh(&f)), CARVE_OK, &f);
  return d;
}

static carve_tensor weights; /* in the unit's memory */

static void compile(void) {
  failure f;
  static const int64_t pads[] = {1, 1, 1, 1};
  static const carve_attr pad = {.size = sizeof pad, .type = CARVE_ATTR_INTS, .name = STR("pads"), .ints = pads, .n = 4};
  static const carve_attr *const attrs[] = {&pad};
  static const uint32_t conv_in[] = {0, 1}, conv_out[] = {2}, relu_in[] = {2}, relu_out[] = {3}, outputs[] = {3}, inputs[] = {0}, constants[] = {1};
  carve_value v[] = {{sizeof *v, 1, 4, 0, x_dims, NULL, NULL, &c8, STR("x")}, {sizeof *v, 1, 4, 0, w_dims, NULL, &weights, &rows, STR("w")},
                     {sizeof *v, 1, 4, 0, y_dims, NULL, NULL, &c8, STR("c")}, {sizeof *v, 1, 4, 0, y_dims, NULL, NULL, &c8, STR("y")}};
  const carve_value *values[] = {&v[0], &v[1], &v[2], &v[3]};
  carve_node n[] = {{sizeof *n, 11, {0, 0}, STR("Conv"), STR("conv"), conv_in, conv_out, 2, 1, attrs, 1, NULL},
                    {sizeof *n, 14, {0, 0}, STR("Relu"), STR("relu"), relu_in, relu_out, 1, 1, NULL, 0, NULL}};
  const carve_node *nodes[] = {&n[0], &n[1]};
  carve_graph g = {.size = sizeof g, .n_nodes = 2, .nodes = nodes, .values = values, .n_values = 4, .n_inputs = 1, .inputs = inputs,
                   .outputs = outputs, .n_outputs = 1, .n_constants = 1, .constants = constants};
  char why[64];
  carve_support answers[2], *out[] = {&answers[0], &answers[1]};
  uint32_t both[] = {0, 1};
  for (int i = 0; i < 2; i++) answers[i] = (carve_support){.size = sizeof *answers, .status = CARVE_NOT_IMPLEMENTED, .text = why, .cap = sizeof why};
  want("supports", p->supports(unit, &g, both, 2, out, fresh(&f)), CARVE_OK, &f);
  for (int i = 0; i < 2; i++) want("supports", answers[i].status, CARVE_OK, NULL);
  const carve_claims *claims = NULL;
  want("claim", p->claim(unit, &g, &claims, fresh(&f)), CARVE_OK, &f);
  if (claims->n != 1 || claims->claims[0]->n_nodes != 2) stop("claim", (int32_t)claims->n, NULL);
  p->release_claims(unit, claims);
  int32_t cancel = 0;
  carve_options o = {sizeof o, 1, &cancel};
  want("compile", p->compile(unit, &g, &o, &group, fresh(&f)), CARVE_OK, &f);
}

/* ---------------------------------------------------------------------------------------------------------------- the runs */

static void wait_for(uint64_t event, int k, int32_t wanted) {
  failure f;
  int32_t status = CARVE_PENDING;
  if (p->event_notify) {
    pthread_mutex_lock(&mu);
    int before = told[k + 1];
    pthread_mutex_unlock(&mu);
    want("event_notify", p->event_notify(event, (uint64_t)k + 1), CARVE_OK, NULL);
    pthread_mutex_lock(&mu);
    while (told[k + 1] == before) pthread_cond_wait(&cond, &mu);
    pthread_mutex_unlock(&mu);
  }
  while ((status = p->event_wait(event, 1000000, fresh(&f))) == CARVE_PENDING) {}
  want("event_wait", status, wanted, &f);
  want("event_poll", p->event_poll(event, fresh(&f)), wanted, &f);
  want("event_close", p->event_close(event), CARVE_OK, NULL);
}

static void *runs(void *arg) {
  int k = (int)(intptr_t)arg;
  failure f;
  uint64_t in, session, event, stream = 0;
  const carve_requirements *needs = NULL;
  want("specialize", p->specialize(group, NULL, 0, &in, fresh(&f)), CARVE_OK, &f);
  want("requirements", p->requirements(in, &needs), CARVE_OK, NULL);
  carve_tensor x = upload(x_dims, x_data, C * H * W), y = upload(y_dims, NULL, M * H * W), spare[4];
  carve_tensor *inputs[] = {&x}, *outputs[] = {&y}, *constants[] = {&weights}, *buffers[4];
  const uint64_t n = needs->n_buffers; /* needs ends with the instance */
  if (n > 4) stop("requirements", (int32_t)n, NULL);
  for (uint64_t i = 0; i < n; i++) {
    spare[i] = tensor(y_dims, (void *)(uintptr_t)block(needs->buffers[i]->bytes), needs->buffers[i]->bytes, &rows);
    buffers[i] = &spare[i];
  }
  int32_t cancel = 0;
  carve_run run = {sizeof run, 0, inputs, outputs, constants, buffers, &cancel, (uint64_t)k + 1};
  if (p->stream_open) want("stream_open", p->stream_open(unit, 0, &stream, fresh(&f)), CARVE_OK, &f);
  want("session_open", p->session_open(in, &run, stream, &session, fresh(&f)), CARVE_OK, &f);
  float *got = malloc(sizeof y_data);
  carve_tensor back = tensor(y_dims, got, sizeof y_data, NULL);
  for (int r = 0; r < RUNS; r++) {
    event = 0, cancel = r % 10 == 9;
    want("enqueue", p->enqueue(session, &event, fresh(&f)), CARVE_OK, &f);
    if (event) wait_for(event, k, cancel ? CARVE_CANCELLED : CARVE_OK);
    if (cancel) continue;
    want("convert", p->convert(unit, 1, &back, &y, 0, fresh(&f)), CARVE_OK, &f);
    for (int i = 0; i < M * H * W; i++)
      if (fabsf(got[i] - y_data[i]) > 1e-5f) stop("a result differs, at", i, NULL);
  }
  free(got);
  want("session_close", p->session_close(session), CARVE_OK, NULL);
  want("instance_close", p->instance_close(in), CARVE_OK, NULL);
  if (stream) {
    want("stream_sync", p->stream_sync(stream, 1000000000, fresh(&f)), CARVE_OK, &f);
    want("stream_close", p->stream_close(stream), CARVE_OK, NULL);
  }
  for (uint64_t i = 0; i < n; i++) want("free", p->free(unit, (uint64_t)(uintptr_t)spare[i].data), CARVE_OK, NULL);
  want("free", p->free(unit, (uint64_t)(uintptr_t)x.data), CARVE_OK, NULL);
  want("free", p->free(unit, (uint64_t)(uintptr_t)y.data), CARVE_OK, NULL);
  return NULL;
}

/* refused tries what has to be an error and nothing worse. */
static void refused(void) {
  failure f;
  carve_mem m = {.size = sizeof m};
  carve_error none = {sizeof none, -1, NULL, 0, 0};
  want("alloc of too much", p->alloc(unit, UINT64_MAX / 2, 256, &m, fresh(&f)), CARVE_OUT_OF_MEMORY, &f);
  want("alloc of too much, the reason not wanted", p->alloc(unit, UINT64_MAX / 2, 256, &m, &none), CARVE_OUT_OF_MEMORY, NULL);
  want("alloc of too much, no error wanted", p->alloc(unit, UINT64_MAX / 2, 256, &m, NULL), CARVE_OUT_OF_MEMORY, NULL);
  uint64_t b = block(100), h;
  char bytes[200] = {0};
  carve_copy c = {sizeof c, CARVE_COPY_TO, b, 10, (uint64_t)(uintptr_t)bytes, 0, 200, 0};
  const carve_copy *list[] = {&c};
  if (p->copy(unit, list, 1, 0, fresh(&f)) >= 0) stop("a copy beyond the block", 0, NULL);
  c.bytes = 90;
  want("copy", p->copy(unit, list, 1, 0, fresh(&f)), CARVE_OK, &f);
  want("free", p->free(unit, b), CARVE_OK, NULL);
  carve_str odd = STR("speed=ludicrous");
  if (p->open(0, &odd, 1, &h, fresh(&f)) >= 0) stop("an option that is not there", 0, NULL);
}

static void reference(void) {
  for (int i = 0; i < C * H * W; i++) x_data[i] = (float)(i * 37 % 101) / 50 - 1;
  for (int i = 0; i < M * C * 9; i++) w_data[i] = (float)(i * 53 % 89) / 100 - 0.4f;
  for (int m = 0; m < M; m++)
    for (int o = 0; o < H * W; o++) {
      double sum = 0;
      for (int k = 0; k < C * 9; k++) {
        int y = o / W + k % 9 / 3 - 1, x = o % W + k % 3 - 1;
        if (y >= 0 && x >= 0 && y < H && x < W) sum += (double)x_data[(k / 9 * H + y) * W + x] * w_data[m * C * 9 + k];
      }
      y_data[m * H * W + o] = sum < 0 ? 0 : (float)sum;
    }
}

int main(int argc, char **argv) {
  failure f;
  void *lib = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
  if (!lib) stop("no library", 0, NULL);
  const carve_plugin *(*query)(const carve_query *);
  *(void **)&query = dlsym(lib, "carve_plugin_query");
  carve_query q = {sizeof q, CARVE_ABI_MAJOR + 1, 0, 0, &host, fresh(&f)};
  if (!query || query(&q)) stop("another major version is served", 0, NULL);
  q.abi_major = CARVE_ABI_MAJOR, q.abi_minor = CARVE_ABI_MINOR;
  if (!(p = query(&q))) stop("query", 0, &f);
  const carve_processor *const *list;
  uint64_t n;
  want("processors", p->processors(&list, &n, fresh(&f)), CARVE_OK, &f);
  want("open", p->open(list[0]->index, NULL, 0, &unit, fresh(&f)), CARVE_OK, &f);
  reference();
  refused();
  weights = tensor(w_dims, (void *)(uintptr_t)block(sizeof w_data), sizeof w_data, &rows);
  carve_copy c = {sizeof c, CARVE_COPY_TO, (uint64_t)(uintptr_t)weights.data, 0, (uint64_t)(uintptr_t)w_data, 0, sizeof w_data, 0};
  const carve_copy *copies[] = {&c};
  want("copy", p->copy(unit, copies, 1, 0, fresh(&f)), CARVE_OK, &f);
  compile();
  pthread_t threads[THREADS];
  for (intptr_t i = 0; i < THREADS; i++)
    if (pthread_create(&threads[i], NULL, runs, (void *)i) != 0) stop("thread", (int32_t)i, NULL);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
#ifdef FORGETS /* leaks, for a look at whether they are seen */
  for (int i = 0; i < 20; i++) compile();
#else
  want("executable_close", p->executable_close(group), CARVE_OK, NULL);
#endif
  want("free", p->free(unit, (uint64_t)(uintptr_t)weights.data), CARVE_OK, NULL);
  if (p->live) {
    carve_live live = {.size = sizeof live};
    want("live", p->live(unit, &live), CARVE_OK, NULL);
    if (live.executables || live.instances || live.sessions || live.events || live.streams || live.blocks) stop("something is alive", 0, NULL);
  }
  want("close", p->close(unit), CARVE_OK, NULL);
  puts("ok");
  return 0;
}
