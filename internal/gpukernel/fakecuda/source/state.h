/*
 * What all of the fake driver shares: errors, settings, counts, the report, handles, and what each call begins with.
 * One lock guards everything; it is given up only while a kernel runs.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define DEVICES_MAX 8

enum {
	SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, NO_DEVICE = 100, INVALID_DEVICE = 101,
	INVALID_IMAGE = 200, INVALID_CONTEXT = 201, NO_BINARY = 209, UNSUPPORTED_PTX = 222, INVALID_HANDLE = 400, NOT_FOUND = 500,
	NOT_READY = 600, ILLEGAL_ADDRESS = 700, OUT_OF_RESOURCES = 701, MISALIGNED = 716, ALREADY_REGISTERED = 712,
	NOT_REGISTERED = 713, LAUNCH_FAILED = 719, NOT_SUPPORTED = 801, CAPTURE_UNSUPPORTED = 900, CAPTURE_INVALIDATED = 901,
	CAPTURE_MERGE = 902, CAPTURE_UNMATCHED = 903, CAPTURE_UNJOINED = 904, CAPTURE_ISOLATION = 905, CAPTURED_EVENT = 907,
	CAPTURE_WRONG_THREAD = 908, UPDATE_FAILURE = 910, UNKNOWN_ERROR = 999
};

static const struct {
	int code;
	const char *name, *text;
} error_table[] = {
	{SUCCESS, "CUDA_SUCCESS", "no error"},
	{INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "an argument has a value that does not fit"},
	{OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "there is not enough memory"},
	{NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "the driver has not been initialised"},
	{NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "there is no device"},
	{INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "there is no device of that number"},
	{INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "the image is none of machine code"},
	{INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "no context, or the wrong one, is current"},
	{NO_BINARY, "CUDA_ERROR_NO_BINARY_FOR_GPU", "the image has nothing for this device"},
	{UNSUPPORTED_PTX, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "the PTX is of a version that is not supported"},
	{INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "the handle is not valid"},
	{NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "there is none of that name"},
	{NOT_READY, "CUDA_ERROR_NOT_READY", "what was asked for is not complete"},
	{ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal address was read or written"},
	{OUT_OF_RESOURCES, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "the launch asks for more than there is"},
	{MISALIGNED, "CUDA_ERROR_MISALIGNED_ADDRESS", "an address is not aligned"},
	{ALREADY_REGISTERED, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", "some of the memory is registered already"},
	{NOT_REGISTERED, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", "the memory is not registered"},
	{LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "a kernel failed"},
	{NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "that is not supported"},
	{CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "that may not be done while a stream is captured"},
	{CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "an earlier error has ended the capture"},
	{CAPTURE_MERGE, "CUDA_ERROR_STREAM_CAPTURE_MERGE", "two captures would become one"},
	{CAPTURE_UNMATCHED, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", "the capture did not begin on this stream"},
	{CAPTURE_UNJOINED, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "a stream of the capture was not joined"},
	{CAPTURE_ISOLATION, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION", "the capture would depend on what is outside of it"},
	{CAPTURED_EVENT, "CUDA_ERROR_CAPTURED_EVENT", "the event was last recorded in a capture"},
	{CAPTURE_WRONG_THREAD, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD", "the capture began on another thread"},
	{UPDATE_FAILURE, "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE", "the graph cannot be updated to that"},
	{UNKNOWN_ERROR, "CUDA_ERROR_UNKNOWN", "an unknown error"},
};

/* Settings, by name, with what they are at first. */
#define SETTINGS(X) \
	X(devices, 1) X(memory, 1 << 30) X(driver, 12090) X(capability, 80) X(processors, 4) \
	X(seed, 1) X(early, 25) X(worker, 0) X(slow_us, 0) X(slow_library_us, 0) X(trace, 0) \
	X(fail_at, 0) X(fail_every, 0) X(fail_code, 999) X(fail_sticky, 0) X(fault_at, 0) X(no_pools, 0) \
	X(blas_version, 120901) X(dnn_version, 92800) X(no_algorithms, 0)
#define SETTING_MEMBER(name, value) long long name;
#define SETTING_VALUE(name, value) value,
static struct { SETTINGS(SETTING_MEMBER) } set = {SETTINGS(SETTING_VALUE)};
static char fail_name[64]; /* the function whose calls fail_at and fail_every count; "": all */

typedef struct counter {
	const char *name;
	long long calls;
	int listed;
	struct counter *next;
} counter;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static counter *counters, *call_now;
static long long calls_to_fail, kernels_run, executed_ops, executed_early; /* early: when the last command was queued */
static int initialised, failing; /* failing: the call does what it has to, and returns an error that was injected */
static char report[1 << 14];
static size_t report_length;
static unsigned long long order_state = 1;

/* Adds a line to the report of what was done wrong. It ends where the report is full. */
__attribute__((format(printf, 1, 2))) static void wrong(const char *format, ...) {
	char line[640];
	int at = snprintf(line, sizeof line, "%s: ", call_now ? call_now->name : "a queued command");
	va_list args;
	va_start(args, format);
	vsnprintf(line + at, sizeof line - (size_t)at, format, args);
	va_end(args);
	size_t n = strlen(line);
	if (report_length + n + 2 > sizeof report) return;
	memcpy(report + report_length, line, n);
	report[report_length + n] = '\n';
	report_length += n + 1;
	report[report_length] = 0;
}

static unsigned order_below(unsigned n) {
	order_state = order_state * 6364136223846793005ull + 1442695040888963407ull;
	return (unsigned)((order_state >> 33) % n);
}

