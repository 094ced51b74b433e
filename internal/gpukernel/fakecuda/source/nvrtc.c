/*
 * A fake of NVIDIA's run-time compiler for tests: it compiles kernels with the host's C compiler, one fibre a work item, to a
 * shared object that the fake driver loads as machine code. Where the text begins with the dialect's header for CUDA, that one is
 * replaced by the one for fibres; the rest is compiled as it is. COMPILER and KEPT are given when this is built:
 * KEPT is where images of earlier processes are, of the same headers by the same compiler, or "".
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#include "folder.h"

#define EXPORT __attribute__((visibility("default")))
#define IMAGE_HASH 9

enum { OK = 0, OUT_OF_MEMORY = 1, INVALID_INPUT = 3, INVALID_PROGRAM = 4, INVALID_OPTION = 5, COMPILATION = 6 };

typedef struct program {
	char *source, *log;
	unsigned char *image;
	size_t image_bytes;
	struct program *next;
} program;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static program *programs;
static long long compiled, from_cache, compile_calls, fail_at, wrong_tanh, version = 12090;
static unsigned serial;

/* A text that grows. */
typedef struct {
	char *at;
	size_t length, room;
} text;

static void put_bytes(text *t, const char *s, size_t n) {
	if (t->length + n + 1 > t->room) {
		t->room = (t->length + n) * 2 + 64;
		t->at = realloc(t->at, t->room);
		if (!t->at) abort();
	}
	memcpy(t->at + t->length, s, n);
	t->at[t->length += n] = 0;
}

static void put(text *t, const char *s) { put_bytes(t, s, strlen(s)); }

static char *read_file(const char *path, size_t *n) {
	FILE *f = fopen(path, "rb");
	text t = {0};
	char part[1 << 14];
	if (!f) return 0;
	for (size_t got; (got = fread(part, 1, sizeof part, f)) > 0;) put_bytes(&t, part, got);
	fclose(f);
	put_bytes(&t, "", 0);
	if (n) *n = t.length;
	return t.at;
}

static int is_word(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; }

/* Returns what stands behind the bracket that closes the one at s, or none. */
static const char *behind(const char *s) {
	int depth = 0;
	for (; *s; s++) {
		depth += *s == '(';
		depth -= *s == ')';
		if (depth == 0) return s + 1;
	}
	return 0;
}

/* An entry point as it stands in the text. */
typedef struct {
	const char *name, *params, *end; /* params: between the brackets, up to end */
	size_t name_length;
	int threads;
} entry;

static const char *skip(const char *s) {
	while (*s == ' ' || *s == '\n' || *s == '\t') s++;
	return s;
}

/* Finds the next entry point from s on. */
static int find_entry(const char *text_begin, const char *s, entry *e) {
	for (; *s; s++) {
		if (s > text_begin && is_word(s[-1])) continue;
		const char *p = 0;
		e->threads = 1024;
		if (strncmp(s, "KERNEL(", 7) == 0 || strncmp(s, "KERNEL_BLOCKS(", 14) == 0) {
			p = strchr(s, '(');
			e->threads = atoi(p + 1);
			p = behind(p);
		} else if (strncmp(s, "__global__", 10) == 0) {
			p = skip(s + 10);
			if (strncmp(p, "void", 4) != 0) continue;
			p = skip(p + 4);
			if (strncmp(p, "__launch_bounds__", 17) == 0) {
				p = skip(p + 17);
				e->threads = atoi(p + 1);
				p = behind(p);
			}
		}
		if (!p) continue;
		e->name = p = skip(p);
		while (is_word(*p)) p++;
		e->name_length = (size_t)(p - e->name);
		const char *end = *skip(p) == '(' && e->name_length ? behind(skip(p)) : 0;
		if (!end) continue;
		e->params = skip(p) + 1;
		e->end = end - 1;
		return 1;
	}
	return 0;
}

/* Whether the text from an entry point up to the next mentions what items wait for each other by. */
static int waits(const char *from, const char *to) {
	static const char *const words[] = {"BARRIER", "SHUFFLE", "__syncthreads", "load_matrix", "mma_"};
	for (; from < to; from++)
		for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
			if (strncmp(from, words[i], strlen(words[i])) == 0) return 1;
	return 0;
}

