package amx

import "unsafe"

const (
	// MatrixPanels is the most panels of a Matrix.
	MatrixPanels = 4
	// MatrixRows is the rows of two tiles.
	MatrixRows = 2 * Rows

	matrixWords = 256 // of k that are multiplied before the next: those of two tiles of A fill two thirds of a first-level cache of 48 KiB
	matrixPairs = 4   // of tiles of a call
)

// Matrix is a product of rows of bfloat16 at one distance, which may be 0 or more, by up to MatrixPanels panels that lie together.
type Matrix struct {
	// LDA and LDC are the distances of rows of A and of sums, in bytes, Words the words of k, and Panels the number of panels.
	LDA, LDC, Words, Panels int
	// Start has what each row of sums begins with.
	Start [MatrixPanels * Panel]float32
}

// Multiply computes so many rows of sums at c of those of A at a and of panels at b. Whatever the rows are divided into, sums are the same.
func (m *Matrix) Multiply(rows int, a, b, c unsafe.Pointer) {
	p := Product{Kind: BFloat16, LDA: m.LDA, LDC: m.LDC, Panels: m.Panels, LDB: Block * m.Words}
	var list [matrixPairs]Pair
	for rows > 0 {
		whole := min(rows/MatrixRows, matrixPairs)
		for i := range whole {
			m.pair(&list[i], a, c)
			a, c = unsafe.Add(a, MatrixRows*m.LDA), unsafe.Add(c, MatrixRows*m.LDC)
		}
		if rows -= whole * MatrixRows; whole > 0 {
			m.multiply(&p, Rows, Rows, list[:whole], b)
			continue
		}
		m.pair(&list[0], a, c)
		m.multiply(&p, min(rows, Rows), max(0, rows-Rows), list[:1], b)
		return
	}
}

// pair sets where two tiles below each other lie.
func (m *Matrix) pair(p *Pair, a, c unsafe.Pointer) {
	for i := range p.A {
		p.A[i], p.Start[i], p.C[i] = unsafe.Add(a, i*Rows*m.LDA), unsafe.Pointer(&m.Start), unsafe.Add(c, i*Rows*m.LDC)
	}
}

// multiply multiplies pairs of tiles of so many rows by all panels, some words of k after the other.
func (m *Matrix) multiply(p *Product, first, second int, list []Pair, b unsafe.Pointer) {
	var segment [1]int
	p.Segments, p.LDS = segment[:], 0
	for k := 0; k < m.Words; k += matrixWords {
		if p.Words = min(matrixWords, m.Words-k); k > 0 {
			p.LDS = p.LDC
			for i := range list {
				list[i].Start = list[i].C
			}
		}
		segment[0] = 4 * k
		p.Run(first, second, list, unsafe.Add(b, Block*k))
	}
}
