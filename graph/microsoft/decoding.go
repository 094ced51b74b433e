package microsoft

import (
	"fmt"
	"math"
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// decodingOperators look at tokens that were generated, and at attention that says when they were spoken.
var decodingOperators = []operator{
	{name: "BifurcationDetector", schema: "in src_tokens:T cur_tokens:T prev_suffix_match_idx:T pred_tokens?:T\nout tokens:T suffix_match_idx:T\n" +
		"at max_ngram_size:int=3 min_ngram_size:int=1\nty T=int64", infer: inferBifurcation, eval: bifurcation},
	{name: "DynamicTimeWarping", schema: "in input:F\nout output:I\nty F=float I=int32", infer: func(c *graph.Inference) error {
		if s := c.Shape(0); s != nil && len(s) != 2 && (len(s) != 3 || !s[0].Is(1) && isNumber(s[0])) {
			return fmt.Errorf("%w: costs %v", ErrShape, s)
		}
		c.SetType(0, graph.TensorType(tensor.Int32, graph.Shape{graph.D(2), c.Fresh()}))
		return nil
	}, eval: timeWarping},
}

func isNumber(d graph.Dim) bool {
	_, ok := d.Const()
	return ok
}

func inferBifurcation(c *graph.Inference) error {
	least, most := c.Node.Int("min_ngram_size", 1), c.Node.Int("max_ngram_size", 3)
	if least < 1 || most < least {
		return fmt.Errorf("%w: sequences of %d to %d tokens", ErrAttribute, least, most)
	}
	n := c.Fresh()
	if s := c.Shape(1); !c.Has(3) && len(s) == 1 {
		n = s[0]
	}
	c.SetType(0, graph.TensorType(tensor.Int64, graph.Shape{n}))
	c.SetType(1, c.Type(2))
	return nil
}

// bifurcation appends those predicted tokens that the source has from a place on, and the one after them, and looks for the last tokens of
// the outcome in the source: the place behind them, where they are there once, else -1.
func bifurcation(c *call) error {
	var of [4][]int64
	for i := range of {
		if i == 3 && !c.has(3) {
			continue
		}
		t, err := c.input(i, -1)
		if err != nil {
			return err
		}
		if i != 2 && t.Rank() != 1 {
			return fmt.Errorf("%w: tokens %v", ErrShape, t)
		}
		if of[i], err = c.ints(i); err != nil {
			return err
		}
	}
	source, tokens, at, predicted := of[0], of[1], of[2], of[3]
	if len(at) != 1 {
		return fmt.Errorf("%w: a place %v", ErrShape, c.in[2])
	}
	if c.has(3) {
		if at[0] < 0 || at[0] > int64(len(source)) || int64(len(predicted)) != int64(len(source))+1-at[0] {
			return fmt.Errorf("%w: %d predicted tokens from %d of %d on", ErrShape, len(predicted), at[0], len(source))
		}
		same := 0
		for rest := source[at[0]:]; same < len(rest) && rest[same] == predicted[same]; {
			same++
		}
		tokens = append(tokens, predicted[:same+1]...)
	}
	c.out[0] = tensor.From(tokens, len(tokens))
	match := int64(-1)
	least, most := c.n.Int("min_ngram_size", 1), c.n.Int("max_ngram_size", 3)
	for n := least; n <= min(most, int64(len(tokens))); n++ {
		last := tokens[int64(len(tokens))-n:]
		first := indexOf(source, last)
		if first < 0 {
			break
		}
		if match = int64(first) + n; match >= int64(len(source)) {
			break
		}
		if indexOf(source[first+1:], last) >= 0 {
			match = -1
		}
	}
	t := tensor.From([]int64{match}, c.in[2].Shape...)
	c.out[1] = t
	return nil
}

// indexOf returns where part begins in x first, -1 where it does not.
func indexOf(x, part []int64) int {
	for i := range len(x) - len(part) + 1 {
		if slices.Equal(x[i:i+len(part)], part) {
			return i
		}
	}
	return -1
}

// timeWarping finds the path of least cost through a matrix, from one corner to the other: its rows, and its columns.
func timeWarping(c *call) error {
	x, err := c.input(0, -1)
	if err != nil {
		return err
	}
	rank := x.Rank()
	if rank != 2 && (rank != 3 || x.Shape[0] != 1) || x.Len() == 0 {
		return fmt.Errorf("%w: costs %v", ErrShape, x)
	}
	costs, err := c.floats(0)
	if err != nil {
		return err
	}
	rows, cols := x.Shape[rank-2], x.Shape[rank-1]
	const diagonal, up, left = 0, 1, 2
	came, sums := make([]byte, rows*cols), make([]float32, 2*(cols+1))
	before, now := sums[:cols+1], sums[cols+1:]
	inf := float32(math.Inf(1))
	for j := range before {
		before[j] = inf
	}
	before[0] = 0
	for i := range rows {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		now[0] = inf
		for j := range cols {
			least, from := now[j], byte(left) // of equal ones this, as ONNX Runtime has it
			switch d, u := before[j], before[j+1]; {
			case d < u && d < least:
				least, from = d, diagonal
			case u < d && u < least:
				least, from = u, up
			}
			now[j+1], came[i*cols+j] = costs[i*cols+j]+least, from
		}
		before, now = now, before
	}
	var path [2][]int32
	for i, j := rows-1, cols-1; i >= 0 && j >= 0; {
		path[0], path[1] = append(path[0], int32(i)), append(path[1], int32(j)) // dims of a tensor in memory
		from := came[i*cols+j]
		if from != left {
			i--
		}
		if from != up {
			j--
		}
	}
	slices.Reverse(path[0])
	slices.Reverse(path[1])
	c.out[0] = tensor.From(append(path[0], path[1]...), 2, len(path[0]))
	return nil
}
