package graph

import "fmt"

// inferMatMul: the product of the last two dims of inputs 0 and 1, the dims before broadcast; vectors as NumPy has it.
func inferMatMul(c *Inference) error { return c.matmul(0, 1) }

// inferQLinearMatMul: as MatMul, of inputs 0 and 3.
func inferQLinearMatMul(c *Inference) error { return c.matmul(0, 3) }

func (c *Inference) matmul(i, j int) error {
	a, b := c.Shape(i), c.Shape(j)
	if err := c.needRank(i, 1, anyRank); err != nil {
		return err
	}
	if err := c.needRank(j, 1, anyRank); err != nil {
		return err
	}
	if a == nil || b == nil {
		return c.SetShape(0, nil)
	}
	if len(a) == 1 {
		a = Shape{D(1), a[0]}
	}
	if len(b) == 1 {
		b = Shape{b[0], D(1)}
	}
	k := a[len(a)-1]
	if _, ok := sameDim(k, b[len(b)-2]); !ok {
		return c.shapeError(j, fmt.Sprintf("%v at axis %d", k, max(len(c.Shape(j))-2, 0)))
	}
	out, ok := broadcastDims(a[:len(a)-2], b[:len(b)-2])
	if !ok {
		return c.shapeError(j, "a shape that broadcasts with "+c.Shape(i).String())
	}
	if len(c.Shape(i)) > 1 {
		out = append(out, a[len(a)-2])
	}
	if len(c.Shape(j)) > 1 {
		out = append(out, b[len(b)-1])
	}
	return c.SetShape(0, out)
}

// inferGemm: A and B are matrices, transposed on demand; C broadcasts to the result.
func inferGemm(c *Inference) error {
	for i := range 2 {
		if err := c.needRank(i, 2, 2); err != nil {
			return err
		}
	}
	at := func(i int, name string) (rows, cols Dim) {
		s := c.Shape(i)
		if s == nil {
			return c.Fresh(), c.Fresh()
		}
		if c.Node.Int(name, 0) != 0 {
			return s[1], s[0]
		}
		return s[0], s[1]
	}
	m, k := at(0, "transA")
	k2, n := at(1, "transB")
	if _, ok := sameDim(k, k2); !ok {
		return c.shapeError(1, fmt.Sprintf("an inner dim of %v", k))
	}
	out := Shape{m, n}
	if c.Node.Schema.Since >= 7 {
		if err := c.broadcastTo(2, out); err != nil {
			return err
		}
	}
	return c.SetShape(0, out)
}

// inferEinsum: a subscript per dim and an ellipsis for the dims that broadcast.
func inferEinsum(c *Inference) error {
	text := c.Node.Str("equation", "")
	eq, err := ParseEinsum(text)
	if err != nil {
		return c.attrError("equation", "an equation of letters, commas, one -> and ellipses", capped(text))
	}
	if len(eq.Inputs) != c.NumInputs() {
		return c.attrError("equation", fmt.Sprintf("terms for %d inputs", c.NumInputs()), capped(text))
	}
	var dims [128]Dim
	var seen [128]bool
	var broad Shape
	known := true
	for i, term := range eq.Inputs {
		s := c.Shape(i)
		ell := 0
		if s != nil {
			if ell = len(s) - len(term.Before) - len(term.After); ell < 0 || ell > 0 && !term.Ellipsis {
				return c.shapeError(i, fmt.Sprintf("the rank of %q", term.String()))
			}
		} else if term.Ellipsis {
			known = false
		}
		bind := func(letters string, off int) error {
			for k := range len(letters) {
				l := letters[k]
				var d Dim
				if s == nil {
					if !seen[l] {
						dims[l] = c.Fresh()
					} else {
						continue
					}
				} else {
					d = s[off+k]
					if seen[l] {
						m, ok := broadcastDim(dims[l], d)
						if !ok {
							return c.shapeError(i, fmt.Sprintf("%v for %q", dims[l], string(l)))
						}
						d = m
					}
					dims[l] = d
				}
				seen[l] = true
			}
			return nil
		}
		if err := bind(term.Before, 0); err != nil {
			return err
		}
		if err := bind(term.After, len(term.Before)+ell); err != nil {
			return err
		}
		if s != nil && ell > 0 {
			var ok bool
			if broad, ok = broadcastDims(broad, s[len(term.Before):len(term.Before)+ell]); !ok {
				return c.shapeError(i, "ellipsis dims that broadcast with "+broad.String())
			}
		}
	}
	if eq.Output.Ellipsis && !known {
		return c.SetShape(0, nil)
	}
	out := Shape{}
	add := func(letters string) {
		for k := range len(letters) {
			out = append(out, dims[letters[k]])
		}
	}
	add(eq.Output.Before)
	if eq.Output.Ellipsis {
		out = append(out, broad...)
	}
	add(eq.Output.After)
	return c.SetShape(0, out)
}
