package graph

import "fmt"

func inferConvert(c *Inference) error {
	in := c.Node.Inputs[0]
	c.SetType(0, in.Type)
	c.SetDims(0, in.Dims)
	return nil
}

// inferBody infers an operator that runs the region "body" once: inputs, captures and outputs are one to one.
func inferBody(c *Inference) error {
	body := c.Node.Region("body")
	if len(body.Inputs) != len(c.Node.Inputs) {
		return regionError(c.Node, "body", ErrArity, fmt.Sprintf("%d inputs", len(c.Node.Inputs)), fmt.Sprint(len(body.Inputs)))
	}
	if len(body.Outputs) != len(c.Node.Outputs) {
		return regionError(c.Node, "body", ErrArity, fmt.Sprintf("%d outputs", len(c.Node.Outputs)), fmt.Sprint(len(body.Outputs)))
	}
	for i, p := range body.Inputs {
		if v := c.Node.Inputs[i]; v != nil && v.Type.Kind != KindUnknown {
			p.Type, p.Dims = v.Type, v.Dims
		}
	}
	if err := inferRegion(c.Node, "body"); err != nil {
		return err
	}
	for i, v := range body.Outputs {
		c.SetType(i, v.Type)
		c.SetDims(i, v.Dims)
	}
	return nil
}
