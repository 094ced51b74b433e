/*
 * carve_plugin.h: the interface between carve and a vendor's accelerator library, version 1.1.
 *
 * A plugin is a shared library with one exported function, carve_plugin_query, that returns a table of functions. It brings
 * processors, each of which becomes a backend of carve; and, with or without these, operators that any model may use. The
 * header is C99 and C++11, depends on <stdint.h> alone, and may be
 * copied into other projects.
 *
 * Rules that hold everywhere:
 *
 * - Every struct that may grow begins with `size`, set by whoever allocates it to the sizeof it was compiled with. Who reads
 *   looks at the first min(size, own sizeof) bytes and takes the rest for zero. Zero is always a valid, harmless value, and
 *   the documented default. Members are added at the end and never moved. Lists of such structs are lists of pointers.
 *   Structs without `size` never change.
 * - The host asks with its major and minor version. A plugin answers with a table of the same major, or with NULL. A minor
 *   version adds members and constants, and breaks nothing.
 * - An entry of a table that is NULL, or beyond the table's size, is an ability that the plugin lacks: what then happens
 *   stands at the entry. An entry marked "required" may not lack where its part of the interface is offered.
 * - Every function takes at most six words, all of them integers or pointers, and returns a status (CARVE_OK, ...). After a
 *   status below 0 nothing has been written but the error. `err` is the caller's, may be NULL, and is filled on failure.
 * - Handles (uint64_t) are chosen by their owner, and are never 0. They need not be addresses.
 * - Text is UTF-8, as pointer and length, not ended by a zero. What the host passes is valid during the call. What a plugin
 *   returns lives as long as the object that was asked.
 * - Who allocates frees. No memory is freed across the border.
 * - Functions may be called from any number of threads at once, unless it says "one at a time": then never two at once for
 *   the same handle, though not always from the same thread.
 * - No C++ exception and no longjmp may leave a function. A plugin leaves signal handlers, the floating-point environment
 *   and the working directory as they are, and does not fork.
 */
#ifndef CARVE_PLUGIN_H
#define CARVE_PLUGIN_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CARVE_ABI_MAJOR 1
#define CARVE_ABI_MINOR 1

#if defined(_WIN32)
#define CARVE_EXPORT __declspec(dllexport)
#elif defined(__GNUC__)
#define CARVE_EXPORT __attribute__((visibility("default")))
#else
#define CARVE_EXPORT
#endif

/* ---------------------------------------------------------------------------------------------------------------------
 * Statuses and errors
 */

#define CARVE_OK 0
#define CARVE_PENDING 1              /* an event that has not happened */
#define CARVE_FAILED (-1)            /* the reason stands in the error */
#define CARVE_NEEDS_CONTIGUOUS (-2)  /* an operand has to lie compactly: carve_error.index says which input */
#define CARVE_REFUSED (-3)           /* not for this backend: the group falls back */
#define CARVE_OUT_OF_MEMORY (-4)
#define CARVE_CANCELLED (-5)         /* the caller's cancel flag was seen */
#define CARVE_DEVICE_LOST (-6)       /* the processor answers no more */
#define CARVE_NEEDS_SHAPES (-7)      /* concrete shapes are needed: bindings lack symbols */
#define CARVE_BAD_ARGUMENT (-8)
#define CARVE_NOT_IMPLEMENTED (-9)   /* the same as an entry that is NULL */

/* An error: the caller's struct, filled by the callee. */
typedef struct carve_error {
  uint32_t size;
  int32_t index;  /* of the operand or node that it is about, -1 for none */
  char *text;     /* the caller's buffer: what was wanted and what was found */
  uint64_t cap;   /* bytes of the buffer */
  uint64_t len;   /* bytes written, at most cap */
} carve_error;

/* Text. It never grows. */
typedef struct carve_str {
  const char *data;
  uint64_t len;
} carve_str;

/* ---------------------------------------------------------------------------------------------------------------------
 * Tensors and formats
 */

/* How the content of a tensor is stored: on which device, and in which layout. */
typedef struct carve_format {
  uint32_t size;
  int32_t device_type; /* as in DLPack: 1 is the host (CPU) */
  int32_t device_id;
  uint32_t reserved;
  /* "" is row-major. A described layout is a tag: one letter per dimension from outermost to innermost, "a" being dimension 0;
   * a dimension that is split is written upper-case, and its blocks follow as size and letter: "aBcd16b" is NCHW16c, "acdb" is
   * NHWC. A layout of the plugin's own is "NAME@VERSION:KEY", with the name of its backend: the size and the content of such
   * tensors are known to the plugin's converters alone. */
  carve_str layout;
} carve_format;

