package vec

import (
	"unsafe"

	"github.com/carve-dev/carve/internal/cpuid"
)

// The functions below call the kernel of a level. Their strides are in elements, those of the assembly in bytes. They call
// directly, rather than through a table, so that the compiler knows that no pointer escapes.

func unary(l cpuid.Level, op Op, dst, src *float32, n, rows, ldd, lds int, p *Params) {
	done := false
	switch l {
	case cpuid.AVX512:
		done = callUnary512(op, dst, src, n, rows, 4*ldd, 4*lds, (*float32)(unsafe.Pointer(p)))
	case cpuid.AVX2:
		done = callUnary2(op, dst, src, n, rows, 4*ldd, 4*lds, (*float32)(unsafe.Pointer(p)))
	}
	if !done {
		genericUnary(op, dst, src, n, rows, ldd, lds, p)
	}
}

func binary(l cpuid.Level, op BinaryOp, form Form, dst, a, b *float32, n, rows, ldd, lda, ldb int) {
	switch l {
	case cpuid.AVX512:
		callBinary512(op, form, dst, a, b, n, rows, 4*ldd, 4*lda, 4*ldb)
	case cpuid.AVX2:
		callBinary2(op, form, dst, a, b, n, rows, 4*ldd, 4*lda, 4*ldb)
	default:
		genericBinary(op, form, dst, a, b, n, rows, ldd, lda, ldb)
	}
}

func mulAdd(l cpuid.Level, perRow bool, dst, x, scale, shift *float32, n, rows, ldd, ldx int, lo, hi float32) {
	switch {
	case l == cpuid.AVX512 && perRow:
		mulAddRows512(dst, x, scale, shift, n, rows, 4*ldd, 4*ldx, lo, hi)
	case l == cpuid.AVX512:
		mulAddLanes512(dst, x, scale, shift, n, rows, 4*ldd, 4*ldx, lo, hi)
	case l == cpuid.AVX2 && perRow:
		mulAddRows2(dst, x, scale, shift, n, rows, 4*ldd, 4*ldx, lo, hi)
	case l == cpuid.AVX2:
		mulAddLanes2(dst, x, scale, shift, n, rows, 4*ldd, 4*ldx, lo, hi)
	default:
		genericMulAdd(perRow, dst, x, scale, shift, n, rows, ldd, ldx, lo, hi)
	}
}

func softmax(l cpuid.Level, logarithm bool, dst, src, mask *float32, n, rows, ldd, lds, ldm int, scale float32) {
	switch {
	case l == cpuid.AVX512 && logarithm:
		logSoftmax512(dst, src, mask, n, rows, 4*ldd, 4*lds, 4*ldm, scale)
	case l == cpuid.AVX512:
		softmax512(dst, src, mask, n, rows, 4*ldd, 4*lds, 4*ldm, scale)
	case l == cpuid.AVX2 && logarithm:
		logSoftmax2(dst, src, mask, n, rows, 4*ldd, 4*lds, 4*ldm, scale)
	case l == cpuid.AVX2:
		softmax2(dst, src, mask, n, rows, 4*ldd, 4*lds, 4*ldm, scale)
	default:
		genericSoftmax(logarithm, dst, src, mask, n, rows, ldd, lds, ldm, scale)
	}
}

func norm(l cpuid.Level, rms bool, dst, src, gamma, beta *float32, n, rows, ldd, lds int, eps float32) {
	switch {
	case l == cpuid.AVX512 && rms:
		rmsNorm512(dst, src, gamma, beta, n, rows, 4*ldd, 4*lds, eps)
	case l == cpuid.AVX512:
		layerNorm512(dst, src, gamma, beta, n, rows, 4*ldd, 4*lds, eps)
	case l == cpuid.AVX2 && rms:
		rmsNorm2(dst, src, gamma, beta, n, rows, 4*ldd, 4*lds, eps)
	case l == cpuid.AVX2:
		layerNorm2(dst, src, gamma, beta, n, rows, 4*ldd, 4*lds, eps)
	default:
		genericNorm(rms, dst, src, gamma, beta, n, rows, ldd, lds, eps)
	}
}

func reduce(l cpuid.Level, op ReduceOp, dst, src *float32, n, rows, lds int) {
	switch l {
	case cpuid.AVX512:
		callReduce512(op, dst, src, n, rows, 4*lds)
	case cpuid.AVX2:
		callReduce2(op, dst, src, n, rows, 4*lds)
	default:
		genericReduce(op, dst, src, n, rows, lds)
	}
}

func reduceColumns(l cpuid.Level, op ReduceOp, dst, src *float32, n, rows, lds int) {
	switch l {
	case cpuid.AVX512:
		callReduceColumns512(op, dst, src, n, rows, 4*lds)
	case cpuid.AVX2:
		callReduceColumns2(op, dst, src, n, rows, 4*lds)
	default:
		genericReduceColumns(op, dst, src, n, rows, lds)
	}
}

func lstm(l cpuid.Level, i, o, f, g, prev, cell, hidden *float32, n int) {
	switch l {
	case cpuid.AVX512:
		lstm512(i, o, f, g, prev, cell, hidden, n)
	case cpuid.AVX2:
		lstm2(i, o, f, g, prev, cell, hidden, n)
	default:
		genericLSTM(i, o, f, g, prev, cell, hidden, n)
	}
}

func gruReset(l cpuid.Level, dst, r, x, y *float32, n int) {
	switch l {
	case cpuid.AVX512:
		gruReset512(dst, r, x, y, n)
	case cpuid.AVX2:
		gruReset2(dst, r, x, y, n)
	default:
		genericGRUReset(dst, r, x, y, n)
	}
}

func gru(l cpuid.Level, dst, z, h, prev *float32, n int) {
	switch l {
	case cpuid.AVX512:
		gru512(dst, z, h, prev, n)
	case cpuid.AVX2:
		gru2(dst, z, h, prev, n)
	default:
		genericGRU(dst, z, h, prev, n)
	}
}
