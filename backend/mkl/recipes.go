package mkl

import (
	"fmt"
	"unsafe"
)

// Recipes of the operations, once for each major version of the library.

// window are a convolution's or pooling's spatial parameters. Dilations count as ONNX counts them: 1 is none.
type window struct {
	kernel, strides, dilations, padL, padR []int
}

func (w window) key() string {
	return fmt.Sprint(w.kernel, w.strides, w.dilations, w.padL, w.padR)
}

// blocks returns what C reads of the window; dilations count as the library does: 0 is none.
func (w window) blocks() (strides, dilations, padL, padR *dimsBlock) {
	d := make([]int, len(w.dilations))
	for i, x := range w.dilations {
		d[i] = x - 1
	}
	return dimsOf(w.strides), dimsOf(d), dimsOf(w.padL), dimsOf(w.padR)
}

// convolution is src[N, C, …] with weights[O, I, …] or [G, O, I, …], bias[O] or none, to dst[N, O, …].
// alg is convDirect, convWinograd or deconvDirect.
func (l *library) convolution(alg int, w window, src, weights, bias, dst shape, posts []post) recipe {
	name := "convolution"
	if alg == deconvDirect {
		name = "deconvolution"
	}
	return recipe{key: fmt.Sprint(name, alg, w.key()), shapes: []shape{src, weights, bias, dst}, posts: posts, product: true,
		v2: func(op uintptr, d []*desc) error {
			s, x, a, b := w.blocks()
			return l.call("dnnl_dilated_"+name+"_forward_desc_init", op, forwardInference, uintptr(alg), d[0].c(), d[1].c(), d[2].c(), d[3].c(),
				uintptr(unsafe.Pointer(s)), uintptr(unsafe.Pointer(x)), uintptr(unsafe.Pointer(a)), uintptr(unsafe.Pointer(b)))
		},
		v3: func(out, attr uintptr, d []*desc) error {
			s, x, a, b := w.blocks()
			return l.call("dnnl_"+name+"_forward_primitive_desc_create", out, l.engine, forwardInference, uintptr(alg), d[0].c(), d[1].c(), d[2].c(), d[3].c(),
				uintptr(unsafe.Pointer(s)), uintptr(unsafe.Pointer(x)), uintptr(unsafe.Pointer(a)), uintptr(unsafe.Pointer(b)), attr)
		}}
}

// pooling is src[N, C, …] to dst[N, C, …].
func (l *library) pooling(alg int, w window, src, dst shape) recipe {
	return recipe{key: fmt.Sprint("pooling", alg, w.key()), shapes: []shape{src, dst}, ops: 4 * dst.elements() * float64(product(w.kernel)),
		v2: func(op uintptr, d []*desc) error {
			s, x, a, b := w.blocks()
			k := dimsOf(w.kernel)
			return l.call("dnnl_pooling_v2_forward_desc_init", op, forwardInference, uintptr(alg), d[0].c(), d[1].c(),
				uintptr(unsafe.Pointer(s)), uintptr(unsafe.Pointer(k)), uintptr(unsafe.Pointer(x)), uintptr(unsafe.Pointer(a)), uintptr(unsafe.Pointer(b)))
		},
		v3: func(out, attr uintptr, d []*desc) error {
			s, x, a, b := w.blocks()
			k := dimsOf(w.kernel)
			return l.call("dnnl_pooling_forward_primitive_desc_create", out, l.engine, forwardInference, uintptr(alg), d[0].c(), d[1].c(),
				uintptr(unsafe.Pointer(s)), uintptr(unsafe.Pointer(k)), uintptr(unsafe.Pointer(x)), uintptr(unsafe.Pointer(a)), uintptr(unsafe.Pointer(b)), attr)
		}}
}

// innerProduct is src[M, K] with weights[N, K], bias[N] or none, to dst[M, N].
func (l *library) innerProduct(src, weights, bias, dst shape, posts []post) recipe {
	return recipe{key: "inner-product", shapes: []shape{src, weights, bias, dst}, posts: posts, product: true,
		v2: func(op uintptr, d []*desc) error {
			return l.call("dnnl_inner_product_forward_desc_init", op, forwardInference, d[0].c(), d[1].c(), d[2].c(), d[3].c())
		},
		v3: func(out, attr uintptr, d []*desc) error {
			return l.call("dnnl_inner_product_forward_primitive_desc_create", out, l.engine, forwardInference, d[0].c(), d[1].c(), d[2].c(), d[3].c(), attr)
		}}
}

// matmul is src[…, M, K] with weights[…, K, N], bias[1, …, N] or none, to dst[…, M, N].
func (l *library) matmul(src, weights, bias, dst shape, posts []post) recipe {
	return recipe{key: "matmul", shapes: []shape{src, weights, bias, dst}, posts: posts, product: true,
		v2: func(op uintptr, d []*desc) error {
			return l.call("dnnl_matmul_desc_init", op, d[0].c(), d[1].c(), d[2].c(), d[3].c())
		},
		v3: func(out, attr uintptr, d []*desc) error {
			return l.call("dnnl_matmul_primitive_desc_create", out, l.engine, d[0].c(), d[1].c(), d[2].c(), d[3].c(), attr)
		}}
}

