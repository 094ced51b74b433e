package graph

import (
	"sync"

	"github.com/carve-dev/carve/graph/tensor"
)

// CheckOperands reports whether a run may give n these operands, nil standing for an omitted one: their types, shapes and
// contents satisfy the schema, as inference would find if they were constants. Nodes without a schema, and those with
// regions, pass. It changes nothing and costs about as much as InferNode. The error is that of InferNode.
func CheckOperands(n *Node, operands []tensor.Value) error {
	if n == nil {
		return errNilNode
	}
	if n.Schema == nil || n.Schema.Infer == nil || len(n.Regions) > 0 {
		return nil
	}
	c := operandChecks.Get().(*operandCheck)
	if err := c.infers.infer(c.node(n, operands)); err != nil {
		return err // which speaks of what is in c
	}
	c.clear()
	operandChecks.Put(c)
	return nil
}

// operandCheck is room for a check of operands.
type operandCheck struct {
	detachment
	infers Inference
	dims   []Dim // of the operands
}

// operandChecks are those that no call is using.
var operandChecks = sync.Pool{New: func() any { return &operandCheck{dims: make([]Dim, 0, 16)} }} // a scalar's shape is empty, not nil

// node returns a copy of n that has these operands.
func (c *operandCheck) node(n *Node, operands []tensor.Value) *Node {
	m := c.detachment.node(n.Name, len(n.Inputs), len(n.Outputs))
	m.Op, m.Attrs, m.Schema = n.Op, n.Attrs, n.Schema
	c.dims = c.dims[:0]
	for i, was := range n.Inputs {
		if was == nil || i >= len(operands) || operands[i] == nil {
			continue
		}
		v := c.operand(i)
		v.Name, v.Type = was.Name, withoutShape(was.Type)
		if t, ok := operands[i].(*tensor.Tensor); ok && t != nil {
			v.Type = TensorType(t.DType, c.shape(t.Shape))
			if t.Device.IsHost() && t.IsCompact() {
				v.Const, v.Dims = t, constDims(t)
			}
		}
	}
	for i, was := range n.Outputs {
		if was != nil {
			c.result(i, was.Name, was.Type)
		}
	}
	return m
}

// shape returns a shape of these dims, which is not nil.
func (c *operandCheck) shape(dims []int) Shape {
	from := len(c.dims)
	for _, d := range dims {
		c.dims = append(c.dims, D(d))
	}
	return c.dims[from:len(c.dims):len(c.dims)]
}
