// A plugin in C++ for Relu of float32 in the host's memory, whose functions throw. By -DTHROWS=... something is thrown where it
// runs, compiles or plans.
#include <memory>
#include <vector>

#include "carve_plugin.hpp"

#define NOTHING 0
#define RUNTIME_ERROR 1
#define BAD_ALLOC 2
#define NUMBER 3
#define REFUSED 4
#define ARGUMENT 5

#ifndef THROWS
#define THROWS NOTHING
#endif

namespace {

struct session {
  const carve_run *run;
};

int32_t processors(const carve_processor *const **out, uint64_t *n) {
  static const carve_processor cpp = {sizeof cpp, 0, 1, 0, CARVE_PROCESSOR_HOST_MEMORY, 0, carve::text("guard"), carve::text("C++"), carve_str{nullptr, 0}};
  static const carve_processor *const list[] = {&cpp};
  *out = list, *n = 1;
  return CARVE_OK;
}

void open(uint32_t, const carve_str *, uint64_t n, uint64_t *b) {
  if (n > 0) throw std::invalid_argument("there are no options");
  *b = 1;
}

void nothing(uint64_t) {}

int32_t operators(uint64_t, const carve_op *const **out, uint64_t *n) {
  static const carve_op relu = {sizeof relu, 6, 0, 0, carve_str{nullptr, 0}, carve::text("Relu"), 2, 0};
  static const carve_op *const list[] = {&relu};
  *out = list, *n = 1;
  return CARVE_OK;
}

void supports(uint64_t, const carve_graph *g, const uint32_t *nodes, uint64_t n, carve_support *const *out) {
  for (uint64_t i = 0; i < n; i++) {
    if (!carve::equal(g->nodes[nodes[i]]->op, "Relu")) throw std::logic_error("not asked for");
    out[i]->status = CARVE_OK;
  }
}

void compile(uint64_t, const carve_graph *g, const carve_options *, uint64_t *out) {
  if (THROWS == REFUSED) throw carve::refused("not on a Sunday");
  if (g->n_nodes != 1) throw carve::refused("one node at a time");
  *out = 1;
}

void specialize(uint64_t, const carve_binding *, uint64_t, uint64_t *out) {
  if (THROWS == ARGUMENT) std::vector<int>().at(7);
  *out = 1;
}

void session_open(uint64_t, const carve_run *run, uint64_t, uint64_t *out) {
  *out = carve::handle(std::unique_ptr<session>(new session{run}).release());
}

void session_close(uint64_t h) { delete &carve::object<session>(h); }

void enqueue(uint64_t h, uint64_t *) {
  const carve_run *run = carve::object<session>(h).run;
  const carve_tensor *x = run->inputs[0], *y = run->outputs[0];
  if (THROWS == RUNTIME_ERROR) throw std::runtime_error("the unit is on fire");
  if (THROWS == BAD_ALLOC) throw std::bad_alloc();
  if (THROWS == NUMBER) throw 7;
  if (x->strides != nullptr) throw carve::not_contiguous(0, "rows, please");
  const float *a = reinterpret_cast<const float *>(static_cast<const char *>(x->data) + x->byte_offset);
  float *r = reinterpret_cast<float *>(static_cast<char *>(y->data) + y->byte_offset);
  int64_t n = 1;
  for (int i = 0; i < y->ndim; i++) n *= y->shape[i];
  for (int64_t i = 0; i < n; i++) r[i] = a[i] < 0 ? 0 : a[i];
}

carve_plugin make() {
  carve_plugin t = carve_plugin();
  t.size = sizeof t, t.abi_major = CARVE_ABI_MAJOR, t.abi_minor = CARVE_ABI_MINOR;
  t.name = carve::text("guard"), t.version = carve::text("1");
  t.processors = CARVE_GUARD(processors), t.open = CARVE_GUARD(open), t.close = CARVE_GUARD_PLAIN(nothing);
  t.operators = CARVE_GUARD_PLAIN(operators), t.supports = CARVE_GUARD(supports);
  t.compile = CARVE_GUARD(compile), t.executable_close = CARVE_GUARD_PLAIN(nothing);
  t.specialize = CARVE_GUARD(specialize), t.instance_close = CARVE_GUARD_PLAIN(nothing);
  t.session_open = CARVE_GUARD(session_open), t.enqueue = CARVE_GUARD(enqueue), t.session_close = CARVE_GUARD_PLAIN(session_close);
  return t;
}

}  // namespace

const carve_plugin *carve_plugin_query(const carve_query *q) {
  static const carve_plugin table = make();
  return q->abi_major == CARVE_ABI_MAJOR ? &table : nullptr;
}