/* Element types go by ONNX's numbers (TensorProto.DataType): 1 float32, 2 uint8, 3 int8, 6 int32, 7 int64, 9 bool, 10 float16,
 * 11 float64, 16 bfloat16, ... */

/* A tensor. From `data` to `byte_offset` its members lie as in DLPack's DLTensor, so that &t->data may be given to whoever
 * takes one. Storage is never the tensor's own. */
typedef struct carve_tensor {
  uint32_t size;
  uint32_t flags;
  void *data;          /* an address on the host; elsewhere the handle of a block: no arithmetic on it */
  int32_t device_type;
  int32_t device_id;
  int32_t ndim;
  uint8_t dtype_code;  /* DLPack's type code, bits and lanes */
  uint8_t dtype_bits;
  uint16_t dtype_lanes;
  int64_t *shape;      /* ndim dims: the logical shape, also where the layout pads */
  int64_t *strides;    /* ndim strides in elements, or NULL: compact, or not row-major */
  uint64_t byte_offset;
  int64_t bytes;       /* the physical size, without byte_offset */
  int32_t type;        /* ONNX's number of the element type */
  uint32_t reserved;
  const carve_format *format; /* NULL for row-major on the host */
} carve_tensor;

#define CARVE_TENSOR_READ_ONLY 1u /* what it holds must not be written */

/* ---------------------------------------------------------------------------------------------------------------------
 * Graphs
 */

/* A value of a graph. */
typedef struct carve_value {
  uint32_t size;
  int32_t type;  /* of the elements, 0 where not known */
  int32_t ndim;  /* -1 where not known */
  uint32_t reserved;
  const int64_t *dims;          /* ndim dims, -1 for one that is open */
  const uint32_t *symbols;      /* ndim symbols: equal numbers are equal sizes, 0 for none. NULL where no dim is open */
  const carve_tensor *constant; /* what it holds, in the format below: there may be a handle of the processor's memory. NULL where it
                                   is computed, and where it is a constant that is made of sizes: such are in carve_run.constants,
                                   of which session_open sees the content. In compile's graphs the storage stays where it is until
                                   executable_close */
  const carve_format *format;   /* in compile's graphs, the chosen one; NULL for row-major on the host */
  carve_str name;
} carve_value;

#define CARVE_ATTR_FLOAT 1
#define CARVE_ATTR_INT 2
#define CARVE_ATTR_STRING 3
#define CARVE_ATTR_TENSOR 4
#define CARVE_ATTR_FLOATS 6
#define CARVE_ATTR_INTS 7
#define CARVE_ATTR_STRINGS 8

/* An attribute of a node. Defaults of the operator's schema are filled in, but for lists of texts: how many there are goes by
 * other attributes (RNN's activations by its direction). A default that ONNX says in words alone is not in the schema: strides,
 * dilations, pads and kernel_shape of Conv and of pooling may be absent. */
typedef struct carve_attr {
  uint32_t size;
  int32_t type; /* CARVE_ATTR_..., ONNX's numbers */
  carve_str name;
  double f;
  int64_t i;
  carve_str s;
  const float *floats;
  const int64_t *ints;
  const carve_str *strings;
  uint64_t n; /* of floats, ints or strings */
  const carve_tensor *tensor;
} carve_attr;

#define CARVE_NO_VALUE UINT32_MAX /* an input or output that is left out */

struct carve_graph;

/* A node. Inputs and outputs are indices into the graph's values. */
typedef struct carve_node {
  uint32_t size;
  int32_t since; /* the version of the operator's set that its schema came with */
  carve_str domain; /* "" for ONNX's own */
  carve_str op;
  carve_str name;
  const uint32_t *inputs;
  const uint32_t *outputs;
  uint32_t n_inputs;
  uint32_t n_outputs;
  const carve_attr *const *attrs;
  uint64_t n_attrs;
  /* The nodes that a fused one stands for (domain "carve", operator "Fused", attribute "pattern" with the property's name),
   * NULL for others. Input i of the node is input i of the graph. */
  const struct carve_graph *body;
} carve_node;

/* A model in ONNX's format (ModelProto), since 1.1. Constants of 1024 bytes and more are external data at the location
 * "carve:weights": the offset is an index into weights, the length a number of bytes. */
typedef struct carve_onnx {
  uint32_t size;
  uint32_t reserved;
  const void *data;
  uint64_t len;
  const carve_tensor *const *weights;
  uint64_t n_weights;
} carve_onnx;

