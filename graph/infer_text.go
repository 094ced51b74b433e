package graph

import "fmt"

// inferStringNormalizer: [C] or [1, C] with stop words removed.
func inferStringNormalizer(c *Inference) error {
	if err := c.needRank(0, 1, 2); err != nil {
		return err
	}
	in := c.Shape(0)
	if in == nil || len(c.Node.Strs("stopwords")) == 0 {
		return c.SetShape(0, in)
	}
	out := append(Shape{}, in...)
	out[len(out)-1] = c.Fresh()
	return c.SetShape(0, out)
}

// inferStringSplit: the parts of each string in one more dim, and their number.
func inferStringSplit(c *Inference) error {
	in := c.Shape(0)
	if in == nil {
		return c.SetShape(1, nil)
	}
	if err := c.SetShape(0, append(append(Shape{}, in...), c.Fresh())); err != nil {
		return err
	}
	return c.SetShape(1, in)
}

// inferTfIdfVectorizer: [C] or [N, C] gives one number per n-gram.
func inferTfIdfVectorizer(c *Inference) error {
	if err := c.needRank(0, 1, 2); err != nil {
		return err
	}
	idx, _ := c.Node.Ints("ngram_indexes")
	n := int64(0)
	for _, i := range idx {
		if i < 0 || i > maxExtent {
			return c.attrError("ngram_indexes", "numbers of at least 0", i)
		}
		n = max(n, i+1)
	}
	in := c.Shape(0)
	switch len(in) {
	case 2:
		return c.SetShape(0, Shape{in[0], Dim{c: n}})
	case 1:
		return c.SetShape(0, Shape{Dim{c: n}})
	}
	return c.SetShape(0, nil)
}

// inferImageDecoder: [height, width, channels].
func inferImageDecoder(c *Inference) error {
	if err := c.needRank(0, 1, 1); err != nil {
		return err
	}
	channels := 3
	switch f := c.Node.Str("pixel_format", "RGB"); f {
	case "RGB", "BGR":
	case "Grayscale":
		channels = 1
	default:
		return c.attrError("pixel_format", "RGB, BGR or Grayscale", fmt.Sprintf("%q", f))
	}
	return c.SetShape(0, Shape{c.Fresh(), c.Fresh(), D(channels)})
}
