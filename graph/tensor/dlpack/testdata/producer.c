// A producer and consumer of DLPack's managed tensors, for the specs of package dlpack. The structures are written from the
// published layout, for the compiler to lay out.
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct { int32_t type, id; } device;
typedef struct { uint8_t code, bits; uint16_t lanes; } datatype;
typedef struct {
	void *data;
	device dev;
	int32_t ndim;
	datatype dtype;
	int64_t *shape, *strides;
	uint64_t byte_offset;
} dltensor;
typedef struct legacy {
	dltensor t;
	void *context;
	void (*deleter)(struct legacy *);
} legacy;
typedef struct versioned {
	struct { uint32_t major, minor; } version;
	void *context;
	void (*deleter)(struct versioned *);
	uint64_t flags;
	dltensor t;
} versioned;

static int deleted;

int64_t count_deleted(void) { return deleted; }

static void release(dltensor *t, void *context) {
	deleted++;
	free(t->shape);
	free(t->strides);
	free(context);
}
static void delete_legacy(legacy *m) { release(&m->t, m->context); free(m); }
static void delete_versioned(versioned *m) { release(&m->t, m->context); free(m); }

// What a request of the specs asks for.
typedef struct {
	int64_t code, bits, ndim, has_strides, byte_offset, flags, major, device_type;
	int64_t shape[8], strides[8];
	int64_t bytes; // of the storage, filled with 0, 1, 2, ...
	int64_t start; // where data points to in the storage
} request;

static void fill(dltensor *t, void **context, const request *r) {
	unsigned char *storage = aligned_alloc(256, (r->bytes + 255) / 256 * 256 + 256);
	for (int64_t i = 0; i < r->bytes; i++)
		storage[i] = (unsigned char)i;
	*context = storage;
	memset(t, 0, sizeof *t);
	t->data = storage + r->start;
	t->dev.type = (int32_t)r->device_type;
	t->ndim = (int32_t)r->ndim;
	t->dtype.code = (uint8_t)r->code;
	t->dtype.bits = (uint8_t)r->bits;
	t->dtype.lanes = 1;
	t->byte_offset = (uint64_t)r->byte_offset;
	t->shape = malloc(sizeof r->shape);
	memcpy(t->shape, r->shape, sizeof r->shape);
	if (r->has_strides) {
		t->strides = malloc(sizeof r->strides);
		memcpy(t->strides, r->strides, sizeof r->strides);
	}
}

legacy *make_legacy(const request *r) {
	legacy *m = malloc(sizeof *m);
	fill(&m->t, &m->context, r);
	m->deleter = delete_legacy;
	return m;
}

versioned *make_versioned(const request *r) {
	versioned *m = malloc(sizeof *m);
	fill(&m->t, &m->context, r);
	m->version.major = (uint32_t)r->major;
	m->version.minor = 1;
	m->flags = (uint64_t)r->flags;
	m->deleter = delete_versioned;
	return m;
}

// The sum of a tensor of float elements, times 1, 2, 3, ... in logical order; -1 where it is no such tensor.
static int64_t weigh(const dltensor *t) {
	if (t->dtype.code != 2 || t->dtype.bits != 32 || t->dtype.lanes != 1 || t->dev.type != 1 || (t->ndim && !t->strides))
		return -1;
	int64_t n = 1, sum = 0;
	for (int i = 0; i < t->ndim; i++)
		n *= t->shape[i];
	for (int64_t k = 0; k < n; k++) {
		int64_t rest = k, at = 0;
		for (int i = t->ndim - 1; i >= 0; i--) {
			at += rest % t->shape[i] * t->strides[i];
			rest /= t->shape[i];
		}
		sum += (k + 1) * (int64_t)((float *)((char *)t->data + t->byte_offset))[at];
	}
	return sum;
}

int64_t weigh_versioned(versioned *m) { return m->version.major == 1 ? weigh(&m->t) : -2; }
int64_t weigh_legacy(legacy *m) { return weigh(&m->t); }
int64_t flags_of(versioned *m) { return (int64_t)m->flags; }
void write_first(versioned *m, int64_t v) { *(float *)m->t.data = (float)v; }
void give_back(versioned *m) { m->deleter(m); }

static void *other_thread(void *m) {
	((versioned *)m)->deleter(m);
	return NULL;
}

void give_back_elsewhere(versioned *m) {
	pthread_t t;
	if (pthread_create(&t, NULL, other_thread, m) == 0)
		pthread_join(t, NULL);
}

// The offsets of the fields, as the compiler has them.
int64_t offset_of(int64_t field) {
	switch (field) {
	case 0: return (int64_t)__builtin_offsetof(dltensor, dtype);
	case 1: return (int64_t)__builtin_offsetof(dltensor, shape);
	case 2: return (int64_t)__builtin_offsetof(dltensor, byte_offset);
	case 3: return (int64_t)__builtin_offsetof(legacy, deleter);
	case 4: return (int64_t)sizeof(legacy);
	case 5: return (int64_t)__builtin_offsetof(versioned, deleter);
	case 6: return (int64_t)__builtin_offsetof(versioned, t);
	case 7: return (int64_t)sizeof(versioned);
	}
	return -1;
}