/* A graph: nodes in topological order over values. */
typedef struct carve_graph {
  uint32_t size;
  uint32_t n_nodes;
  const carve_node *const *nodes;
  const carve_value *const *values;
  uint32_t n_values;
  uint32_t n_inputs;
  const uint32_t *inputs; /* values */
  const uint32_t *outputs;
  uint32_t n_outputs;
  uint32_t n_constants;
  const uint32_t *constants; /* values, in the order in which carve_run has them */
  /* In compile and load of a processor with CARVE_PROCESSOR_ONNX, the same graph as a model, with inputs and outputs in the
   * same order, and fused nodes taken apart; the storage of its weights stays where it is until executable_close. NULL where
   * ONNX cannot say it: changes of format, sizes that are known as expressions of symbols alone. Since 1.1. */
  const carve_onnx *onnx;
} carve_graph;

/* ---------------------------------------------------------------------------------------------------------------------
 * What a processor says of itself
 */

#define CARVE_PROCESSOR_HOST_MEMORY 1u /* works in the host's memory: alloc, free and copy are not called */
#define CARVE_PROCESSOR_OWN_THREADS 2u /* has threads of its own: carve parks its pool while it runs */
#define CARVE_PROCESSOR_ONE_THREAD 4u  /* no function that is given this backend, or what came of it, is called twice at once */
#define CARVE_PROCESSOR_ONNX 8u        /* compile wants carve_graph.onnx (since 1.1) */
/* One executable serves every group that is equal to the compiled one but for names and for the content of constants of more than
 * 64 elements, as layers of a transformer are. compile, specialize and requirements then read no such content (nor carve_onnx's):
 * a session has its own group's in carve_run.constants. Since 1.1; a host that does not know it compiles each group. */
#define CARVE_PROCESSOR_REPEATS 16u

typedef struct carve_processor {
  uint32_t size;
  uint32_t index; /* that open takes */
  int32_t device_type; /* as in DLPack; 1 with HOST_MEMORY. 12 (an extension device) where no other fits */
  int32_t device_id;
  uint64_t flags;
  int64_t memory_bytes; /* 0 where not known */
  carve_str name;    /* of the backend: lower-case words with hyphens, unlike those of all others */
  carve_str arch;    /* for people */
  carve_str version; /* of the implementation: a change makes what was saved invalid. "" for the plugin's */
} carve_processor;

/* An operator that a backend has kernels for. */
typedef struct carve_op {
  uint32_t size;
  int32_t since_min; /* the first and last version of the operator's schema that the kernels know, both included; */
  int32_t since_max; /* 0 as the last: the newest that this header's carve knows */
  uint32_t reserved;
  carve_str domain;
  carve_str name;
  uint64_t types;    /* bit t: elements of ONNX's type number t */
  uint64_t digest;   /* of the schema, as `carve plugin digest DOMAIN OP SINCE` prints it; 0: not looked at */
} carve_op;

/* The format of a port of a kernel: fixed, or one of a variable that several ports share. */
typedef struct carve_port_format {
  uint32_t size;
  uint32_t variable;          /* number from 1, 0 for a fixed format */
  const carve_format *format; /* NULL for row-major on the host */
} carve_port_format;

typedef struct carve_formats {
  uint32_t size;
  uint32_t n;
  const carve_format *const *formats; /* best first */
} carve_formats;

/* In which formats a kernel takes its operands and gives its results. */
typedef struct carve_signature {
  uint32_t size;
  uint32_t n_inputs; /* those of the node */
  uint32_t n_outputs;
  uint32_t n_variables;
  carve_str name;    /* for reports: "nchw16c" */
  const carve_port_format *const *inputs;
  const carve_port_format *const *outputs;
  const carve_formats *const *variables; /* the formats that each may take */
  double extra_ns;   /* beyond the node's cost with its best signature */
} carve_signature;

#define CARVE_REASON_UNSUPPORTED 0
#define CARVE_REASON_VERSION 1
#define CARVE_REASON_DTYPE 2
#define CARVE_REASON_SHAPE 3
#define CARVE_REASON_DYNAMIC_SHAPE 4
#define CARVE_REASON_ATTRIBUTE 5
#define CARVE_REASON_LAYOUT 6

/* The answer about one node: the host's struct, filled by the plugin. What it points to lives until the backend is closed. */
typedef struct carve_support {
  uint32_t size;
  int32_t status;    /* CARVE_OK, or CARVE_REFUSED with a reason; CARVE_NOT_IMPLEMENTED as the host sets it: not answered */
  uint32_t reason;   /* CARVE_REASON_... */
  uint32_t n_signatures;
  const carve_signature *const *signatures; /* best first; none: row-major in the processor's memory */
  double ns;         /* the modelled time, 0 where not known */
  double flops;
  double bytes;
  char *text;        /* the host's buffer, for the reason */
  uint64_t cap;
  uint64_t len;
} carve_support;

