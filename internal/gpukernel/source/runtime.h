/*
 * Runs kernels of the dialect on the host, one fibre a work item, for tests. It reads launches from standard input and
 * writes what is in their buffers afterwards to standard output.
 *
 * It is stricter than a device where it can be: work items run in an order drawn from a seed, switching wherever they wait
 * for each other; memory of a group holds NaNs at first; an asynchronous copy is made as late as the kernel's waits admit,
 * and its destination holds NaNs until then; a barrier that not all items of the group reach at the same line is an error.
 *
 * With FIBRE_LIBRARY there is no program: who includes this runs groups by run_group, and says in fibre_fault what an error
 * leads to.
 */
#include <stdio.h>
#include <stdlib.h>

#define FIBRES_MAX 1024
#define STACK_BYTES (192 << 10)
#define WARP 32
#define COPIES_MAX 256

/* A place to go on from, and how to leave one for another. The C library's way, which the sanitizers know, makes two system
 * calls each time, for the mask of signals. */
#if defined(FIBRE_LIBRARY) && defined(__x86_64__)
typedef struct {
	void *sp;
} fibre_place;
void fibre_switch(fibre_place *from, const fibre_place *to);
__asm__(
	".text\n.local fibre_switch\n.type fibre_switch, @function\nfibre_switch:\n"
	"pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
	"movq %rsp, (%rdi)\nmovq (%rsi), %rsp\n"
	"popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret\n"
	".size fibre_switch, .-fibre_switch\n");
static void fibre_begin(fibre_place *p, u8 *stack, size_t bytes, void (*enter)(void)) {
	void **top = (void **)((uintptr_t)(stack + bytes) & ~(uintptr_t)63);
	*--top = 0;
	*--top = (void *)enter;
	p->sp = memset(top - 6, 0, 6 * sizeof *top);
}
#else
#include <ucontext.h>
typedef ucontext_t fibre_place;
static void fibre_switch(fibre_place *from, const fibre_place *to) { swapcontext(from, to); }
static void fibre_begin(fibre_place *p, u8 *stack, size_t bytes, void (*enter)(void)) {
	getcontext(p);
	p->uc_stack.ss_sp = stack;
	p->uc_stack.ss_size = bytes;
	makecontext(p, enter, 0);
}
#endif

typedef enum { RUNNABLE, AT_BARRIER, AT_WARP, DONE } fibre_state;

typedef struct {
	void *to;
	const void *from;
	int bytes, take, group;
} pending_copy;

typedef struct {
	fibre_place place;
	u8 *stack;
	fibre_state state;
	int line, copies, committed;
	pending_copy copy[COPIES_MAX];
	u32 slot[8];
	const void *address;
} fibre;

static fibre fibres[FIBRES_MAX];
static fibre_place scheduler;
static int current, group_id[3], group_count[3], group_items, arena_bytes;
static u8 *arena;
static u64 random_state;
static void **current_params;
static const kernel_entry *current_kernel;

static void die(const char *what, int a, int b) {
	char text[512];
	snprintf(text, sizeof text, "%s: group (%d,%d,%d) item %d: %s (%d, %d)", current_kernel->name, group_id[0], group_id[1], group_id[2],
		current, what, a, b);
#ifdef FIBRE_LIBRARY
	fibre_fault(text);
#else
	fprintf(stderr, "%s\n", text);
	exit(3);
#endif
}

static u32 random_below(u32 n) {
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (u32)((random_state >> 16) % n);
}

int fibre_item(void) { return current; }
int fibre_group(int d) { return group_id[d]; }
int fibre_groups(int d) { return group_count[d]; }
u8 *fibre_arena(void) { return arena; }

static void yield_as(fibre_state s) {
	if (!current_kernel->switches) die("waits although it is declared not to", 0, 0);
	fibres[current].state = s;
	fibre_switch(&fibres[current].place, &scheduler);
}

void fibre_barrier(int line) {
	fibres[current].line = line;
	yield_as(AT_BARRIER);
}

/* All lanes of a warp meet here; what each put into its slot before is there to read until they meet again. */
static void meet_warp(void) { yield_as(AT_WARP); }

u32 fibre_shuffle_xor(u32 bits, int mask) {
	fibres[current].slot[0] = bits;
	meet_warp();
	u32 r = fibres[current ^ mask].slot[0];
	meet_warp();
	return r;
}

static void queue_copy(void *to, const void *from, int bytes, int take) {
	fibre *f = &fibres[current];
	if (f->copies == COPIES_MAX) die("too many copies in flight", f->copies, 0);
	if (((uintptr_t)to | (take ? (uintptr_t)from : 0)) % (uintptr_t)bytes != 0) die("copy is not aligned", bytes, take);
	memset(to, 0xff, (size_t)bytes);
	f->copy[f->copies++] = (pending_copy){to, from, bytes, take, f->committed};
}