// elementwise is alg of src to dst, of one shape and layout.
func (l *library) elementwise(alg eltwise, alpha, beta float32, x shape) recipe {
	n := eltwiseNumbers[l.major][alg]
	return recipe{key: fmt.Sprint("eltwise", alg, alpha, beta), shapes: []shape{x}, ops: alg.ops() * x.elements(),
		v2: func(op uintptr, d []*desc) error {
			if n == 0 {
				return errUnimplemented
			}
			return status("dnnl_eltwise_forward_desc_init", l.fl.eltwise2(op, forwardInference, n, d[0].c(), alpha, beta))
		},
		v3: func(out, attr uintptr, d []*desc) error {
			return status("dnnl_eltwise_forward_primitive_desc_create",
				l.fl.eltwise3(out, l.engine, forwardInference, n, d[0].c(), d[0].c(), alpha, beta, attr))
		}}
}

// binary is alg of a and b, which broadcasts to a, to dst.
func (l *library) binary(alg binaryAlg, a, b, dst shape, posts []post) recipe {
	return recipe{key: fmt.Sprint("binary", alg), shapes: []shape{a, b, dst}, posts: posts, ops: dst.elements(),
		v2: func(op uintptr, d []*desc) error {
			return l.call("dnnl_binary_desc_init", op, uintptr(alg), d[0].c(), d[1].c(), d[2].c())
		},
		v3: func(out, attr uintptr, d []*desc) error {
			return l.call("dnnl_binary_primitive_desc_create", out, l.engine, uintptr(alg), d[0].c(), d[1].c(), d[2].c(), attr)
		}}
}

// softmax is over one axis, or its logarithm.
func (l *library) softmax(log bool, axis int, x shape) recipe {
	name, alg := "softmax", uintptr(softmaxTrue)
	if log {
		name, alg = "logsoftmax", softmaxLog
	}
	return recipe{key: fmt.Sprint(name, axis), shapes: []shape{x}, ops: expOps * x.elements(),
		v2: func(op uintptr, d []*desc) error {
			return l.call("dnnl_"+name+"_forward_desc_init", op, forwardInference, d[0].c(), uintptr(axis))
		},
		v3: func(out, attr uintptr, d []*desc) error {
			return l.call("dnnl_softmax_forward_primitive_desc_create", out, l.engine, forwardInference, alg, d[0].c(), d[0].c(), uintptr(axis), attr)
		}}
}

// batchNorm is with given statistics, scale and shift; relu puts a rectifier behind it.
func (l *library) batchNorm(eps float32, x shape, posts []post) recipe {
	flags := useGlobalStats | l.useScale() | l.useShift()
	return recipe{key: fmt.Sprint("batch-norm", eps), shapes: []shape{x}, posts: posts, ops: 2 * x.elements(),
		v2: func(op uintptr, d []*desc) error {
			return status("dnnl_batch_normalization_forward_desc_init", l.fl.batchNorm2(op, forwardInference, d[0].c(), eps, flags))
		},
		v3: func(out, attr uintptr, d []*desc) error {
			return status("dnnl_batch_normalization_forward_primitive_desc_create",
				l.fl.batchNorm3(out, l.engine, forwardInference, d[0].c(), d[0].c(), eps, flags, attr))
		}}
}

// layerNorm is over the last dim of x[rows, n], with scale and with or without shift.
func (l *library) layerNorm(eps float32, shift bool, x shape) recipe {
	flags := l.useScale()
	if shift {
		flags |= l.useShift()
	}
	return recipe{key: fmt.Sprint("layer-norm", eps, shift), shapes: []shape{x, plain(x.dims[:len(x.dims)-1]...)}, ops: averageOps * x.elements(),
		v2: func(op uintptr, d []*desc) error {
			return status("dnnl_layer_normalization_forward_desc_init", l.fl.layerNorm2(op, forwardInference, d[0].c(), d[1].c(), eps, flags))
		},
		v3: func(out, attr uintptr, d []*desc) error {
			return status("dnnl_layer_normalization_forward_primitive_desc_create",
				l.fl.layerNorm3(out, l.engine, forwardInference, d[0].c(), d[0].c(), d[1].c(), eps, flags, attr))
		}}
}

// lrn is local response normalisation across channels.
func (l *library) lrn(size int, alpha, beta, k float32, x shape) recipe {
	return recipe{key: fmt.Sprint("lrn", size, alpha, beta, k), shapes: []shape{x}, ops: powerOps * x.elements(),
		v2: func(op uintptr, d []*desc) error {
			return status("dnnl_lrn_forward_desc_init", l.fl.lrn2(op, forwardInference, lrnAcross, d[0].c(), int64(size), alpha, beta, k))
		},
		v3: func(out, attr uintptr, d []*desc) error {
			return status("dnnl_lrn_forward_primitive_desc_create",
				l.fl.lrn3(out, l.engine, forwardInference, lrnAcross, d[0].c(), d[0].c(), int64(size), alpha, beta, k, attr))
		}}
}

