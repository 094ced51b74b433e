/*
 * A fake CUDA driver for tests, over the host's memory: it checks what it is given, runs what is queued late and in an order
 * drawn from a seed, fails where it is told to, and counts. Its functions bear the names of the real one's; no line of it is
 * anybody else's. Images are put, to be opened, into the folder that the library is in.
 */
#include "state.h"
#include "folder.h"
static _Noreturn void fibre_fault(const char *text);
#include "dialect.h"
#include "fibres.h"
#include "runtime_table.h"
#include <signal.h>
#include "memory.h"
#include "module.h"
#include "queue.h"
#include "copies.h"
#include "graph.h"
#include "cublas.h"
#include "cudnn.h"

API(cuInit, 0, (unsigned flags), (flags)) {
	if (flags != 0) return INVALID_VALUE;
	if (set.devices == 0) return NO_DEVICE;
	initialised = 1;
	return SUCCESS;
}

API(cuDriverGetVersion, 0, (int *out), (out)) {
	if (!out) return INVALID_VALUE;
	*out = (int)set.driver;
	return SUCCESS;
}

static int error_at(int code) {
	int n = sizeof error_table / sizeof error_table[0];
	for (int i = 0; i < n; i++)
		if (error_table[i].code == code) return i;
	return -1;
}

API(cuGetErrorName, QUIET, (int code, const char **out), (code, out)) {
	int i = error_at(code);
	*out = i < 0 ? 0 : error_table[i].name;
	return i < 0 ? INVALID_VALUE : SUCCESS;
}

API(cuGetErrorString, QUIET, (int code, const char **out), (code, out)) {
	int i = error_at(code);
	*out = i < 0 ? 0 : error_table[i].text;
	return i < 0 ? INVALID_VALUE : SUCCESS;
}

#define DEVICE_EXISTS(d) if ((d) < 0 || (d) >= set.devices) return INVALID_DEVICE;

API(cuDeviceGetCount, READY, (int *out), (out)) {
	*out = (int)set.devices;
	return SUCCESS;
}

API(cuDeviceGet, READY, (int *out, int n), (out, n)) {
	DEVICE_EXISTS(n)
	*out = n;
	return SUCCESS;
}

API(cuDeviceGetName, READY, (char *out, int room, int d), (out, room, d)) {
	DEVICE_EXISTS(d)
	if (room < 1) return INVALID_VALUE;
	snprintf(out, (size_t)room, "Fake GPU %d", d);
	return SUCCESS;
}

API(cuDeviceTotalMem_v2, READY, (size_t *out, int d), (out, d)) {
	DEVICE_EXISTS(d)
	*out = (size_t)set.memory;
	return SUCCESS;
}

API(cuDeviceGetUuid_v2, READY, (u8 *out, int d), (out, d)) {
	DEVICE_EXISTS(d)
	memset(out, 0, 16);
	memcpy(out, "fake", 4);
	out[15] = (u8)d;
	return SUCCESS;
}

API(cuDeviceGetAttribute, READY, (int *out, int attribute, int d), (out, attribute, d)) {
	DEVICE_EXISTS(d)
	const struct {
		int attribute, value;
	} table[] = {
		{1, 1024}, {2, 1024}, {3, 1024}, {4, 64}, {5, 0x7fffffff}, {6, 65535}, {7, 65535}, {8, 48 << 10}, {10, 32}, {12, 65536},
		{13, 1000000}, {16, (int)set.processors}, {18, 0}, {19, 1}, {20, 0}, {31, 1}, {33, d}, {34, 0}, {36, 1000000}, {37, 4096},
		{38, 4 << 20}, {39, 2048}, {40, 2}, {41, 1}, {50, 0}, {75, (int)set.capability / 10}, {76, (int)set.capability % 10},
		{78, 1}, {79, 1}, {80, 1}, {81, shared_optin() + 1024}, {82, 65536}, {83, 0}, {97, shared_optin()}, {106, 32}, {111, 1024}, {115, pools()},
	};
	for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
		if (table[i].attribute == attribute) {
			*out = table[i].value;
			return SUCCESS;
		}
	return INVALID_VALUE;
}