/* Writes, for an entry point, the function that calls it with pointers to values, and what its parameters are. */
static int write_call(text *t, const entry *e) {
	text call = {0}, sizes = {0}, pointers = {0};
	int count = 0;
	for (const char *p = skip(e->params); p < e->end;) {
		const char *next = p;
		while (next < e->end && *next != ',') next++;
		const char *name = next;
		while (name > p && !is_word(name[-1])) name--;
		while (name > p && is_word(name[-1])) name--;
		int pointer = memchr(p, '*', (size_t)(name - p)) != 0;
		char index[32];
		snprintf(index, sizeof index, " *)params[%d]", count);
		put(&call, count ? ", *(" : "*(");
		put_bytes(&call, p, (size_t)(name - p));
		put(&call, index);
		put(&sizes, "sizeof(");
		put_bytes(&sizes, p, (size_t)(name - p));
		put(&sizes, "), ");
		put(&pointers, pointer ? "1, " : "0, ");
		count++;
		p = next < e->end ? skip(next + 1) : e->end;
	}
	char name[256];
	snprintf(name, sizeof name, "%.*s", (int)e->name_length, e->name);
	const char *parts[] = {"\nstatic void call_", name, "(void **params) { (void)params; ", name, "(", call.at ? call.at : "", "); }\n",
		"static const unsigned sizes_", name, "[] = {", sizes.at ? sizes.at : "", "0};\nstatic const u8 pointers_", name, "[] = {",
		pointers.at ? pointers.at : "", "0};\n"};
	for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) put(t, parts[i]);
	free(call.at);
	free(sizes.at);
	free(pointers.at);
	return count;
}

/* The whole text that is compiled, or none where there is no entry point. */
static char *translate(const char *source, const char *prelude) {
	text t = {0}, calls = {0}, table = {0};
	const char *body = source;
	size_t n = strlen(prelude);
	if (strncmp(source, prelude, n) == 0) body += n;
	put(&t, "#include \"dialect.h\"\n#include \"runtime_table.h\"\n#include \"kernels_begin.h\"\n#line 1 \"program\"\n");
	for (const char *s = body; *s; s++) {
		if (strncmp(s, "extern \"C\"", 10) == 0) s += 9;
		else put_bytes(&t, s, 1);
	}
	put(&table, "typedef struct {\n\tkernel_entry entry;\n\tint params;\n\tconst unsigned *sizes;\n\tconst u8 *pointers;\n} fake_kernel;\nstatic const fake_kernel fake_kernels[] = {\n");
	entry e, next;
	const char *from = body;
	int count = 0;
	for (int more = find_entry(body, body, &e); more; count++, e = next) {
		int params = write_call(&calls, &e);
		more = find_entry(body, e.end, &next);
		const char *to = more ? next.name : body + strlen(body);
		const char *last = strstr(e.end, "\n#undef ");
		if (last && last < to) to = last; /* what follows is the next kernel's */
		char row[1024];
		snprintf(row, sizeof row, "\t{{\"%.*s\", call_%.*s, %d, 0, %d}, %d, sizes_%.*s, pointers_%.*s},\n", (int)e.name_length, e.name,
			(int)e.name_length, e.name, e.threads, waits(from, to), params, (int)e.name_length, e.name, (int)e.name_length, e.name);
		put(&table, row);
		from = e.end;
	}
	if (count == 0) {
		put(&calls, "");
		put(&table, "{{0}}");
	}
	put(&t, "\n#line 1 \"calls\"\n");
	put(&t, calls.at);
	put(&t, table.at);
	put(&t, "};\n#include \"kernels_end.h\"\n");
	free(calls.at);
	free(table.at);
	return t.at;
}

extern char **environ;

