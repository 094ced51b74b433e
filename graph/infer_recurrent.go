package graph

import "fmt"

// inferRecurrent: RNN, GRU and LSTM over X [seq, batch, input], or [batch, seq, input] with layout 1. Y is
// [seq, directions, batch, hidden] ([batch, seq, directions, hidden]), Y_h and Y_c are [directions, batch, hidden]
// ([batch, directions, hidden]).
func inferRecurrent(c *Inference) error {
	for i, rank := range recurrentRanks {
		if err := c.needRank(i, rank, rank); err != nil {
			return err
		}
	}
	directions := 1
	switch d := c.Node.Str("direction", "forward"); d {
	case "forward", "foward", "reverse":
	case "bidirectional":
		directions = 2
	default:
		return c.attrError("direction", "forward, reverse or bidirectional", d)
	}
	gates := map[string]int64{"RNN": 1, "GRU": 3, "LSTM": 4}[c.Node.Op.Name]
	for i := 1; i < 3; i++ {
		if err := c.needDim(i, 0, D(directions)); err != nil {
			return err
		}
	}
	hidden := c.dim(2, 2)
	if c.Shape(2) == nil {
		if w := c.Shape(1); w != nil {
			hidden = w[1].FloorDiv(Dim{c: gates})
		}
	}
	if a := c.Node.Attrs.Lookup("hidden_size"); a != nil {
		m, ok := sameDim(Dim{c: a.Int}, hidden)
		if !ok || a.Int < 0 {
			return c.attrError("hidden_size", hidden.String(), a.Int)
		}
		hidden = m
	}
	for i := 1; i < 3; i++ {
		if err := c.needDim(i, 1, hidden.Scale(gates)); err != nil {
			return err
		}
	}
	if err := needMatrix(c, 3, D(directions), hidden.Scale(2*gates)); err != nil { // biases
		return err
	}
	if err := needMatrix(c, 7, D(directions), hidden.Scale(3)); err != nil { // peepholes
		return err
	}
	if w := c.Shape(1); w != nil {
		if err := c.needDim(0, 2, w[2]); err != nil {
			return err
		}
	}
	layout := c.Node.Int("layout", 0)
	if layout != 0 && layout != 1 {
		return c.attrError("layout", "0 or 1", layout)
	}
	seq, batch := c.dim(0, 0), c.dim(0, 1)
	if layout == 1 {
		seq, batch = batch, seq
	}
	if err := c.needDim(4, 0, batch); err != nil {
		return err
	}
	dirs := D(directions)
	y, last := Shape{seq, dirs, batch, hidden}, Shape{dirs, batch, hidden}
	if layout == 1 {
		y, last = Shape{batch, seq, dirs, hidden}, Shape{batch, dirs, hidden}
	}
	if err := needStates(c, last); err != nil {
		return err
	}
	if err := c.SetShape(0, y); err != nil {
		return err
	}
	if err := c.SetShape(1, last); err != nil {
		return err
	}
	return c.SetShape(2, last)
}

// needStates verifies the initial states.
func needStates(c *Inference, want Shape) error {
	for i := 5; i < 7; i++ { // initial_h and initial_c
		s := c.Shape(i)
		if s == nil {
			continue
		}
		if len(s) != 3 {
			return c.shapeError(i, "rank 3")
		}
		for k := range s {
			if _, ok := sameDim(s[k], want[k]); !ok {
				return c.shapeError(i, fmt.Sprint(want))
			}
		}
	}
	return nil
}

// needMatrix verifies that input i, where it is given, is a matrix of these dims.
func needMatrix(c *Inference, i int, rows, columns Dim) error {
	if err := c.needRank(i, 2, 2); err != nil {
		return err
	}
	if err := c.needDim(i, 0, rows); err != nil {
		return err
	}
	return c.needDim(i, 1, columns)
}

// recurrentRanks are the ranks of X, W, R, B and sequence_lens.
var recurrentRanks = [...]int{3, 3, 3, 2, 1}
