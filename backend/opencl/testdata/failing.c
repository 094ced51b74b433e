/*
 * A loader of OpenCL that calls the system's, and fails on demand. Every function is taken to have nine words as arguments, which is
 * the most that any has: those that there are not are passed on unread.
 */
#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>

typedef long word;
typedef word function(word, word, word, word, word, word, word, word, word);

static _Atomic(const char *) failing; /* a part of the names of the functions that fail */
static atomic_int code, from;         /* what they return, and from which call on */

void failing_set(const char *name, word status, word first) {
	atomic_store(&failing, 0);
	atomic_store(&code, (int)status);
	atomic_store(&from, (int)first);
	atomic_store(&failing, *name ? strdup(name) : 0);
}

static int fails(const char *name) {
	const char *f = atomic_load(&failing);
	return f && strstr(name, f) && atomic_fetch_sub(&from, 1) <= 1;
}

static function *real(const char *name) {
	static void *library;
	if (!library) library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
	return library ? (function *)dlsym(library, name) : 0;
}

/* A function that returns a status. */
#define STATUS(name)                                                                              \
	word name(word a, word b, word c, word d, word e, word f, word g, word h, word i) {           \
		return fails(#name) ? atomic_load(&code) : real(#name)(a, b, c, d, e, f, g, h, i);        \
	}

/* A function that returns an object, and stores a status where its last argument points. */
#define OBJECT(name, last)                                                                        \
	word name(word a, word b, word c, word d, word e, word f, word g, word h, word i) {           \
		if (!fails(#name)) return real(#name)(a, b, c, d, e, f, g, h, i);                         \
		*(int *)(last) = atomic_load(&code);                                                      \
		return 0;                                                                                 \
	}

STATUS(clGetPlatformIDs)
STATUS(clGetPlatformInfo)
STATUS(clGetDeviceIDs)
STATUS(clGetDeviceInfo)
OBJECT(clCreateContext, f)
STATUS(clReleaseContext)
OBJECT(clCreateCommandQueue, d)
STATUS(clReleaseCommandQueue)
STATUS(clFlush)
STATUS(clFinish)
OBJECT(clCreateBuffer, e)
STATUS(clReleaseMemObject)
STATUS(clEnqueueReadBuffer)
STATUS(clEnqueueWriteBuffer)
STATUS(clEnqueueCopyBuffer)
OBJECT(clCreateProgramWithSource, e)
OBJECT(clCreateProgramWithBinary, g)
STATUS(clBuildProgram)
STATUS(clGetProgramBuildInfo)
STATUS(clGetProgramInfo)
STATUS(clReleaseProgram)
OBJECT(clCreateKernel, c)
STATUS(clReleaseKernel)
STATUS(clSetKernelArg)
STATUS(clEnqueueNDRangeKernel)
STATUS(clEnqueueMarkerWithWaitList)
STATUS(clEnqueueBarrierWithWaitList)
OBJECT(clCreateUserEvent, b)
STATUS(clSetUserEventStatus)
STATUS(clSetEventCallback)
STATUS(clGetEventInfo)
STATUS(clRetainEvent)
STATUS(clReleaseEvent)