API(cuDevicePrimaryCtxRetain, READY, (void **out, int d), (out, d)) {
	DEVICE_EXISTS(d)
	if (devices[d].lost) return devices[d].lost;
	if (devices[d].retains++ == 0) devices[d].handle = make_handle(H_CONTEXT, d, &devices[d]);
	*out = devices[d].handle;
	return SUCCESS;
}

/* What a context's end leaves behind. */
static void check_left(int d) {
	for (size_t i = 0; i < handle_count; i++)
		if (handles[i].alive && handles[i].device == d && handles[i].kind != H_POOL && handles[i].kind != H_NODE && handles[i].kind != H_CONTEXT && handles[i].kind != H_FUNCTION)
			wrong("a %s is left when the last retain of its context ends", kind_names[handles[i].kind]);
	for (size_t i = 0; i < block_count; i++)
		if (blocks[i]->device == d && !blocks[i]->freeing)
			wrong("%zu bytes of %s are left when the last retain of the context ends", blocks[i]->bytes, block_names[blocks[i]->kind]);
}

API(cuDevicePrimaryCtxRelease_v2, READY | RELEASES, (int d), (d)) {
	DEVICE_EXISTS(d)
	if (devices[d].retains == 0) {
		wrong("the context is not retained");
		return INVALID_CONTEXT;
	}
	if (--devices[d].retains > 0) return SUCCESS;
	drain(d);
	check_left(d);
	drop_handle(devices[d].handle);
	devices[d].handle = 0;
	return SUCCESS;
}

API(cuDevicePrimaryCtxSetFlags_v2, READY, (int d, unsigned flags), (d, flags)) {
	DEVICE_EXISTS(d)
	devices[d].flags = flags;
	return SUCCESS;
}

API(cuDevicePrimaryCtxGetState, READY, (int d, unsigned *flags, int *active), (d, flags, active)) {
	DEVICE_EXISTS(d)
	*flags = devices[d].flags;
	*active = devices[d].retains > 0;
	return SUCCESS;
}

API(cuCtxSetCurrent, READY, (void *h), (h)) {
	if (h && !entry_of(h, H_CONTEXT)) return INVALID_CONTEXT;
	if (context_depth == 0) context_depth = 1;
	context_stack[context_depth - 1] = h;
	return SUCCESS;
}

API(cuCtxGetCurrent, READY, (void **out), (out)) {
	*out = context_depth > 0 ? context_stack[context_depth - 1] : 0;
	return SUCCESS;
}

API(cuCtxPushCurrent_v2, READY, (void *h), (h)) {
	if (!entry_of(h, H_CONTEXT)) return INVALID_CONTEXT;
	if (context_depth == (int)(sizeof context_stack / sizeof context_stack[0])) return INVALID_VALUE;
	context_stack[context_depth++] = h;
	return SUCCESS;
}

API(cuCtxPopCurrent_v2, READY | RELEASES, (void **out), (out)) {
	if (context_depth == 0) {
		wrong("no context is current on this thread");
		return INVALID_CONTEXT;
	}
	void *h = context_stack[--context_depth];
	if (out) *out = h;
	return SUCCESS;
}

API(cuCtxGetDevice, READY | CURRENT, (int *out), (out)) {
	*out = current_device();
	return SUCCESS;
}

/* What specs call. None of these is a function of the real driver. */

static long long *setting(const char *name) {
#define SETTING_FIND(n, value) if (strcmp(name, #n) == 0) return &set.n;
	SETTINGS(SETTING_FIND)
	return 0;
}

/* Sets what a name says; returns 0 where there is no such setting. Setting fail_at or fail_every begins a new count. */
EXPORT int fakecuda_set(const char *name, long long value) {
	pthread_mutex_lock(&lock);
	long long *to = setting(name);
	int begin = to == &set.worker && value && !set.worker;
	if (to) *to = value;
	if (to == &set.fail_at || to == &set.fail_every) calls_to_fail = 0;
	if (to == &set.fault_at && value) set.fault_at += kernels_run;
	if (to == &set.seed) order_state = (u64)value * 0x9e3779b97f4a7c15ull + 1;
	if (begin) start_worker();
	pthread_mutex_unlock(&lock);
	return to != 0;
}

