package cpu

import (
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/fuse"
	"github.com/carve-dev/carve/internal/kernel/quant"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// Products of 8-bit integers with sums of 32 bits. The rows of the first operand are widened to 16 bits, with their zero points taken
// off, in a step of their own; the second is packed in panels, as a format of constants or in a step; and chunks of the result
// are summed in scratch memory of a worker, from which what is fused behind the product makes results.

// Formats of the constant right operand of products of 8-bit integers: panels of 16 columns with pairs of k side by side.
var (
	pairedKN = mustFormat("BA16b2a") // of B[K, N]
	pairedNK = mustFormat("AB16a2b") // of B[N, K], transposed
)

// isByte reports whether v is a tensor of 8-bit integers.
func isByte(v *graph.Value) bool { return v != nil && v.Type.IsTensor() && byteDType(v.Type.DType) }

// integerOperand is an operand of a product: 8-bit integers, and their zero point.
type integerOperand struct {
	v, zero *graph.Value // zero is nil where it is 0
	at      place.Memory
}

func (p *planner) integerOperand(v, zero *graph.Value) integerOperand {
	return integerOperand{v: v, zero: zero, at: p.In(v)}
}

func (o *integerOperand) signed() bool { return o.v.Type.DType == tensor.Int8 }

// centred reports whether the zero point is known to be 0.
func (o *integerOperand) centred() bool {
	if o.zero == nil {
		return true
	}
	if !o.zero.IsConst() {
		return false
	}
	for i := range o.zero.Const.Len() {
		if o.zero.Const.Int64At(i) != 0 {
			return false
		}
	}
	return true
}

// zeroPoint returns zero point i, the last one for what is behind it.
func zeroPoint(b []byte, i int, signed bool) int {
	if len(b) == 0 {
		return 0
	}
	i = min(i, len(b)-1)
	if signed {
		return int(int8(b[i]))
	}
	return int(b[i])
}

// sums is a planned product, or a batch of products: C[batch, m, n] = A·B.
type sums struct {
	m, n, k int
	a, b, c []int // of each product: its first row in A and C, its matrix in B

	product quant.Product
	wide    place.Memory // A as 16-bit integers, rows of product.Pairs pairs
	rowSums place.Memory // of A, where B has zero points
	packed  place.Memory // B in panels
	zeros   place.Memory // zero points of B's columns as int32, in whole panels; nowhere where they are 0
}

// batches divides a product of operands of these dims, with the rules of MatMul.
func (s *sums) batches(da, db []int) {
	s.m, s.k, s.n = da[len(da)-2], da[len(da)-1], db[len(db)-1]
	if (operands{dimsB: db}).oneMatrix() {
		s.m *= product(da[:len(da)-2])
		s.a, s.b, s.c = []int{0}, []int{0}, []int{0}
		return
	}
	batch := batchDims(da[:len(da)-2], db[:len(db)-2])
	a := matricesAt(place.Memory{}, batch, da)
	b := matricesAt(place.Memory{}, batch, db)
	s.a, s.b = a.off, b.off
	for i := range s.a {
		s.a[i], s.b[i], s.c = s.a[i]/max(s.k, 1), s.b[i]/max(s.k*s.n, 1), append(s.c, i*s.m)
	}
}

// sums emits what a product of matrices needs before it is made: operands in the forms of the kernels. transposed says that B is
// a constant [N, K].
func (p *planner) sums(a, b integerOperand, da, db []int, transposed bool) *sums {
	s := &sums{}
	if transposed {
		db = []int{db[1], db[0]}
	}
	s.batches(da, db)
	pairs := quant.Pairs(s.k)
	s.product = quant.Product{Segments: []int{0}, Pairs: pairs, Signed: b.signed()}
	p.widenRows(s, a, product(da[:len(da)-1]), !b.centred())
	s.zeros = place.Nowhere
	if !b.centred() {
		s.zeros = p.columnZeros(b, s.n)
	}
	s.packed = b.at
	if b.v.Format == rowMaj {
		s.packed = p.packPanels(b.at, product(db[:len(db)-2]), s.k, s.n)
	}
	return s
}

// widenRows emits the widening of the rows of A, and their sums where they are asked for.
func (p *planner) widenRows(s *sums, a integerOperand, rows int, summed bool) {
	k, width := s.k, 2*s.product.Pairs
	dst, kernels, signed, src := p.Temp(2*rows*width), p.integers, a.signed(), a.at
	s.wide, s.rowSums = dst, place.Nowhere
	if summed {
		s.rowSums = p.Temp(4 * rows)
	}
	zero, total := p.In(a.zero), s.rowSums
	p.emit(step{chunks: rows, grain: grainFor(float64(k)*0.05 + 5), body: func(st *state, _, lo, hi int) {
		d, x, z, t := of[int16](st, dst), st.Bytes(src), st.Bytes(zero), of[int32](st, total)
		for r := lo; r < hi; r++ {
			row := d[r*width:][:width]
			kernels.Widen(row[:k], x[r*k:][:k], signed, zeroPoint(z, r%max(len(z), 1), signed))
			clear(row[k:])
			if t != nil {
				t[r] = kernels.Sum(row)
			}
		}
	}}, []place.Memory{src, zero}, []place.Memory{dst, total})
}

// columnZeros emits B's zero points as a vector with one for each column of its panels.
func (p *planner) columnZeros(b integerOperand, n int) place.Memory {
	src, dst, signed := p.In(b.zero), p.Temp(4*quant.Panel*quant.Panels(n)), b.signed()
	p.emit(step{serial: func(st *state) {
		z, d := st.Bytes(src), of[int32](st, dst)
		for i := range d {
			d[i] = int32(zeroPoint(z, i, signed))
		}
	}}, []place.Memory{src}, []place.Memory{dst})
	return dst
}

// packPanels emits the packing of matrices [k, n] of bytes.
func (p *planner) packPanels(src place.Memory, count, k, n int) place.Memory {
	pairs, kernels := quant.Pairs(k), p.integers
	size := quant.Panels(n) * quant.PanelBytes(pairs)
	dst := p.Temp(count * size)
	p.emit(step{chunks: count * pairs, grain: grainFor(float64(n)*0.3 + 10), body: func(st *state, _, lo, hi int) {
		d, s := st.Bytes(dst), st.Bytes(src)
		for i := lo; i < hi; i++ {
			kernels.PackPair(d[i/pairs*size:][:size], s[i/pairs*k*n:][:k*n], k, n, n, i%pairs)
		}
	}}, []place.Memory{src}, []place.Memory{dst})
	return dst
}

// finish makes results of sums: those of rows [row, row+rows) and columns [col, col+cols) of the result, whose rows lie ld apart in
// x. Behind the columns are sums of columns that there are not, up to a whole panel.
type finish func(st *state, x []int32, ld, row, rows, col, cols int)

// Bounds of a chunk of a product.
const (
	sumRows     = 48
	sumPanels   = 16
	sumProducts = 1 << 21 // products of a chunk: some 40 µs
)

// emitSums emits a product. done reads and writes what is given besides.
func (p *planner) emitSums(s *sums, done finish, reads, writes []place.Memory) {
	rows := min(sumRows, s.m)
	panels := quant.Panels(s.n)
	wide := min(max(sumProducts/max(rows*s.k*quant.Panel, 1), 1), sumPanels, panels)
	downs, acrosses := ceilDiv(s.m, rows), ceilDiv(panels, wide)
	s.product.LDC = wide * quant.Panel
	scratch := p.scratch(4 * rows * s.product.LDC)
	width, pairs := 2*s.product.Pairs, quant.PanelBytes(s.product.Pairs)
	offsets := make([]int, rows)
	for i := range offsets {
		offsets[i] = i * width
	}
	kernels, each := p.integers, downs*acrosses
	st := step{work: 1, chunks: len(s.a) * each, grain: grainFor(float64(rows*wide*quant.Panel*s.k)/50 + 50)}
	st.body = func(st *state, worker, lo, hi int) {
		a, b := of[int16](st, s.wide), st.Bytes(s.packed)
		zeros, rowSums, x := of[int32](st, s.zeros), of[int32](st, s.rowSums), scratch.of(st, worker)
		for i := lo; i < hi; i++ {
			one, at := i/each, i%each
			r0, p0 := at%downs*rows, at/downs*wide
			n, np := min(rows, s.m-r0), min(wide, panels-p0)
			first := s.a[one] + r0
			kernels.Multiply(&s.product, x, a[first*width:], offsets[:n], b[(s.b[one]*panels+p0)*pairs:], np)
			if zeros != nil {
				for r := range n {
					kernels.Subtract(x[r*s.product.LDC:][:np*quant.Panel], zeros[p0*quant.Panel:][:np*quant.Panel], rowSums[first+r])
				}
			}
			done(st, x, s.product.LDC, s.c[one]+r0, n, p0*quant.Panel, min(np*quant.Panel, s.n-p0*quant.Panel))
		}
	}
	p.emit(st, append([]place.Memory{s.wide, s.packed, s.zeros, s.rowSums}, reads...), append([]place.Memory{scratch.at}, writes...))
}

// scratch is memory of which each worker has a part.
type scratch struct {
	at   place.Memory
	size int // of a part, in bytes
}

// scratch returns memory of so many bytes for each worker.
func (p *planner) scratch(size int) scratch {
	size = ceilDiv(size, 64) * 64
	return scratch{p.Temp(size * p.e.threads), size}
}

// of returns a worker's part as int32.
func (s scratch) of(st *state, worker int) []int32 {
	return place.Elements[int32](st.Bytes(s.at.Part(worker*s.size, s.size)))
}

// keepSums is the finish of products whose result are the sums.
func keepSums(dst place.Memory, n int) finish {
	return func(st *state, x []int32, ld, row, rows, col, cols int) {
		d := of[int32](st, dst)
		for r := range rows {
			copy(d[(row+r)*n+col:][:cols], x[r*ld:])
		}
	}
}

// zeroFits reports whether a zero point is one number, or one for each of count rows or columns: a vector.
func zeroFits(zero *graph.Value, of tensor.DType, count graph.Dim) bool {
	if zero == nil {
		return true
	}
	if zero.Type.DType != of {
		return false
	}
	s := zero.Type.Shape
	one := true
	for _, d := range s {
		n, ok := d.Const()
		one = one && ok && n == 1
	}
	return one || len(s) == 1 && s[0].Equal(count)
}

// matrixShape returns the rows of a, its columns and those of b, of a product with the rules of MatMul.
func matrixShape(a, b graph.Shape) (rows, columns graph.Dim) {
	rows, columns = graph.D(1), graph.D(1)
	if len(a) > 1 {
		rows = a[len(a)-2]
	}
	if len(b) > 1 {
		columns = b[len(b)-1]
	}
	return rows, columns
}

// integerSignature says how a product of 8-bit integers reads its operands, at these places among its inputs.
func integerSignature(n *graph.Node, a, aZero, b, bZero int) (graph.Signature, *property.Reason) {
	va, vb := n.Input(a), n.Input(b)
	if !isByte(va) || !isByte(vb) {
		return graph.Signature{}, property.Because(property.DTypeReason, "integers of 8 bits only, found %v and %v", va.Type, vb.Type)
	}
	sa, sb := va.Type.Shape, vb.Type.Shape
	if len(sa) == 0 || len(sb) == 0 {
		return graph.Signature{}, property.Because(property.ShapeReason, "operands of rank %d and %d", len(sa), len(sb))
	}
	rows, columns := matrixShape(sa, sb)
	if !zeroFits(n.Input(aZero), va.Type.DType, rows) || !zeroFits(n.Input(bZero), vb.Type.DType, columns) {
		return graph.Signature{}, property.Because(property.Unsupported, "zero points are neither one number nor one for each row and column")
	}
	s := graph.UniformSignature("row-major", n, rowMaj)
	if fuse.IsConst(vb) && len(sb) == 2 {
		s.Name, s.Inputs[b] = "packed", graph.Fixed(pairedKN)
	}
	return s, nil
}

func matmulIntegerSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	s, why := integerSignature(n, 0, 2, 1, 3)
	if why != nil {
		return nil, why
	}
	return []graph.Signature{s}, nil
}

// matmulInteger emits what stands before the product of a MatMulInteger, whose operands these are.
func (p *planner) matmulInteger(in []*graph.Value) *sums {
	in = slices.Concat(in, []*graph.Value{nil, nil})[:4]
	da, db := matrixDims(p.Dims[in[0].ID], p.Dims[in[1].ID])
	return p.sums(p.integerOperand(in[0], in[2]), p.integerOperand(in[1], in[3]), da, db, false)
}

func planMatMulInteger(p *planner, n *graph.Node) error {
	dst, s := p.Out(n.Outputs[0]), p.matmulInteger(n.Inputs)
	p.emitSums(s, keepSums(dst, s.n), nil, []place.Memory{dst})
	return nil
}

func init() {
	table.Register("MatMulInteger", operator{Signatures: matmulIntegerSignatures, Plan: planMatMulInteger})
}