// reduction is over the dims of src that are 1 in dst.
func (l *library) reduction(alg reduceAlg, p float32, src, dst shape) recipe {
	return recipe{key: fmt.Sprint("reduction", alg, p), shapes: []shape{src, dst}, ops: averageOps * src.elements(),
		v2: func(op uintptr, d []*desc) error {
			return status("dnnl_reduction_desc_init", l.fl.reduction2(op, int32(alg), d[0].c(), d[1].c(), p, 0))
		},
		v3: func(out, attr uintptr, d []*desc) error {
			return status("dnnl_reduction_primitive_desc_create", l.fl.reduction3(out, l.engine, int32(alg), d[0].c(), d[1].c(), p, 0, attr))
		}}
}

// resampling is to the spatial dims of dst.
func (l *library) resampling(alg int, src, dst shape) recipe {
	return recipe{key: fmt.Sprint("resampling", alg), shapes: []shape{src, dst}, ops: moveOps * dst.elements(),
		v2: func(op uintptr, d []*desc) error {
			return l.call("dnnl_resampling_forward_desc_init", op, forwardInference, uintptr(alg), 0, d[0].c(), d[1].c())
		},
		v3: func(out, attr uintptr, d []*desc) error {
			return l.call("dnnl_resampling_forward_primitive_desc_create", out, l.engine, forwardInference, uintptr(alg), 0, d[0].c(), d[1].c(), attr)
		}}
}

// shuffle reads the channels as a matrix of that many columns and transposes it.
func (l *library) shuffle(axis, columns int, x shape) recipe {
	return recipe{key: fmt.Sprint("shuffle", axis, columns), shapes: []shape{x}, ops: moveOps * x.elements(),
		v2: func(op uintptr, d []*desc) error {
			return l.call("dnnl_shuffle_forward_desc_init", op, forwardInference, d[0].c(), uintptr(axis), uintptr(columns))
		},
		v3: func(out, attr uintptr, d []*desc) error {
			return l.call("dnnl_shuffle_forward_primitive_desc_create", out, l.engine, forwardInference, d[0].c(), d[0].c(), uintptr(axis), uintptr(columns), attr)
		}}
}

// reorder copies src to dst, of the same dims.
func (l *library) reorder(src, dst shape) recipe {
	return recipe{key: "reorder", shapes: []shape{src, dst}, ops: moveOps * src.elements(),
		direct: func(out, attr uintptr, d []*desc) error {
			return l.call("dnnl_reorder_primitive_desc_create", out, d[0].c(), l.engine, d[1].c(), l.engine, attr)
		}}
}

// many is a list of descriptors that C reads: structs in version 2, handles in version 3. It lies in the heap.
type many struct {
	structs []byte
	handles []uintptr
}

// newMany is not inlined, so that the lists lie in the heap.
//
//go:noinline
func (l *library) newMany(ds []*desc) *many {
	m := &many{}
	for _, d := range ds {
		m.structs = append(m.structs, d.raw[:]...)
		m.handles = append(m.handles, d.handle)
	}
	return m
}

// concat puts the sources one behind the other along an axis; the destination is the last shape.
func (l *library) concat(axis int, srcs []shape, dst shape) recipe {
	return recipe{key: fmt.Sprint("concat", axis), shapes: append(append([]shape(nil), srcs...), dst),
		direct: func(out, attr uintptr, d []*desc) error {
			n := len(d) - 1
			m := l.newMany(d[:n])
			if l.major == 2 {
				return l.call("dnnl_concat_primitive_desc_create", out, d[n].c(), uintptr(n), uintptr(axis), uintptr(unsafe.Pointer(unsafe.SliceData(m.structs))), attr, l.engine)
			}
			return l.call("dnnl_concat_primitive_desc_create", out, l.engine, d[n].c(), uintptr(n), uintptr(axis), uintptr(unsafe.Pointer(unsafe.SliceData(m.handles))), attr)
		}}
}

// sum adds tensors of one shape and layout.
func (l *library) sum(n int, x shape) recipe {
	return recipe{key: fmt.Sprint("sum", n), shapes: []shape{x},
		direct: func(out, attr uintptr, d []*desc) error {
			list := make([]*desc, n)
			scales := make([]float32, n)
			for i := range list {
				list[i], scales[i] = d[0], 1
			}
			m := l.newMany(list)
			if l.major == 2 {
				return l.call("dnnl_sum_primitive_desc_create", out, d[0].c(), uintptr(n), uintptr(unsafe.Pointer(unsafe.SliceData(scales))), uintptr(unsafe.Pointer(unsafe.SliceData(m.structs))), attr, l.engine)
			}
			return l.call("dnnl_sum_primitive_desc_create", out, l.engine, d[0].c(), uintptr(n), uintptr(unsafe.Pointer(unsafe.SliceData(scales))), uintptr(unsafe.Pointer(unsafe.SliceData(m.handles))), attr)
		}}
}