/* Handles are numbers that no pointer has, so that a wrong one is found and not followed. */
typedef enum { H_CONTEXT = 1, H_STREAM, H_EVENT, H_MODULE, H_FUNCTION, H_GRAPH, H_EXEC, H_NODE, H_POOL, H_BLAS, H_DNN, H_DESCRIPTOR, H_KINDS } handle_kind;
static const char *const kind_names[] = {"", "context", "stream", "event", "module", "function", "graph", "exec", "node", "pool", "cuBLASLt", "cuDNN", "descriptor"};
#define HANDLE_BASE 0x5ca1ab1e0000ull

typedef struct {
	handle_kind kind;
	int alive, device;
	void *of;
} handle_entry;

static handle_entry *handles;
static size_t handle_count, handle_room;
static long long live[H_KINDS];

static void *grow(void *list, size_t *room, size_t want, size_t each) {
	if (want <= *room) return list;
	*room = want * 2 + 16;
	list = realloc(list, *room * each);
	if (!list) abort();
	return list;
}

static void *make_handle(handle_kind kind, int device, void *of) {
	handles = grow(handles, &handle_room, handle_count + 1, sizeof *handles);
	handles[handle_count] = (handle_entry){kind, 1, device, of};
	live[kind]++;
	return (void *)(uintptr_t)(HANDLE_BASE + handle_count++ * 16 + (size_t)kind);
}

static handle_entry *entry_of(const void *h, handle_kind kind) {
	uintptr_t n = (uintptr_t)h - HANDLE_BASE;
	if ((uintptr_t)h < HANDLE_BASE || n / 16 >= handle_count || n % 16 != (uintptr_t)handles[n / 16].kind) {
		wrong("%p is no handle", h);
		return 0;
	}
	handle_entry *e = &handles[n / 16];
	if (e->kind != kind) {
		wrong("a %s is given for a %s", kind_names[e->kind], kind_names[kind]);
		return 0;
	}
	if (!e->alive) {
		wrong("the %s has been destroyed", kind_names[kind]);
		return 0;
	}
	return e;
}

static void *object(const void *h, handle_kind kind) {
	handle_entry *e = entry_of(h, kind);
	return e ? e->of : 0;
}

static void drop_handle(const void *h) {
	handle_entry *e = &handles[((uintptr_t)h - HANDLE_BASE) / 16];
	e->alive = 0;
	live[e->kind]--;
}

/* Devices and their primary contexts. */
typedef struct {
	int retains, lost; /* the error that every call gives once the context is lost */
	unsigned flags;
	void *handle, *pool;
	long long used; /* bytes of memory */
} fake_device;

static fake_device devices[DEVICES_MAX];
static __thread void *context_stack[16];
static __thread int context_depth;

/* The device whose context is current on this thread, -1 where none is. */
static int current_device(void) {
	if (context_depth == 0 || !context_stack[context_depth - 1]) return -1;
	uintptr_t n = ((uintptr_t)context_stack[context_depth - 1] - HANDLE_BASE) / 16;
	return handles[n].alive ? handles[n].device : -1;
}

static int lose(int device, int code) {
	if (!devices[device].lost) devices[device].lost = code;
	return devices[device].lost;
}

/* What a call needs, and what it is. */
#define READY 1    /* cuInit was called */
#define CURRENT 2  /* a context is current on this thread */
#define RELEASES 4 /* the call gives something back, which it does even where it returns an error of an earlier one */
#define UNSAFE 8   /* not while a stream is captured, as far as the capture's mode goes */
#define QUIET 16   /* errors are not injected */

static int refuse_in_capture(void);

/* Whether this call is one that is to fail. */
static int injected(const counter *c) {
	if (fail_name[0] && strcmp(fail_name, c->name) != 0) return 0;
	calls_to_fail++;
	if (set.fail_at == 0 && set.fail_every == 0) return 0;
	if (calls_to_fail != set.fail_at && !(set.fail_every > 0 && calls_to_fail % set.fail_every == 0)) return 0;
	if (set.fail_sticky)
		for (int i = 0; i < DEVICES_MAX; i++) lose(i, (int)set.fail_code);
	return (int)set.fail_code;
}

/* Begins a call: takes the lock, counts, and returns the error that the call gives; *run says whether it is done all the same. */
static int begin_call(counter *c, int needs, int *run) {
	pthread_mutex_lock(&lock);
	call_now = c;
	if (!c->listed) {
		c->listed = 1;
		c->next = counters;
		counters = c;
	}
	c->calls++;
	if (set.trace) fprintf(stderr, "fake CUDA: %s\n", c->name);
	*run = 0;
	if ((needs & READY) && !initialised) {
		wrong("before cuInit");
		return NOT_INITIALIZED;
	}
	int code = needs & QUIET ? 0 : injected(c);
	if (needs & CURRENT) {
		int d = current_device();
		if (d < 0) {
			wrong("no context is current on this thread");
			return INVALID_CONTEXT;
		}
		if (!code) code = devices[d].lost;
	}
	if (!code && (needs & UNSAFE)) {
		code = refuse_in_capture();
		if (code) return code;
	}
	*run = !code || (needs & RELEASES);
	failing = code;
	return code;
}

static int end_call(int code) {
	call_now = 0;
	pthread_mutex_unlock(&lock);
	return code;
}

/* Defines the exported function around do_NAME, which has the body. */
#define API(name, needs, parameters, arguments) \
	static int do_##name parameters; \
	EXPORT int name parameters { \
		static counter call_ = {#name}; \
		int run_, code_ = begin_call(&call_, needs, &run_); \
		if (run_) { \
			int result_ = do_##name arguments; \
			if (!code_) code_ = result_; \
		} \
		return end_call(code_); \
	} \
	static int do_##name parameters
