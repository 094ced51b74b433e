#define _GNU_SOURCE
#include <signal.h>
#include <string.h>

#include "_cgo_export.h"

static const carve_host *host;

const carve_host *host_table(void) { return host; }

void host_done(const carve_host *h, uint64_t token, int32_t status) { h->done(h->ctx, token, status); }

int32_t host_output(const carve_host *h, uint64_t run, uint64_t index, const int64_t *shape, uint64_t ndim) {
  return h->output(h->ctx, run, index, shape, ndim);
}

/* SIGURG is how a Go runtime interrupts a goroutine that does not stop by itself. The library's runtime takes the handler from
 * the host's without passing on what is not its own, so both are called: each finds by its own thread-local variable whether
 * the signal is about a goroutine of its own, and returns if not. */
static struct sigaction before, own;

__attribute__((constructor(101))) static void remember(void) { sigaction(SIGURG, NULL, &before); }

static int has_function(const struct sigaction *a) { return a->sa_handler != SIG_DFL && a->sa_handler != SIG_IGN; }

static void call(const struct sigaction *a, int sig, siginfo_t *info, void *context) {
  if (a->sa_flags & SA_SIGINFO) a->sa_sigaction(sig, info, context);
  else a->sa_handler(sig);
}

static void both(int sig, siginfo_t *info, void *context) {
  call(&own, sig, info, context);
  call(&before, sig, info, context);
}

static void share_signal(void) {
  struct sigaction now;
  sigaction(SIGURG, NULL, &now);
  if (!has_function(&before) || !has_function(&now) || now.sa_sigaction == both || now.sa_sigaction == before.sa_sigaction) return;
  own = now;
  now.sa_sigaction = both;
  sigaction(SIGURG, &now, NULL);
}

#define STR(s) {s, sizeof(s) - 1}
#define GO(f) (void *)f /* cgo writes prototypes without const */

const carve_plugin *carve_plugin_query(const carve_query *q) {
  static const carve_plugin table = {
      .size = sizeof table, .abi_major = 1, .abi_minor = 0, .name = STR("accelerator"), .version = STR("1"), .vendor = STR("carve"),
      .processors = GO(accProcessors), .open = GO(accOpen), .close = GO(accClose), .live = GO(accLive),
      .operators = GO(accOperators), .supports = GO(accSupports),
      .compile = GO(accCompile), .executable_close = GO(accExecutableClose), .specialize = GO(accSpecialize),
      .instance_close = GO(accInstanceClose),
      .session_open = GO(accSessionOpen), .enqueue = GO(accEnqueue), .session_close = GO(accSessionClose),
      .event_poll = GO(accEventPoll), .event_wait = GO(accEventWait), .event_notify = GO(accEventNotify), .event_close = GO(accEventClose),
      .stream_open = GO(accStreamOpen), .stream_record = GO(accStreamRecord), .stream_wait = GO(accStreamWait),
      .stream_sync = GO(accStreamSync), .stream_close = GO(accStreamClose),
      .alloc = GO(accAlloc), .free = GO(accFree), .copy = GO(accCopy)};
  if (q->abi_major != 1) return NULL;
  host = q->host;
  share_signal();
  return &table;
}