#define CARVE_CLAIM_ATOMIC 0    /* one fused node stands for the nodes */
#define CARVE_CLAIM_BOUNDING 1  /* no group holds nodes of the claim and others */
#define CARVE_CLAIM_ADMITTING 2 /* the backend takes nodes of such claims alone */

/* A set of nodes that belongs together. A backend whose groups are to have one node each makes a bounding claim of every node. */
typedef struct carve_claim {
  uint32_t size;
  uint32_t kind;
  carve_str name;        /* the pattern: attribute "pattern" of the fused node */
  const uint32_t *nodes; /* indices */
  uint64_t n_nodes;
  double ns;             /* the modelled time of the fused node, 0 where not known */
} carve_claim;

typedef struct carve_claims {
  uint32_t size;
  uint32_t n;
  const carve_claim *const *claims;
} carve_claims;

/* ---------------------------------------------------------------------------------------------------------------------
 * Compiling and running
 */

/* Settings of a compilation. */
typedef struct carve_options {
  uint32_t size;
  int32_t threads;       /* most workers of a run on the host */
  const int32_t *cancel; /* not 0: stop, with CARVE_CANCELLED. Looked at every 20 ms at least. May be NULL */
} carve_options;

/* What an executable was saved as (since 1.1). */
typedef struct carve_saved {
  uint32_t size;
  uint32_t reserved;
  const void *data;
  uint64_t len;
} carve_saved;

/* The size that a symbol stands for. It never grows. */
typedef struct carve_binding {
  uint32_t symbol;
  uint32_t reserved;
  int64_t value;
} carve_binding;

#define CARVE_PORT_STRIDED 1u /* row-major, and strides are taken; otherwise storage is compact */

/* How an instance uses an operand. Sub-steps are counted from 0. */
typedef struct carve_port {
  uint32_t size;
  uint32_t flags;
  int64_t bytes; /* the physical size; 0: what shape and format say */
  int64_t align; /* of element 0, in bytes: a power of two up to 256; 0: the element type's own */
  int32_t first; /* the sub-steps that touch it, both included */
  int32_t last;
} carve_port;

/* Memory that an instance needs from sub-step first to last, both included. */
typedef struct carve_buffer {
  uint32_t size;
  int32_t first;
  int32_t last;
  uint32_t reserved;
  int64_t bytes;
  int64_t align; /* a power of two up to 256; 0: 256 */
} carve_buffer;

/* Output `output` may overwrite input `input`: each element is read before the same place is written. It never grows. */
typedef struct carve_inplace {
  int32_t output;
  int32_t input;
} carve_inplace;

/* A constant in a format that suits an instance better: carve_run.constants has it behind those of the graph. */
typedef struct carve_constant_form {
  uint32_t size;
  uint32_t index; /* into carve_graph.constants */
  const carve_format *format;
} carve_constant_form;

/* A sub-step, for profiles. */
typedef struct carve_label {
  uint32_t size;
  uint32_t n_nodes;
  carve_str name;
  carve_str op;
  const uint32_t *nodes; /* of the compiled graph that it does the work of */
} carve_label;

#define CARVE_NO_REUSE 1u /* the buffers must not share memory with each other */

/* What an instance needs. It lives as long as the instance. */
typedef struct carve_requirements {
  uint32_t size;
  int32_t steps;                   /* sub-steps; 0 counts as 1 */
  uint64_t flags;
  const carve_port *const *inputs; /* one per input of the graph; NULL: compact operands, in use all the time */
  const carve_port *const *outputs;
  const carve_buffer *const *buffers;
  uint64_t n_buffers;
  const carve_inplace *inplace;
  uint64_t n_inplace;
  const carve_constant_form *const *constants;
  uint64_t n_constants;
  const carve_label *const *labels; /* `steps` of them, or NULL */
} carve_requirements;

/* The arguments of a run: the host's, at the same address for every run of a session, and unchanged from enqueue until the
 * run's event. */
typedef struct carve_run {
  uint32_t size;
  uint32_t reserved;
  carve_tensor *const *inputs;
  carve_tensor *const *outputs;   /* data NULL: its shape depends on data, carve_host.output gives storage */
  carve_tensor *const *constants; /* the graph's, then carve_requirements.constants */
  carve_tensor *const *buffers;   /* one per carve_requirements.buffers */
  const int32_t *cancel;          /* not 0: what is left of the work need not be done */
  uint64_t run;                   /* token for the host's services */
} carve_run;

/* A block of a device's memory. */
typedef struct carve_mem {
  uint32_t size;
  uint32_t reserved;
  uint64_t handle; /* not 0 */
  void *address;   /* on the host, NULL where the host cannot reach it */
  int64_t bytes;
} carve_mem;