void copy_async_16(void *to, const void *from, int take) { queue_copy(to, from, 16, take); }
void copy_async_4(void *to, const void *from, int take) { queue_copy(to, from, 4, take); }
void fibre_copy_commit(void) { fibres[current].committed++; }

void fibre_copy_wait(int pending) {
	fibre *f = &fibres[current];
	int kept = 0;
	for (int i = 0; i < f->copies; i++) {
		pending_copy c = f->copy[i];
		if (c.group >= f->committed - pending) {
			f->copy[kept++] = c;
		} else if (c.take) {
			memcpy(c.to, c.from, (size_t)c.bytes);
		} else {
			memset(c.to, 0, (size_t)c.bytes);
		}
	}
	f->copies = kept;
}

static u32 half_pair(const void *row, int i, const void *next, int j) {
	f16 lo, hi;
	memcpy(&lo, (const u8 *)row + 2 * i, 2);
	memcpy(&hi, (const u8 *)next + 2 * j, 2);
	return (u32)lo | (u32)hi << 16;
}

void load_matrix(u32 r[4], const void *row) {
	int lane = current % WARP, base = current - lane;
	if ((uintptr_t)row % 16 != 0) die("row of a matrix is not aligned", 16, 0);
	fibres[current].address = row;
	meet_warp();
	for (int j = 0; j < 4; j++) {
		const void *p = fibres[base + 8 * j + lane / 4].address;
		r[j] = half_pair(p, lane % 4 * 2, p, lane % 4 * 2 + 1);
	}
	meet_warp();
}

void load_matrix_transposed(u32 r[4], const void *row) {
	int lane = current % WARP, base = current - lane;
	if ((uintptr_t)row % 16 != 0) die("row of a matrix is not aligned", 16, 0);
	fibres[current].address = row;
	meet_warp();
	for (int j = 0; j < 4; j++) {
		const fibre *f = &fibres[base + 8 * j + lane % 4 * 2];
		r[j] = half_pair(f[0].address, lane / 4, f[1].address, lane / 4);
	}
	meet_warp();
}

static f32 bf16_value(u16 h) { return f32_of_bits((u32)h << 16); }

/* The product of 16 rows and 8 columns over 16 elements of 16 bits each, or 8 of 32, as PTX lays them over the lanes. */
static void multiply(f32 d[4], const u32 a[4], u32 b0, u32 b1, int depth, f32 (*value)(u16)) {
	int lane = current % WARP, base = current - lane;
	u32 *slot = fibres[current].slot;
	memcpy(slot, a, 16);
	slot[4] = b0;
	slot[5] = b1;
	meet_warp();
	for (int i = 0; i < 4; i++) {
		int row = lane / 4 + i / 2 * 8, col = lane % 4 * 2 + i % 2;
		f32 sum = d[i];
		for (int k = 0; k < depth; k++) {
			int half = depth / 2, reg = row / 8 + k / half * 2, in = k % half;
			int per = depth / 8; /* elements in a register */
			u32 x = fibres[base + row % 8 * 4 + in / per].slot[reg];
			u32 y = fibres[base + col * 4 + in / per].slot[4 + k / half];
			f32 xv, yv;
			if (per == 1) {
				xv = f32_of_bits(x & 0xffffe000u);
				yv = f32_of_bits(y & 0xffffe000u);
			} else {
				xv = value((u16)(x >> (in % per * 16)));
				yv = value((u16)(y >> (in % per * 16)));
			}
			sum += xv * yv;
		}
		d[i] = sum;
	}
	meet_warp();
}

void mma_f16(f32 d[4], const u32 a[4], u32 b0, u32 b1) { multiply(d, a, b0, b1, 16, f32_of_f16); }
void mma_bf16(f32 d[4], const u32 a[4], u32 b0, u32 b1) { multiply(d, a, b0, b1, 16, bf16_value); }
void mma_tf32(f32 d[4], const u32 a[4], u32 b0, u32 b1) { multiply(d, a, b0, b1, 8, 0); }

static void enter(void) {
	for (;;) {
		current_kernel->call(current_params);
		fibre *f = &fibres[current];
		for (int i = 0; i < f->copies; i++)
			if (f->copy[i].take) die("ends with copies in flight", f->copies, 0);
		f->state = DONE;
		fibre_switch(&f->place, &scheduler);
	}
}

static void release(int from, int to, fibre_state s) {
	for (int i = from; i < to; i++)
		if (fibres[i].state == s) fibres[i].state = RUNNABLE;
}

