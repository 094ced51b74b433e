package microsoft

import (
	"fmt"
	"math"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// sparseAttention is GroupQueryAttention whose queries see the keys of some blocks alone: rows of a matrix of blocks that is given by the
// places of what is set, one matrix for each of some heads in turn.
var sparseAttention = operator{
	name: "SparseAttention",
	schema: "in query:T key?:T value?:T past_key:T past_value:T block_row_indices:M block_col_indices:M total_sequence_length:M key_total_sequence_lengths:M " +
		"cos_cache?:T sin_cache?:T\nout output:T present_key:T present_value:T\nat do_rotary:int kv_num_heads:int! num_heads:int! rotary_interleaved:int " +
		"scale:float sparse_block_size:int!\nty T=bfloat16,float,float16 M=int32",
	infer: inferSparse, eval: evalSparse,
}

// sparseInputs are the places of GroupQueryAttention's operands among those of SparseAttention, -1 where it has none.
var sparseInputs = [GQAInputs]int{0, 1, 2, 3, 4, 8, 7, 9, 10, -1, -1, -1, -1, -1, -1, -1}

const sparseRows, sparseColumns = 5, 6

func inferSparse(c *graph.Inference) error {
	heads, kv, err := groupHeads(c.Node)
	if err != nil {
		return err
	}
	if b := c.Node.Int("sparse_block_size", 0); b < 1 || b > 1<<20 {
		return fmt.Errorf("%w: blocks of %d", ErrAttribute, b)
	}
	if q := c.Shape(0); q != nil {
		if len(q) != 3 {
			return fmt.Errorf("%w: queries of rank %d", ErrShape, len(q))
		}
		width := q[2]
		if !c.Has(1) {
			width = width.FloorDiv(graph.D(int(heads + 2*kv))).Scale(heads)
		}
		c.SetType(0, graph.TensorType(c.DType(0), graph.Shape{q[0], q[1], width}))
	}
	c.SetType(1, c.Type(3))
	c.SetType(2, c.Type(4))
	return nil
}

// blockMask says which blocks of keys a block of queries sees.
type blockMask struct {
	layouts, blocks, size int
	set                   []bool // [layouts, blocks, blocks]
}

// sees reports whether the query at row sees the key at column.
func (m *blockMask) sees(head, row, column int) bool {
	return m == nil || m.set[(head%m.layouts*m.blocks+row/m.size)*m.blocks+column/m.size]
}

// blockMask reads the places of blocks: where each row begins, and the columns of what is set in it.
func (c *call) blockMask() (*blockMask, error) {
	rows, err := c.input(sparseRows, 2)
	if err != nil {
		return nil, err
	}
	columns, err := c.input(sparseColumns, 2)
	if err != nil {
		return nil, err
	}
	begins, err := c.ints(sparseRows)
	if err != nil {
		return nil, err
	}
	at, err := c.ints(sparseColumns)
	if err != nil {
		return nil, err
	}
	bad := fmt.Errorf("%w: places of blocks %v and %v", ErrShape, rows, columns)
	m := &blockMask{layouts: rows.Shape[0], blocks: rows.Shape[1] - 1, size: int(c.n.Int("sparse_block_size", 0))}
	if m.layouts < 1 || m.blocks < 1 || columns.Shape[0] != m.layouts || m.layouts*m.blocks > 1<<30/m.blocks {
		return nil, bad
	}
	m.set = make([]bool, m.layouts*m.blocks*m.blocks)
	for i := range m.layouts * m.blocks {
		layout, row := i/m.blocks, i%m.blocks
		from, to := begins[layout*(m.blocks+1)+row], begins[layout*(m.blocks+1)+row+1]
		if from < 0 || to < from || to > int64(columns.Shape[1]) {
			return nil, bad
		}
		for _, x := range at[layout*columns.Shape[1]:][from:to] {
			if x < 0 || x >= int64(m.blocks) {
				return nil, bad
			}
			m.set[i*m.blocks+int(x)] = true
		}
	}
	return m, nil
}

func evalSparse(c *call) error {
	m, err := c.blockMask()
	if err != nil {
		return err
	}
	in := *c
	in.in = make([]*tensor.Tensor, GQAInputs)
	for i, from := range sparseInputs {
		if c.has(from) {
			in.in[i] = c.in[from]
		}
	}
	lengths, err := c.input(8, 1)
	if err != nil {
		return err
	}
	less := make([]int32, lengths.Len()) // that operator has them less one
	for i := range less {
		less[i] = int32(min(max(lengths.Int64At(i), math.MinInt32+1), math.MaxInt32) - 1) // in range
	}
	in.in[GQALengths] = tensor.From(less, len(less))
	return groupQuery(&in, m)
}