#define CARVE_COPY_TO 1      /* from the host: src is an address */
#define CARVE_COPY_FROM 2    /* to the host: dst is an address */
#define CARVE_COPY_BETWEEN 3 /* both are handles: of this backend, or dst_backend names another one of the plugin */

typedef struct carve_copy {
  uint32_t size;
  uint32_t kind;
  uint64_t dst; /* address or handle of a block */
  uint64_t dst_offset;
  uint64_t src;
  uint64_t src_offset;
  uint64_t bytes;
  uint64_t dst_backend; /* 0: the same */
} carve_copy;

/* A way to change the format of tensors. */
typedef struct carve_converter {
  uint32_t size;
  uint32_t index; /* that convert takes */
  carve_str name; /* for reports */
  const carve_format *from;
  const carve_format *to;
  uint64_t types; /* bit t: elements of ONNX's type number t; 0 for all */
  int32_t min_rank;
  int32_t max_rank; /* 0 for any */
  double fixed_ns;
  double ns_per_byte;
} carve_converter;

/* How many objects of a backend are alive, for the search for leaks. */
typedef struct carve_live {
  uint32_t size;
  uint32_t reserved;
  int64_t executables;
  int64_t instances;
  int64_t sessions;
  int64_t events;
  int64_t streams;
  int64_t blocks;
} carve_live;

/* ---------------------------------------------------------------------------------------------------------------------
 * Operators (since 1.1): single kernels for nodes of a domain of the plugin's own, in the host's memory
 */

/* A dim of a result. It never grows. */
typedef struct carve_dim {
  int64_t value;   /* where symbol is 0: the size, -1 where it depends on data */
  uint32_t symbol; /* of the operands: the size is (symbol * factor + offset) / divisor, rounded down */
  uint32_t reserved;
  int64_t factor;  /* 0 counts as 1 */
  int64_t offset;
  int64_t divisor; /* 0 counts as 1 */
} carve_dim;

/* What is known of a result before it is computed: the host's struct, filled by the plugin. */
typedef struct carve_result {
  uint32_t size;
  int32_t type;    /* of the elements, ONNX's number; 0: that of the first operand */
  int32_t ndim;    /* -1 as the host sets it: not known */
  uint32_t cap;    /* dims that there is room for */
  carve_dim *dims; /* the host's */
} carve_result;

#define CARVE_OPERATOR_RANDOM 1u /* its results are no function of its operands: never computed ahead, never shared */

/* An operator. In `graph` it is the only node, number 0: inputs, attributes and what operands hold are read there. */
typedef struct carve_operator {
  uint32_t size;
  uint32_t flags;
  int32_t since_min; /* the first version of the domain's operator set that has it so; 0 counts as 1 */
  int32_t since_max; /* the last one; 0: the newest */
  carve_str domain;  /* none of ONNX's and of carve's own */
  carve_str name;
  /* Ports, attributes and types, a line for each:
   *   "in X:T bias?:tensor(float)\nout Y:T\nat axis:int=-1 mode:string!\nty T=float,double"
   * Behind the name of a port, ? says that it may be absent, * that it stands for any number, + that these may differ in type;
   * the type is a variable or ONNX's type string. Attributes are int, float, string, tensor, ints, floats or strings; ! is
   * required, and = stands before a default. ty has the types that variables admit. Lines may be left out. */
  carve_str schema;
  /* infer fills results, one per output of the node. NULL: each is of the first operand's type and shape. */
  int32_t (*infer)(const struct carve_operator *op, const carve_graph *graph, carve_result *const *results, uint64_t n,
                   carve_error *err);
  /* workspace sets the bytes that run works in, for the sizes in graph. NULL: none. */
  int32_t (*workspace)(const struct carve_operator *op, const carve_graph *graph, uint64_t *bytes, carve_error *err);
  /* run computes the node: run->inputs and run->outputs are those of the node, NULL for one that is left out or that nobody
   * reads; run->buffers[0] is the workspace. Tensors are row-major and compact, sizes are known in graph, which stays where it
   * is between runs. It returns when it is done. Many threads at once. Required. */
  int32_t (*run)(const struct carve_operator *op, const carve_graph *graph, const carve_run *run, carve_error *err);
} carve_operator;

/* ---------------------------------------------------------------------------------------------------------------------
 * Properties (since 1.1): which nodes a backend takes together
 */

/* A property of a backend of any kind. It names sets of nodes, indices in `graph`, either all at once by claim, or node by
 * node: from each node for which select returns 1, a set grows to operands' producers and to readers for which select_input
 * and select_output return 1, until nobody accepts more; filter then keeps what it wants. What is kept is divided into
 * connected and convex sets. A status below 0 says no, and reports have it. Any thread, with another state each. */