/* Lets those go on that wait for nobody any more, and returns how many items are not done. */
static int settle(void) {
	int done = 0, barrier = 0, line = 0;
	for (int w = 0; w < group_items; w += WARP) {
		int end = w + WARP < group_items ? w + WARP : group_items, met = 0;
		for (int i = w; i < end; i++) {
			met += fibres[i].state == AT_WARP;
			done += fibres[i].state == DONE;
			if (fibres[i].state == AT_BARRIER) {
				if (barrier++ > 0 && line != fibres[i].line) die("items wait at different barriers, lines", line, fibres[i].line);
				line = fibres[i].line;
			}
		}
		if (met == end - w) release(w, end, AT_WARP);
		else if (met > 0) die("lanes of a warp part before they meet", met, end - w);
	}
	if (barrier == group_items) release(0, group_items, AT_BARRIER);
	else if (barrier > 0 && done > 0) die("items end while others wait at line", line, done);
	return group_items - done;
}

static void run_group(void) {
	int order[FIBRES_MAX];
	memset(arena, 0xff, (size_t)arena_bytes);
	if (!current_kernel->switches) {
		for (int i = 0; i < group_items; i++) order[i] = i;
		for (int n = group_items; n > 0; n--) {
			int pick = (int)random_below((u32)n);
			current = order[pick];
			order[pick] = order[n - 1];
			fibres[current].copies = fibres[current].committed = 0;
			current_kernel->call(current_params);
		}
		return;
	}
	for (int i = 0; i < group_items; i++) {
		fibres[i].state = RUNNABLE;
		fibres[i].copies = fibres[i].committed = 0;
	}
	do {
		int n = 0;
		for (int i = 0; i < group_items; i++)
			if (fibres[i].state == RUNNABLE) order[n++] = i;
		while (n > 0) {
			int pick = (int)random_below((u32)n);
			current = order[pick];
			order[pick] = order[--n];
			fibre_switch(&scheduler, &fibres[current].place);
		}
	} while (settle() > 0);
}

static void prepare_fibres(int n) {
	for (int i = 0; i < n; i++) {
		if (fibres[i].stack) continue;
		fibres[i].stack = malloc(STACK_BYTES);
		fibre_begin(&fibres[i].place, fibres[i].stack, STACK_BYTES, enter);
	}
}

#ifndef FIBRE_LIBRARY
static const int kernel_count = sizeof kernel_table / sizeof kernel_table[0];

static void launch(const kernel_entry *k, int threads, int local, const i32 grid[3], void **params) {
	current_kernel = k;
	current_params = params;
	if (threads > k->threads || local > k->arena) exit(5);
	group_items = threads;
	arena_bytes = local;
	if (posix_memalign((void **)&arena, 128, (size_t)arena_bytes + (arena_bytes == 0)) != 0) exit(4);
	if (k->switches) prepare_fibres(threads);
	for (int d = 0; d < 3; d++) group_count[d] = grid[d];
	for (group_id[2] = 0; group_id[2] < grid[2]; group_id[2]++)
		for (group_id[1] = 0; group_id[1] < grid[1]; group_id[1]++)
			for (group_id[0] = 0; group_id[0] < grid[0]; group_id[0]++) run_group();
	free(arena);
}

static void take(void *to, size_t n) {
	if (n > 0 && fread(to, 1, n, stdin) != n) exit(0);
}

typedef struct {
	i32 kind; /* 0: a buffer of size bytes; else a scalar of size bytes */
	i32 slack; /* bytes by which the buffer begins beyond an alignment of 128 */
	i64 size;
} param_head;

#define PARAMS_MAX 64
#define PASSED_MAX 4096 /* bytes of all parameters together */

/* A launch is: kernel, number of parameters, grid, items of a group, its local memory, seed, then each parameter's head and bytes. */
int main(void) {
	struct {
		i32 kernel, params, grid[3], threads, local, pad;
		u64 seed;
	} head;
	for (;;) {
		take(&head, sizeof head);
		if (head.kernel < 0 || head.kernel >= kernel_count || head.params > PARAMS_MAX) return 5;
		param_head at[PARAMS_MAX];
		u8 *block[PARAMS_MAX], *data[PARAMS_MAX];
		static u64 scalar[PARAMS_MAX][PASSED_MAX / 8];
		void *params[PARAMS_MAX];
		random_state = head.seed | 1;
		for (int i = 0; i < head.params; i++) {
			take(&at[i], sizeof at[i]);
			if (at[i].kind == 0) {
				size_t n = (size_t)at[i].size + (size_t)at[i].slack;
				if (posix_memalign((void **)&block[i], 128, n + (n == 0)) != 0) return 4;
				data[i] = block[i] + at[i].slack;
				take(data[i], (size_t)at[i].size);
				params[i] = &data[i];
			} else {
				if (at[i].size > PASSED_MAX) return 5;
				take(scalar[i], (size_t)at[i].size);
				params[i] = scalar[i];
			}
		}
		launch(&kernel_table[head.kernel], head.threads, head.local, head.grid, params);
		for (int i = 0; i < head.params; i++) {
			if (at[i].kind != 0) continue;
			if (at[i].size > 0) fwrite(data[i], 1, (size_t)at[i].size, stdout);
			free(block[i]);
		}
		fflush(stdout);
	}
}
#endif
