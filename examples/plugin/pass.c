/*
 * A plugin with one pass: every Gelu without attributes is approximated by tanh. It rewrites the bytes of the ONNX model.
 *   gcc -O2 -shared -fPIC -I backend/plugin -o gelu.so examples/plugin/pass.c
 *   carve dump MODEL --plugin ./gelu.so --after fast-gelu
 */
#include <stdlib.h>
#include <string.h>
#include "carve_plugin.h"
static const uint8_t approximate[] = "\x2a\x16\x0a\x0b" "approximate" "\x22\x04" "tanh" "\xa0\x01\x03"; /* NodeProto.attribute */

static uint64_t varint(const uint8_t **p) {
  uint64_t v = 0;
  for (int shift = 0;; shift += 7) {
    v |= (uint64_t)(**p & 127) << (shift & 63);
    if (!(*(*p)++ & 128)) return v;
  }
}

static uint8_t *put(uint8_t *to, uint64_t v) {
  for (; v > 127; v >>= 7) *to++ = (uint8_t)(v | 128);
  return *to = (uint8_t)v, to + 1;
}
/* rewrite copies a message: a model (depth 0), in it the graph (field 7), in it the nodes (field 1). It returns the end. */
static uint8_t *rewrite(const uint8_t *p, const uint8_t *end, int depth, uint8_t *to) {
  int gelu = 0, plain = 1;
  while (p < end) {
    const uint8_t *field = p;
    uint64_t key = varint(&p), n = 0;
    if ((key & 7) == 0) varint(&p);
    else n = (key & 7) == 1 ? 8 : (key & 7) == 5 ? 4 : varint(&p);
    if (depth == 2 && key == (4 << 3 | 2)) gelu = n == 4 && !memcmp(p, "Gelu", 4); /* op_type */
    if (depth == 2 && key == (5 << 3 | 2)) plain = 0;                              /* attribute */
    if ((depth == 0 && key == (7 << 3 | 2)) || (depth == 1 && key == (1 << 3 | 2))) {
      uint8_t *at = put(to, key), *inner = malloc(4 * n + 64), *stop = rewrite(p, p + n, depth + 1, inner);
      to = (uint8_t *)memcpy(put(at, (uint64_t)(stop - inner)), inner, (size_t)(stop - inner)) + (stop - inner);
      free(inner);
    } else to = (uint8_t *)memcpy(to, field, (size_t)(p + n - field)) + (p + n - field);
    p += n;
  }
  return gelu && plain ? (uint8_t *)memcpy(to, approximate, sizeof approximate - 1) + sizeof approximate - 1 : to;
}

static int32_t run(const carve_pass *pass, const carve_onnx *in, const carve_options *o, carve_onnx *out, carve_error *err) {
  uint8_t *to = malloc(4 * in->len + 64);
  (void)pass, (void)o, (void)err;
  if (!to) return CARVE_OUT_OF_MEMORY;
  out->data = to;
  out->len = (uint64_t)(rewrite(in->data, (const uint8_t *)in->data + in->len, 0, to) - to);
  return CARVE_OK;
}

static void release(const carve_pass *pass, carve_onnx *out) { (void)pass, free((void *)(uintptr_t)out->data); }

static const carve_pass fast = {.size = sizeof fast, .name = {"fast-gelu", 9}, .before = {"simplify", 8}, .run = run,
                                .release = release};
static const carve_pass *const passes[] = {&fast};
static const carve_plugin plugin = {.size = sizeof plugin, .abi_major = CARVE_ABI_MAJOR, .abi_minor = CARVE_ABI_MINOR,
                                    .name = {"gelu", 4}, .passes = passes, .n_passes = 1};

const carve_plugin *carve_plugin_query(const carve_query *query) { return query->abi_major == CARVE_ABI_MAJOR ? &plugin : NULL; }
