package cpu

import (
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/fuse"
	"github.com/carve-dev/carve/internal/kernel/gemm"
	"github.com/carve-dev/carve/internal/kernel/quant"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// Products of 8-bit integers with sums of 32 bits. Kernels multiply signed integers by unsigned ones: where both operands are alike,
// the first is shifted by 128, its zero point with it, in a step of its own, in which rows that are no quads get whole ones. The
// second is packed in panels, as a format of constants or in a step; and chunks of the result are summed in scratch memory of a
// worker, from which what is fused behind the product makes results. Sums begin with what the zero point of the first operand
// takes off, which the sums of the second's columns say.

// Formats of the constant right operand of products of 8-bit integers: panels of 16 columns with quads of k side by side.
var (
	quadsKN = mustFormat("BA16b4a") // of B[K, N]
	quadsNK = mustFormat("AB16a4b") // of B[N, K], transposed
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

// constant reports whether elements and zero point are constant.
func (o *integerOperand) constant() bool { return o.v.IsConst() && (o.zero == nil || o.zero.IsConst()) }

// constants returns these.
func (o *integerOperand) constants() (elements, zeros []byte) {
	if o.zero != nil {
		zeros = o.zero.Const.Bytes()
	}
	return o.v.Const.Bytes(), zeros
}

// constantZero returns the zero point where it is one constant number.
func (o *integerOperand) constantZero() (zero int, ok bool) {
	if o.zero == nil {
		return 0, true
	}
	if !o.zero.IsConst() || o.zero.Const.Len() != 1 {
		return 0, false
	}
	return zeroPoint(o.zero.Const.Bytes(), 0, o.signed()), true
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

// shift returns what is added to the elements of a product's first operand, and to its zero point, so that one operand is signed and
// the other is not.
func shift(a, b bool) int {
	switch {
	case a != b:
		return 0
	case a:
		return 128
	}
	return -128
}

// one reports whether the zero point is one number.
func (o *integerOperand) one() bool {
	if o.zero == nil {
		return true
	}
	for _, d := range o.zero.Type.Shape {
		if n, ok := d.Const(); !ok || n != 1 {
			return false
		}
	}
	return true
}

// sums is a planned product, or a batch of products: C[batch, m, n] = A·B.
type sums struct {
	m, n, k int
	a, b, c []int // of each product: its first row in A and C, its matrix in B

	product quant.Product
	rows    place.Memory // of A, product.Quads quads each
	rowSums place.Memory // of A about its zero points, where B has zero points
	packed  place.Memory // B in panels
	columns place.Memory // sums of B's columns, of each matrix in whole panels, where B is not constant
	summed  []int32      // the same, where it is
	starts  place.Memory // what the sums of columns begin with, of each matrix
	offs    place.Memory // zero points of A's rows, where it has several
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
func (p *planner) sums(a, b integerOperand, da, db []int, transposed bool) (*sums, error) {
	s := &sums{rowSums: place.Nowhere, columns: place.Nowhere, offs: place.Nowhere, zeros: place.Nowhere}
	if transposed {
		db = []int{db[1], db[0]}
	}
	s.batches(da, db)
	s.product = quant.Product{Segments: []int{0}, Quads: quant.Quads(s.k), Signed: b.signed()}
	matrices := product(db[:len(db)-2])
	p.wholeRows(s, a, product(da[:len(da)-1]), !b.centred())
	if !b.centred() {
		s.zeros = p.columnZeros(b, s.n)
	}
	s.packed = b.at
	if b.v.Format == rowMaj {
		s.packed = p.packPanels(b.at, matrices, s.k, s.n)
	}
	if err := p.columnSums(s, b, matrices); err != nil {
		return nil, err
	}
	p.startSums(s, a, matrices)
	return s, nil
}

// wholeRows emits rows of A in whole quads, of the signedness that B's is not, and their sums about their zero points where they are
// asked for.
func (p *planner) wholeRows(s *sums, a integerOperand, rows int, summed bool) {
	k, width, by := s.k, 4*s.product.Quads, shift(a.signed(), s.product.Signed)
	copied := k != width || by != 0
	if s.rows = a.at; copied {
		s.rows = p.Temp(rows * width)
	} else if !summed {
		return
	}
	if summed {
		s.rowSums = p.Temp(4 * rows)
	}
	src, dst, writes := a.at, s.rows, []place.Memory{s.rowSums}
	if copied {
		writes = append(writes, dst)
	}
	zero, total, kernels, signed := p.In(a.zero), s.rowSums, p.integers, a.signed()
	p.emit(step{chunks: rows, grain: grainFor(float64(k)*0.03 + 5), body: func(st *state, _, lo, hi int) {
		x, z, t := st.Bytes(src), st.Bytes(zero), of[int32](st, total)
		for r := lo; r < hi; r++ {
			from := x[r*k:][:k]
			if copied {
				to := st.Bytes(dst)[r*width:][:width]
				if by != 0 {
					kernels.Flip(to, from)
				} else {
					copy(to, from)
				}
				clear(to[k:])
			}
			if t != nil {
				t[r] = kernels.Sum(from, signed) - int32(k*zeroPoint(z, r%max(len(z), 1), signed))
			}
		}
	}}, []place.Memory{src, zero}, writes)
}

// columnSums emits the sums of B's columns, or makes them once where B is constant.
func (p *planner) columnSums(s *sums, b integerOperand, matrices int) (err error) {
	panels, quads, kernels, signed := quant.Panels(s.n), s.product.Quads, p.integers, s.product.Signed
	sum := func(dst []int32, packed []byte, m int) {
		kernels.ColumnSums(dst[m*panels*quant.Panel:], packed[m*panels*quant.PanelBytes(quads):], quads, panels, signed)
	}
	if b.v.IsConst() && matrices == 1 {
		s.summed, err = keep(p.e, p.Node, func() ([]int32, error) {
			out, packed := make([]int32, panels*quant.Panel), b.v.Const.Data[b.v.Const.Offset:]
			if b.v.Format == rowMaj {
				packed = make([]byte, panels*quant.PanelBytes(quads))
				kernels.Pack(packed, b.v.Const.Bytes(), s.k, s.n, s.n)
			}
			sum(out, packed, 0)
			return out, nil
		})
		return err
	}
	s.columns = p.Temp(4 * matrices * panels * quant.Panel)
	src, dst := s.packed, s.columns
	p.emit(step{chunks: matrices, grain: grainFor(float64(quads*panels) * 2), body: func(st *state, _, lo, hi int) {
		for m := lo; m < hi; m++ {
			sum(of[int32](st, dst), st.Bytes(src), m)
		}
	}}, []place.Memory{src}, []place.Memory{dst})
	return nil
}

// startSums emits what the sums of columns begin with: minus A's zero point, times the sums of the columns; 0 where A has several
// zero points.
func (p *planner) startSums(s *sums, a integerOperand, matrices int) {
	width := matrices * quant.Panels(s.n) * quant.Panel
	s.starts = p.Temp(4 * width)
	by, one, signed := shift(a.signed(), s.product.Signed), a.one(), a.signed()
	columns, dst, zero, kernels := s.columns, s.starts, p.In(a.zero), p.integers
	if !one {
		s.offs = p.Temp(4 * a.zeros(p))
	}
	offs := s.offs
	p.emit(step{serial: func(st *state) {
		d, z, sums := of[int32](st, dst), st.Bytes(zero), s.columnSumsOf(st, columns)
		clear(d)
		if one {
			kernels.Subtract(d, sums[:len(d)], int32(zeroPoint(z, 0, signed)+by))
			return
		}
		for i, o := 0, of[int32](st, offs); i < len(o); i++ {
			o[i] = int32(zeroPoint(z, i, signed) + by)
		}
	}}, []place.Memory{columns, zero}, []place.Memory{dst, offs})
}

// zeros returns the number of zero points.
func (o *integerOperand) zeros(p *planner) int { return product(p.Dims[o.zero.ID]) }

// columnSumsOf returns the sums of B's columns.
func (s *sums) columnSumsOf(st *state, columns place.Memory) []int32 {
	if s.summed != nil {
		return s.summed
	}
	return of[int32](st, columns)
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
	quads, kernels := quant.Quads(k), p.integers
	size := quant.Panels(n) * quant.PanelBytes(quads)
	dst := p.Temp(count * size)
	p.emit(step{chunks: count * quads, grain: grainFor(float64(n)*0.5 + 10), body: func(st *state, _, lo, hi int) {
		d, s := st.Bytes(dst), st.Bytes(src)
		for i := lo; i < hi; i++ {
			kernels.PackQuad(d[i/quads*size:][:size], s[i/quads*k*n:][:k*n], k, n, n, i%quads)
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
	tileRows    = 128 // where tiles are multiplied
	sumPanels   = 8
	sumProducts = 1 << 22          // products of a chunk: some 20 to 100 µs
	tileFactor  = 4                // tiles take so many more in a chunk
	sumWide     = 4                // panels that are multiplied at a time by the widest kernels
	sumMost     = 16               // panels, where rows are prepared for each chunk
	sumOnce     = 2 * quant.Height // rows of which a chunk takes more panels then, up to as many sums as of sumRows: they read each panel once, near or not
)

// panelsOf returns how many of so many panels a chunk of rows takes, k products deep, of all rows of a product.
func (p *planner) panelsOf(panels, rows, k, all int) int {
	products, most := sumProducts, sumPanels
	if p.integers.Tiles() {
		products *= tileFactor
	}
	if p.integers.Prepares() {
		products, most = max(products, all*panels*quant.Panel*k/(4*p.e.threads)), sumMost
		if rows <= sumOnce {
			most *= sumRows / max(rows, 1)
			if p.e.threads > 1 { // they share what is less than a chunk of products, too
				most = min(most, max(sumMost, panels*all/max(4*p.e.threads*rows, 1)))
			}
		}
	}
	return min(max(products/max(rows*k*quant.Panel*sumWide, 1), 1)*sumWide, most, panels)
}

// rowsOf returns how many of so many rows a chunk takes whose sums are stored: some of one number, where it is about as many that are best.
func (p *planner) rowsOf(rows int) int {
	if !p.integers.Tiles() {
		return min(sumRows, rows)
	}
	return ceilDiv(rows, max(ceilDiv(rows, tileRows), 1))
}

// productGrain is the grain of chunks of a product of so many rows and columns, k products deep.
func (p *planner) productGrain(rows, columns, k int) int {
	const perNano, byTiles = 100, 800 // products
	speed := perNano
	if p.integers.Tiles() && rows >= quant.Panel {
		speed = byTiles
	}
	return grainFor(float64(rows*columns*k)/float64(speed) + 50)
}

// sumsPart is a part of a product: rows of A at these offsets, panels of B, and where they are in the whole.
type sumsPart struct {
	a, b       []byte
	at         []int
	start      []int32
	first, row int // of A, of the result
	of, panels int // the first of all matrices', and how many
	col, cols  int
}

// emitParts emits a product in parts of so many rows, at most. run makes the results of one; it reads and writes what is given besides.
func (p *planner) emitParts(s *sums, rows int, run func(st *state, worker int, part sumsPart), reads, writes []place.Memory) {
	panels := quant.Panels(s.n)
	wide := p.panelsOf(panels, rows, s.k, s.m*len(s.a))
	downs, acrosses := ceilDiv(s.m, rows), ceilDiv(panels, wide)
	s.product.LDC = wide * quant.Panel
	width, size := 4*s.product.Quads, quant.PanelBytes(s.product.Quads)
	offsets := make([]int, rows)
	for i := range offsets {
		offsets[i] = i * width
	}
	each, own := downs*acrosses, downs
	if gemm.OwnRows(p.target, s.m*width, panels*size, s.m*s.n) {
		own = ceilDiv(downs, max(p.e.threads, 1))
	}
	st := step{work: 1, chunks: len(s.a) * each, grain: p.productGrain(rows, wide*quant.Panel, s.k)}
	st.body = func(st *state, worker, lo, hi int) {
		a, b, starts := st.Bytes(s.rows), st.Bytes(s.packed), of[int32](st, s.starts)
		for i := lo; i < hi; i++ {
			one, at := i/each, i%each
			share := at / (own * acrosses)
			at -= share * own * acrosses
			high := min(own, downs-share*own)
			row, panel := (share*own+at%high)*rows, at/high*wide
			part := sumsPart{first: s.a[one] + row, row: s.c[one] + row, of: s.b[one]*panels + panel, panels: min(wide, panels-panel),
				at: offsets[:min(rows, s.m-row)], col: panel * quant.Panel}
			part.a, part.b, part.start = a[part.first*width:], b[part.of*size:], starts[part.of*quant.Panel:]
			part.cols = min(part.panels*quant.Panel, s.n-part.col)
			run(st, worker, part)
		}
	}
	p.emit(st, append([]place.Memory{s.rows, s.packed, s.columns, s.starts, s.offs, s.zeros, s.rowSums}, reads...), writes)
}

// emitSums emits a product. done reads and writes what is given besides.
func (p *planner) emitSums(s *sums, done finish, reads, writes []place.Memory) {
	rows := p.rowsOf(s.m)
	scratch := p.scratch(4 * rows * p.panelsOf(quant.Panels(s.n), rows, s.k, s.m*len(s.a)) * quant.Panel)
	kernels := p.integers
	p.emitParts(s, rows, func(st *state, worker int, part sumsPart) {
		x := scratch.of(st, worker)
		product := s.product
		product.Columns = s.columnSumsOf(st, s.columns)[part.of*quant.Panel:][:part.panels*quant.Panel]
		kernels.Multiply(&product, x, part.a, part.at, part.b, part.start, part.panels)
		s.takeOff(st, kernels, x, &part)
		done(st, x, s.product.LDC, part.row, len(part.at), part.col, part.cols)
	}, reads, append([]place.Memory{scratch.at}, writes...))
}

// takeOff takes off the sums of a part what zero points of rows and of columns add.
func (s *sums) takeOff(st *state, kernels quant.Kernels, x []int32, part *sumsPart) {
	width := part.panels * quant.Panel
	if offs := of[int32](st, s.offs); offs != nil {
		sums := s.columnSumsOf(st, s.columns)[part.of*quant.Panel:][:width]
		for r := range part.at {
			kernels.Subtract(x[r*s.product.LDC:][:width], sums, offs[(part.first+r)%len(offs)])
		}
	}
	if zeros := of[int32](st, s.zeros); zeros != nil {
		z, rowSums := zeros[part.col:][:width], of[int32](st, s.rowSums)
		for r := range part.at {
			kernels.Subtract(x[r*s.product.LDC:][:width], z, rowSums[part.first+r])
		}
	}
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

// floats returns a worker's part as float32.
func (s scratch) floats(st *state, worker int) []float32 {
	return st.F32(s.at.Part(worker*s.size, s.size))
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
		s.Name, s.Inputs[b] = "packed", graph.Fixed(quadsKN)
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
func (p *planner) matmulInteger(in []*graph.Value) (*sums, error) {
	in = slices.Concat(in, []*graph.Value{nil, nil})[:4]
	da, db := matrixDims(p.Dims[in[0].ID], p.Dims[in[1].ID])
	return p.sums(p.integerOperand(in[0], in[2]), p.integerOperand(in[1], in[3]), da, db, false)
}

func planMatMulInteger(p *planner, n *graph.Node) error {
	dst := p.Out(n.Outputs[0])
	s, err := p.matmulInteger(n.Inputs)
	if err != nil {
		return err
	}
	p.emitSums(s, keepSums(dst, s.n), nil, []place.Memory{dst})
	return nil
}

func init() {
	table.Register("MatMulInteger", operator{Signatures: matmulIntegerSignatures, Plan: planMatMulInteger})
}
