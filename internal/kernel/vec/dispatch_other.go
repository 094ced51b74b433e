//go:build !amd64

package vec

import "github.com/carve-dev/carve/internal/cpuid"

func unary(_ cpuid.Level, op Op, dst, src *float32, n, rows, ldd, lds int, p *Params) {
	genericUnary(op, dst, src, n, rows, ldd, lds, p)
}

func binary(_ cpuid.Level, op BinaryOp, form Form, dst, a, b *float32, n, rows, ldd, lda, ldb int) {
	genericBinary(op, form, dst, a, b, n, rows, ldd, lda, ldb)
}

func mulAdd(_ cpuid.Level, perRow bool, dst, x, scale, shift *float32, n, rows, ldd, ldx int, lo, hi float32) {
	genericMulAdd(perRow, dst, x, scale, shift, n, rows, ldd, ldx, lo, hi)
}

func softmax(_ cpuid.Level, logarithm bool, dst, src, mask *float32, n, rows, ldd, lds, ldm int, scale float32) {
	genericSoftmax(logarithm, dst, src, mask, n, rows, ldd, lds, ldm, scale)
}

func norm(_ cpuid.Level, rms bool, dst, src, gamma, beta *float32, n, rows, ldd, lds int, eps float32) {
	genericNorm(rms, dst, src, gamma, beta, n, rows, ldd, lds, eps)
}

func reduce(_ cpuid.Level, op ReduceOp, dst, src *float32, n, rows, lds int) {
	genericReduce(op, dst, src, n, rows, lds)
}

func reduceColumns(_ cpuid.Level, op ReduceOp, dst, src *float32, n, rows, lds int) {
	genericReduceColumns(op, dst, src, n, rows, lds)
}

func lstm(_ cpuid.Level, i, o, f, g, prev, cell, hidden *float32, n int) {
	genericLSTM(i, o, f, g, prev, cell, hidden, n)
}

func gruReset(_ cpuid.Level, dst, r, x, y *float32, n int) {
	genericGRUReset(dst, r, x, y, n)
}

func gru(_ cpuid.Level, dst, z, h, prev *float32, n int) {
	genericGRU(dst, z, h, prev, n)
}