typedef struct carve_property {
  uint32_t size;
  uint32_t kind;     /* CARVE_CLAIM_...: what becomes of the sets */
  carve_str name;    /* lower-case words with hyphens: who switches it off, and attribute "pattern" of fused nodes */
  carve_str backend; /* whose it is; "" for every one, with run for those that call kernels */
  const carve_attr *const *attrs; /* of the nodes that stand for sets: numbers, text, and lists of these */
  uint64_t n_attrs;
  uint64_t state_bytes; /* of memory, zeroed at first, that the host gives the functions for one walk over a graph */
  int32_t (*select)(const struct carve_property *p, const carve_graph *graph, void *state, uint32_t seed);
  int32_t (*select_input)(const struct carve_property *p, const carve_graph *graph, void *state, uint32_t node,
                          uint32_t producer);
  int32_t (*select_output)(const struct carve_property *p, const carve_graph *graph, void *state, uint32_t node,
                           uint32_t reader);
  /* filter moves the nodes that are kept to the front and sets *n to their number. NULL: all are kept. */
  int32_t (*filter)(const struct carve_property *p, const carve_graph *graph, void *state, uint32_t *nodes, uint64_t *n);
  /* reset forgets a set that was given up or is finished. NULL: the state is zeroed. */
  int32_t (*reset)(const struct carve_property *p, const carve_graph *graph, void *state);
  /* claim sets all sets of a graph, instead of select; of a carve_claim only the nodes are looked at. A set is taken whole or
   * not at all. They live until release_claims. */
  int32_t (*claim)(const struct carve_property *p, const carve_graph *graph, const carve_claims **claims, carve_error *err);
  void (*release_claims)(const struct carve_property *p, const carve_claims *claims);
  /* workspace and run, as those of an operator, compute the fused node of a set (CARVE_CLAIM_ATOMIC) on a host backend: graph
   * has the nodes of the set, and the run has its inputs, outputs and constants. NULL: the backend is asked for the node. */
  int32_t (*workspace)(const struct carve_property *p, const carve_graph *graph, uint64_t *bytes, carve_error *err);
  int32_t (*run)(const struct carve_property *p, const carve_graph *graph, const carve_run *run, carve_error *err);
} carve_property;

/* ---------------------------------------------------------------------------------------------------------------------
 * Passes (since 1.1): rewrites of the model's graph as ONNX
 */

/* A pass. It comes before or after a pass of carve's, by its name: `carve dump --help` lists them. There, up to
 * "prepare-properties", the graph is the model's. Behind that it is partitioned, and a pass there is an error: groups, formats,
 * conversions and packed constants are carve's own, no part of ONNX, and a group whose bytes came back would have to be asked for,
 * grouped and verified anew, which is what a pass on the model has done for it. */
typedef struct carve_pass {
  uint32_t size;
  uint32_t flags;
  carve_str name; /* lower-case words with hyphens, unlike those of all others */
  carve_str before;
  carve_str after;
  /* run sets out to what it has made of in; left as it is, nothing was changed. Names, types and order of the model's inputs
   * and outputs stay. Constants may go on referring to in's weights; those behind them, from index in->n_weights on, are
   * out's, which are row-major on the host. carve copies what out has, verifies the graph and infers its types anew. */
  int32_t (*run)(const struct carve_pass *pass, const carve_onnx *in, const carve_options *options, carve_onnx *out,
                 carve_error *err);
  /* release frees what run has set in out. NULL: nothing. */
  void (*release)(const struct carve_pass *pass, carve_onnx *out);
} carve_pass;

/* ---------------------------------------------------------------------------------------------------------------------
 * Services of the host
 */

#define CARVE_LOG_DEBUG 0
#define CARVE_LOG_INFO 1
#define CARVE_LOG_WARN 2
#define CARVE_LOG_ERROR 3