/* Runs the compiler, with what it says in a file. */
static int run_compiler(char *const *args, const char *log) {
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attributes;
	sigset_t none, all;
	sigemptyset(&none);
	sigfillset(&all);
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_addopen(&files, 1, log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	posix_spawn_file_actions_adddup2(&files, 1, 2);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setsigmask(&attributes, &none);
	posix_spawnattr_setsigdefault(&attributes, &all);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	pid_t pid;
	int status = -1, code = posix_spawn(&pid, args[0], &files, &attributes, args, environ);
	posix_spawn_file_actions_destroy(&files);
	posix_spawnattr_destroy(&attributes);
	if (code != 0) return code;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR) return errno;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static uint64_t hash_text(const char *s, uint64_t h) {
	for (; *s; s++) h = (h ^ (unsigned char)*s) * 1099511628211ull;
	return h;
}

/* Puts the hash of the image into its header, where the driver looks for it. */
static void stamp(unsigned char *p, size_t n) {
	uint32_t h = 2166136261u;
	memset(p + IMAGE_HASH, 0, 4);
	for (size_t i = 0; i < n; i++) h = (h ^ p[i]) * 16777619u;
	memcpy(p + IMAGE_HASH, &h, 4);
}

static int write_file(const char *path, const void *p, size_t n) {
	FILE *f = fopen(path, "wb");
	if (!f) return 0;
	int ok = fwrite(p, 1, n, f) == n;
	return fclose(f) == 0 && ok;
}

/* Writes a file so that it is whole when it has its name, whoever else does the same. */
static int write_whole(const char *path, const void *p, size_t n) {
	char part[4300];
	snprintf(part, sizeof part, "%s.%d", path, (int)getpid());
	if (write_file(part, p, n) && rename(part, path) == 0) return 1;
	unlink(part);
	return 0;
}

/* Compiles the text to an image, or fills the log. An image that an earlier process made counts as compiled the first time. */
static int compile(program *p, const char *whole, int capability) {
	char arch[64], at[4096], from[4160], to[4160], log[4160], name[64], here[4160], before[4160];
	snprintf(arch, sizeof arch, "-D__CUDA_ARCH__=%d", capability * 10);
	const char *tanh_is = wrong_tanh ? "-Dtanhf=sinhf" : "-Dtanhf=tanhf";
	uint64_t h = hash_text(tanh_is, hash_text(arch, hash_text(whole, 14695981039346656037ull)));
	snprintf(name, sizeof name, "k%016llx-%zx", (unsigned long long)h, strlen(whole));
	snprintf(here, sizeof here, "%s/%s", folder(), name);
	snprintf(before, sizeof before, KEPT "/%s", name);
	p->image = (unsigned char *)read_file(here, &p->image_bytes);
	if (p->image) {
		pthread_mutex_lock(&lock);
		from_cache++;
		pthread_mutex_unlock(&lock);
		return OK;
	}
	pthread_mutex_lock(&lock);
	unsigned id = ++serial;
	compiled++;
	pthread_mutex_unlock(&lock);
	if (*KEPT) p->image = (unsigned char *)read_file(before, &p->image_bytes);
	if (p->image) utimes(before, 0);
	else {
		snprintf(at, sizeof at, "%s/t%d-%u", folder(), (int)getpid(), id);
		snprintf(from, sizeof from, "%s.c", at);
		snprintf(to, sizeof to, "%s.so", at);
		snprintf(log, sizeof log, "%s.log", at);
		char *args[] = {COMPILER, "-std=gnu11", "-O1", "-Werror=implicit-function-declaration", "-shared", "-fPIC", "-fvisibility=hidden", "-fwrapv", "-ffp-contract=off",
			"-fno-math-errno", MACHINE, arch, tanh_is, "-o", to, from, "-lm", 0};
		int made = write_file(from, whole, strlen(whole)) && run_compiler(args, log) == 0;
		if (made) p->image = (unsigned char *)read_file(to, &p->image_bytes);
		else {
			free(p->log);
			p->log = read_file(log, 0);
		}
		unlink(from);
		unlink(to);
		unlink(log);
		if (!p->image || p->image_bytes < 64) return COMPILATION;
		stamp(p->image, p->image_bytes);
		if (*KEPT) write_whole(before, p->image, p->image_bytes);
	}
	char text_name[4200]; /* the text as it came, for who wants to compile it by the real one */
	snprintf(text_name, sizeof text_name, "%s.cu", here);
	if (write_file(text_name, p->source, strlen(p->source))) write_whole(here, p->image, p->image_bytes);
	return OK;
}

static int find(program *p) {
	pthread_mutex_lock(&lock);
	program *q = programs;
	while (q && q != p) q = q->next;
	pthread_mutex_unlock(&lock);
	return q != 0;
}

EXPORT int nvrtcVersion(int *major, int *minor) {
	*major = (int)(version / 1000);
	*minor = (int)(version % 1000 / 10);
	return OK;
}

EXPORT const char *nvrtcGetErrorString(int code) {
	switch (code) {
	case OK: return "NVRTC_SUCCESS";
	case OUT_OF_MEMORY: return "NVRTC_ERROR_OUT_OF_MEMORY";
	case INVALID_INPUT: return "NVRTC_ERROR_INVALID_INPUT";
	case INVALID_PROGRAM: return "NVRTC_ERROR_INVALID_PROGRAM";
	case INVALID_OPTION: return "NVRTC_ERROR_INVALID_OPTION";
	case COMPILATION: return "NVRTC_ERROR_COMPILATION";
	}
	return "NVRTC_ERROR unknown";
}

static const int capabilities[] = {75, 80, 86, 89, 90};
#define CAPABILITY_COUNT ((int)(sizeof capabilities / sizeof capabilities[0]))

EXPORT int nvrtcGetNumSupportedArchs(int *n) {
	*n = CAPABILITY_COUNT;
	return OK;
}

EXPORT int nvrtcGetSupportedArchs(int *list) {
	memcpy(list, capabilities, sizeof capabilities);
	return OK;
}

EXPORT int nvrtcCreateProgram(program **out, const char *source, const char *name, int headers, const char *const *texts, const char *const *names) {
	(void)name, (void)texts, (void)names;
	if (!out || !source || headers != 0) return INVALID_INPUT;
	program *p = calloc(1, sizeof *p);
	p->source = strdup(source);
	p->log = strdup("");
	pthread_mutex_lock(&lock);
	p->next = programs;
	programs = p;
	pthread_mutex_unlock(&lock);
	*out = p;
	return OK;
}

EXPORT int nvrtcDestroyProgram(program **out) {
	if (!out || !*out || !find(*out)) return INVALID_PROGRAM;
	program *p = *out;
	pthread_mutex_lock(&lock);
	for (program **q = &programs; *q; q = &(*q)->next)
		if (*q == p) {
			*q = p->next;
			break;
		}
	pthread_mutex_unlock(&lock);
	free(p->source);
	free(p->log);
	free(p->image);
	free(p);
	*out = 0;
	return OK;
}

/* Reads an option that names the architecture; 0 where it names none that there is. */
static int architecture(const char *s) {
	int have = strncmp(s, "sm_", 3) == 0 ? atoi(s + 3) : 0;
	for (int i = 0; i < CAPABILITY_COUNT; i++)
		if (capabilities[i] == have) return have;
	return 0;
}

EXPORT int nvrtcCompileProgram(program *p, int n, const char *const *options) {
	if (!find(p)) return INVALID_PROGRAM;
	pthread_mutex_lock(&lock);
	int fails = ++compile_calls == fail_at;
	pthread_mutex_unlock(&lock);
	int capability = 75;
	for (int i = 0; i < n; i++) {
		static const char *const known[] = {"--device-as-default-execution-space", "-default-device", "--ptxas-options=", "--std=", "-std=", "--fmad=", "-lineinfo", "--generate-line-info"};
		int ok = 0;
		if (strncmp(options[i], "--gpu-architecture=", 19) == 0) ok = capability = architecture(options[i] + 19);
		else if (strncmp(options[i], "-arch=", 6) == 0) ok = capability = architecture(options[i] + 6);
		for (size_t j = 0; j < sizeof known / sizeof known[0]; j++) ok = ok || strncmp(options[i], known[j], strlen(known[j])) == 0;
		if (!ok) return INVALID_OPTION;
	}
	free(p->image);
	p->image = 0;
	free(p->log);
	p->log = strdup(fails ? "an injected error" : "");
	if (fails) return COMPILATION;
	static char *prelude;
	char path[4096];
	snprintf(path, sizeof path, "%s/prelude.cu", folder());
	pthread_mutex_lock(&lock);
	if (!prelude) prelude = read_file(path, 0);
	pthread_mutex_unlock(&lock);
	if (!prelude) return COMPILATION;
	char *whole = translate(p->source, prelude);
	int code = compile(p, whole, capability);
	free(whole);
	return code;
}

EXPORT int nvrtcGetProgramLogSize(program *p, size_t *n) {
	if (!find(p)) return INVALID_PROGRAM;
	*n = strlen(p->log) + 1;
	return OK;
}

EXPORT int nvrtcGetProgramLog(program *p, char *out) {
	if (!find(p)) return INVALID_PROGRAM;
	strcpy(out, p->log);
	return OK;
}

EXPORT int nvrtcGetCUBINSize(program *p, size_t *n) {
	if (!find(p)) return INVALID_PROGRAM;
	*n = p->image ? p->image_bytes : 0;
	return OK;
}

EXPORT int nvrtcGetCUBIN(program *p, char *out) {
	if (!find(p) || !p->image) return INVALID_PROGRAM;
	memcpy(out, p->image, p->image_bytes);
	return OK;
}

/* What specs call: compilations that ran and that were found, programs that are live; and the compilation that is to fail. */
EXPORT long long fakenvrtc_count(const char *name) {
	pthread_mutex_lock(&lock);
	long long n = 0;
	if (strcmp(name, "compiled") == 0) n = compiled;
	if (strcmp(name, "found") == 0) n = from_cache;
	if (strcmp(name, "calls") == 0) n = compile_calls;
	if (strcmp(name, "live") == 0)
		for (program *p = programs; p; p = p->next) n++;
	pthread_mutex_unlock(&lock);
	return n;
}

EXPORT int fakenvrtc_set(const char *name, long long value) {
	pthread_mutex_lock(&lock);
	int known = 1;
	if (strcmp(name, "fail_at") == 0) fail_at = value ? compile_calls + value : 0;
	else if (strcmp(name, "version") == 0) version = value;
	else if (strcmp(name, "wrong_tanh") == 0) wrong_tanh = value;
	else known = 0;
	pthread_mutex_unlock(&lock);
	return known;
}
