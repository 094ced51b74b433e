package amx

import (
	"sync"
	"unsafe"
)

const (
	// MatrixPanels is the most panels of a Matrix.
	MatrixPanels = 4
	// MatrixRows is the rows of two tiles.
	MatrixRows = 2 * Rows

	// WorkRows is how many rows of sums of MatrixPanels panels a Workspace holds, and WorkPairs how many pairs of tiles.
	WorkRows, WorkPairs = 128, 4

	matrixWords = 256 // of k that are multiplied before the next: those of two tiles of A fill two thirds of a first-level cache of 48 KiB
)

// Workspace is memory for a call at a time: what kernels are given has to outlive the stack of who gives it.
type Workspace struct {
	Sums [WorkRows * MatrixPanels * Panel]float32
	// Start has what each row of sums begins with.
	Start   [MatrixPanels * Panel]float32
	Pairs   [WorkPairs]Pair
	segment [1]int
}

var workspaces = sync.Pool{New: func() any { return new(Workspace) }}

// Borrow returns a workspace whose Start has these numbers and zeros behind them.
func Borrow(start []float32) *Workspace {
	w := workspaces.Get().(*Workspace)
	clear(w.Start[copy(w.Start[:], start):])
	return w
}

// Return gives a workspace back.
func (w *Workspace) Return() {
	clear(w.Pairs[:]) // which point to operands
	workspaces.Put(w)
}

// Matrix is a product of rows of bfloat16 at one distance, which may be 0 or more, by up to MatrixPanels panels that lie together.
type Matrix struct {
	// LDA and LDC are the distances of rows of A and of sums, in bytes, Words the words of k, and Panels the number of panels.
	LDA, LDC, Words, Panels int
	Work                    *Workspace
}

// Multiply computes so many rows of sums at c of those of A at a and of panels at b. Whatever the rows are divided into, sums are the same.
func (m *Matrix) Multiply(rows int, a, b, c unsafe.Pointer) {
	p := Product{Kind: BFloat16, LDA: m.LDA, LDC: m.LDC, Panels: m.Panels, LDB: Block * m.Words}
	for done := 0; done < rows; {
		first, second, n := Rows, Rows, min((rows-done)/MatrixRows, WorkPairs)
		if n == 0 {
			first, second, n = min(rows-done, Rows), max(0, rows-done-Rows), 1
		}
		for i := range n {
			m.tile(&m.Work.Pairs[i], 0, done, a, c)
			if done += first; second > 0 {
				m.tile(&m.Work.Pairs[i], 1, done, a, c)
				done += second
			}
		}
		m.multiply(&p, first, second, m.Work.Pairs[:n], b)
	}
}

// tile sets where a tile of a pair lies that begins with a row. The other is left alone: pointers never point behind what they are of.
func (m *Matrix) tile(p *Pair, i, row int, a, c unsafe.Pointer) {
	p.A[i], p.Start[i], p.C[i] = unsafe.Add(a, row*m.LDA), unsafe.Pointer(&m.Work.Start), unsafe.Add(c, row*m.LDC)
}

// multiply multiplies pairs of tiles of so many rows by all panels, some words of k after the other.
func (m *Matrix) multiply(p *Product, first, second int, list []Pair, b unsafe.Pointer) {
	p.Segments, p.LDS = m.Work.segment[:], 0
	for k := 0; k < m.Words; k += matrixWords {
		if p.Words = min(matrixWords, m.Words-k); k > 0 {
			p.Continue(list)
		}
		p.Segments[0] = 4 * k
		p.Run(first, second, list, unsafe.Add(b, Block*k))
	}
}