/* The host's table. It and its functions are there for as long as the process; none may be called from an exit handler. */
typedef struct carve_host {
  uint32_t size;
  uint32_t abi_minor;
  void *ctx; /* the first argument of every function below */
  /* alloc gives host memory that free takes back: aligned to `align`, a power of two, NULL where there is none. */
  void *(*alloc)(void *ctx, uint64_t bytes, uint64_t align);
  void (*free)(void *ctx, void *block);
  void (*log)(void *ctx, int32_t level, const char *text, uint64_t len);
  /* parallel_for calls fn(arg, lo, hi) for ranges that cover [0, n), on threads of the host, and returns when all calls have.
   * Only within enqueue, or an operator's run, on its thread. */
  int32_t (*parallel_for)(void *ctx, uint64_t run, int64_t n, void (*fn)(void *arg, int64_t lo, int64_t hi), void *arg);
  /* output gives the storage, with any contents, of an output whose shape depends on data: it fills data, shape and bytes of the output's tensor
   * in the carve_run. Only within enqueue, or an operator's run, on its thread. */
  int32_t (*output)(void *ctx, uint64_t run, uint64_t index, const int64_t *shape, uint64_t ndim);
  /* done says that the event that `token` was given for has happened, with its status: exactly once, from any thread. It posts
   * and returns; no function of the plugin is called in it. */
  void (*done)(void *ctx, uint64_t token, int32_t status);
} carve_host;

/* ---------------------------------------------------------------------------------------------------------------------
 * The plugin's table
 */

