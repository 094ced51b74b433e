package graph

// inferOptimizer: Adagrad, Adam and Momentum take a rate, a count, and then groups of n tensors: values, gradients and
// states; they return new values and states.
func inferOptimizer(c *Inference) error {
	groups, kept := 3, []int{0, 2}
	if c.Node.Op.Name == "Adam" {
		groups, kept = 4, []int{0, 2, 3}
	}
	n := (c.NumInputs() - 2) / groups
	if n <= 0 || (c.NumInputs()-2)%groups != 0 {
		return nodeError(c.Node, ErrArity, "2 inputs and groups of "+itoa(groups), itoa(c.NumInputs()))
	}
	for i := range c.NumOutputs() {
		if i/n >= len(kept) {
			return nodeError(c.Node, ErrArity, "at most "+itoa(n*len(kept))+" outputs", itoa(c.NumOutputs()))
		}
		c.SetType(i, c.Type(2+kept[i/n]*n+i%n))
	}
	return nil
}

// inferGradient: output i is the derivative by input i.
func inferGradient(c *Inference) error {
	if c.NumOutputs() > c.NumInputs() {
		return nodeError(c.Node, ErrArity, "no more outputs than inputs", itoa(c.NumOutputs()))
	}
	for i := range c.NumOutputs() {
		c.SetType(i, c.Type(i))
	}
	return nil
}