/* Restricts injected errors to the calls of one function, all of them where the name is empty. */
EXPORT void fakecuda_fail_in(const char *name) {
	pthread_mutex_lock(&lock);
	snprintf(fail_name, sizeof fail_name, "%s", name);
	calls_to_fail = 0;
	pthread_mutex_unlock(&lock);
}

/* The calls of a function since the last reset; of "" those that an error could have been injected into since that was set,
 * of "kernels" those that ran, of "executed" the commands that ran, of "early" those that had when the last one was queued. */
EXPORT long long fakecuda_count(const char *name) {
	pthread_mutex_lock(&lock);
	long long n = 0;
	if (!*name) n = calls_to_fail;
	else if (strcmp(name, "kernels") == 0) n = kernels_run;
	else if (strcmp(name, "executed") == 0) n = executed_ops;
	else if (strcmp(name, "early") == 0) n = executed_early;
	for (counter *c = counters; c; c = c->next)
		if (strcmp(c->name, name) == 0) n = c->calls;
	pthread_mutex_unlock(&lock);
	return n;
}

static size_t print(char *to, size_t room, size_t at, const char *format, const char *name, long long n) {
	int more = snprintf(at < room ? to + at : 0, at < room ? room - at : 0, format, name, n);
	return at + (size_t)more;
}

/* Writes what is live, a line a kind, and returns its length. */
EXPORT size_t fakecuda_live(char *to, size_t room) {
	pthread_mutex_lock(&lock);
	size_t n = 0;
	if (room > 0) *to = 0;
	for (int i = 1; i < H_KINDS; i++)
		if (live[i] != 0 && i != H_NODE) n = print(to, room, n, "%s: %lld\n", kind_names[i], live[i]);
	for (int i = 0; i < B_KINDS; i++)
		if (live_blocks[i] != 0) n = print(to, room, n, "blocks of %s: %lld\n", block_names[i], live_blocks[i]);
	pthread_mutex_unlock(&lock);
	return n;
}

/* Writes what was called, a line a function, and returns its length. */
EXPORT size_t fakecuda_calls(char *to, size_t room) {
	pthread_mutex_lock(&lock);
	size_t n = 0;
	if (room > 0) *to = 0;
	for (counter *c = counters; c; c = c->next)
		if (c->calls > 0) n = print(to, room, n, "%s: %lld\n", c->name, c->calls);
	pthread_mutex_unlock(&lock);
	return n;
}

/* Writes what was done wrong, and returns its length. */
EXPORT size_t fakecuda_report(char *to, size_t room) {
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < block_count; i++)
		if (!guards_hold(blocks[i])) {
			wrong("%s was written outside of its %zu bytes", block_names[blocks[i]->kind], blocks[i]->bytes);
			mend_guards(blocks[i]);
		}
	snprintf(to, room, "%s", report);
	size_t n = report_length;
	pthread_mutex_unlock(&lock);
	return n;
}

/* Runs what is queued, and then makes settings, counts and the report what they were at first. What is live stays so. */
EXPORT void fakecuda_reset(void) {
	pthread_mutex_lock(&lock);
	set.worker = 0;
	for (int d = 0; d < DEVICES_MAX; d++) drain(d);
#define SETTING_RESET(n, value) set.n = value;
	SETTINGS(SETTING_RESET)
	for (counter *c = counters; c; c = c->next) c->calls = 0;
	for (int d = 0; d < DEVICES_MAX; d++) devices[d].lost = 0;
	fail_name[0] = 0;
	calls_to_fail = kernels_run = executed_ops = executed_early = 0;
	report_length = 0;
	report[0] = 0;
	order_state = 1;
	pthread_mutex_unlock(&lock);
}