typedef struct carve_plugin {
  uint32_t size;
  uint32_t abi_major;
  uint32_t abi_minor;
  uint32_t flags;
  carve_str name; /* lower-case words with hyphens */
  carve_str version;
  carve_str vendor;

  /* Life. open and close are required where there are processors. */

  /* processors sets *out and *n to the processors of the machine; they live as long as the plugin. NULL: none. */
  int32_t (*processors)(const carve_processor *const **out, uint64_t *n, carve_error *err);
  /* open starts work with a processor. options are "key=value" texts. */
  int32_t (*open)(uint32_t processor, const carve_str *options, uint64_t n, uint64_t *backend, carve_error *err);
  /* close ends it. Everything that came of the backend has been closed before. */
  int32_t (*close)(uint64_t backend);
  int32_t (*live)(uint64_t backend, carve_live *out); /* NULL: not known */
  /* last_error writes the text of this thread's last failure, where err could not take it, and returns its length. */
  uint64_t (*last_error)(char *buf, uint64_t cap);

  /* Planning. */

  /* operators lists what supports is asked about; other nodes are never shown. Required. */
  int32_t (*operators)(uint64_t backend, const carve_op *const **out, uint64_t *n);
  /* supports answers for nodes of a graph, by index: out[i] for nodes[i]. Required. */
  int32_t (*supports)(uint64_t backend, const carve_graph *graph, const uint32_t *nodes, uint64_t n, carve_support *const *out,
                      carve_error *err);
  /* claim offers sets of nodes; they live until release_claims. NULL: none. */
  int32_t (*claim)(uint64_t backend, const carve_graph *graph, const carve_claims **claims, carve_error *err);
  void (*release_claims)(uint64_t backend, const carve_claims *claims);
  /* negotiate sets wanted[i] to the format that value i of a finished group should have, or leaves it NULL. The formats live
   * until the backend is closed. NULL: the formats of the signatures. */
  int32_t (*negotiate)(uint64_t backend, const carve_graph *graph, const carve_format **wanted, carve_error *err);

  /* Compiling. */

  /* compile prepares a group. The graph is valid during the call, the storage of its constants until executable_close. Nodes
   * "Convert" of the domain "carve" in it change formats between those of the backend's signatures, and are the plugin's to
   * run. CARVE_REFUSED: the group goes to another backend. Required. */
  int32_t (*compile)(uint64_t backend, const carve_graph *graph, const carve_options *options, uint64_t *executable,
                     carve_error *err);
  int32_t (*executable_close)(uint64_t executable); /* required */
  /* specialize makes the instance for concrete sizes of the symbols: a dim of a value is carve_value.dims[i] or, where that is -1,
   * the value of the binding whose symbol is carve_value.symbols[i]. What lies between two nodes has its sizes from here alone:
   * buffers are bytes. CARVE_NEEDS_SHAPES: bindings lack symbols whose sizes
   * depend on data; it is then asked again in the run. Required. */
  int32_t (*specialize)(uint64_t executable, const carve_binding *bindings, uint64_t n, uint64_t *instance, carve_error *err);
  int32_t (*instance_close)(uint64_t instance); /* required */
  /* requirements sets *out. NULL: no buffers, one sub-step, compact operands. */
  int32_t (*requirements)(uint64_t instance, const carve_requirements **out);

  /* Running: one at a time for each session. */

  /* session_open prepares a sequence of runs whose arguments are always in *run. Required. */
  int32_t (*session_open)(uint64_t instance, const carve_run *run, uint64_t stream, uint64_t *session, carve_error *err);
  /* enqueue puts a run onto the session's stream. *event 0: it is over already. CARVE_NEEDS_CONTIGUOUS: nothing was queued,
   * and it is called again with that input compact. Required. */
  int32_t (*enqueue)(uint64_t session, uint64_t *event, carve_error *err);
  int32_t (*session_close)(uint64_t session); /* required */

  /* Events: any thread at any time, but for close, which is the last call. Required where events other than 0 are made. */

  int32_t (*event_poll)(uint64_t event, carve_error *err); /* CARVE_PENDING, or the work's status */
  int32_t (*event_wait)(uint64_t event, uint64_t ns, carve_error *err); /* as poll, after at most so many nanoseconds */
  int32_t (*event_notify)(uint64_t event, uint64_t token); /* has carve_host.done called. NULL: it is polled */
  int32_t (*event_close)(uint64_t event); /* the work goes on */

  /* Streams: one at a time for each. All NULL: the host queues the calls. copy and convert are over when they return, and the
   * next call is made when enqueue's event has happened. */

  int32_t (*stream_open)(uint64_t backend, uint64_t flags, uint64_t *stream, carve_error *err);
  int32_t (*stream_record)(uint64_t stream, uint64_t *event, carve_error *err); /* 0: everything queued is over */
  int32_t (*stream_wait)(uint64_t stream, uint64_t event, carve_error *err); /* for an event of the same plugin */
  /* stream_sync answers CARVE_PENDING after so many nanoseconds. With a minute or more the host's thread has nothing else to do,
   * and what is queued may be done on it. */
  int32_t (*stream_sync)(uint64_t stream, uint64_t ns, carve_error *err);
  int32_t (*stream_close)(uint64_t stream);

  /* Memory, where the processor has not the host's. alloc, free and copy are required. Blocks are aligned to `align`, a power of
   * two, 256 as a rule. */

  int32_t (*alloc)(uint64_t backend, uint64_t bytes, uint64_t align, carve_mem *out, carve_error *err);
  int32_t (*free)(uint64_t backend, uint64_t handle); /* the block may be kept for later */
  int32_t (*direct_free)(uint64_t backend, uint64_t handle); /* gives it back at once. NULL: free */
  int32_t (*release_all)(uint64_t backend); /* gives kept blocks back. NULL: none are kept */
  /* copy moves bytes, on a stream behind what is queued there, or with stream 0 before it returns. */
  int32_t (*copy)(uint64_t backend, const carve_copy *const *copies, uint64_t n, uint64_t stream, carve_error *err);
  /* copies_to reports whether CARVE_COPY_BETWEEN reaches the memory of another backend of the plugin: 1 or 0. NULL: none. */
  int32_t (*copies_to)(uint64_t backend, uint64_t other);

  /* Converters. From and to row-major on the host they are copies, if none is listed. */

  int32_t (*converters)(uint64_t backend, const carve_converter *const **out, uint64_t *n);
  /* converted_size sets the bytes of a tensor in a format of the plugin's own. Required where there are such formats. */
  int32_t (*converted_size)(uint64_t backend, const carve_format *format, const carve_tensor *tensor, int64_t *bytes,
                            carve_error *err);
  int32_t (*convert)(uint64_t backend, uint32_t converter, const carve_tensor *dst, const carve_tensor *src, uint64_t stream,
                     carve_error *err);

  /* Saving (since 1.1). */

  /* save sets out->data and out->len to what load makes the executable of again: they live until executable_close. Left as they
   * are, there is nothing worth keeping. NULL: nothing is kept. */
  int32_t (*save)(uint64_t executable, carve_saved *out, carve_error *err);
  /* load is compile from what an executable of the same graph was saved as, by a plugin and a processor of the same names and
   * versions. The bytes may come from anywhere and are to be checked; they stay where they are until executable_close. After an
   * error the graph is compiled. NULL: it always is. */
  int32_t (*load)(uint64_t backend, const carve_graph *graph, const carve_options *options, const carve_saved *saved,
                  uint64_t *executable, carve_error *err);

  /* Since 1.1: lists that stay as they are for ever. */

  const carve_operator *const *own_operators;
  uint64_t n_own_operators;
  const carve_property *const *properties;
  uint64_t n_properties;
  const carve_pass *const *passes;
  uint64_t n_passes;
} carve_plugin;

/* What the host asks with. */
typedef struct carve_query {
  uint32_t size;
  uint32_t abi_major;
  uint32_t abi_minor;
  uint32_t reserved;
  const carve_host *host; /* stays for ever */
  carve_error *err;
} carve_query;

/* The one exported function. It returns the plugin's table for the host's major version, which stays for ever, or NULL with
 * the reason in query->err. It may be called several times. */
CARVE_EXPORT const carve_plugin *carve_plugin_query(const carve_query *query);

#ifdef __cplusplus
}
#endif

#endif /* CARVE_PLUGIN_H */
