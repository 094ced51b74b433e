package graph

import "github.com/carve-dev/carve/graph/tensor"

// scaleGrams makes the product n of the counts x that a TfIdfVectorizer makes and a constant per counter that vectorizer's weights, as
// what it counts is often weighed behind it. Each count is a whole number, so that the product is rounded once, as before. Weights
// below zero stay: what is not there would be -0.
func (s *simplifier) scaleGrams(n *Node, x, c *Value) {
	p := x.Producer
	if x.Type.DType != tensor.Float32 || c.Type.DType != tensor.Float32 || len(x.Type.Shape) != 2 || !onlyFirst(n) || x.Format != n.Outputs[0].Format {
		return
	}
	width, ok := x.Type.Shape[1].Const()
	if !ok || int64(c.Const.Len()) != width { // a number for each of very many would be a list of as many
		return
	}
	by := perChannel(c, int(width), 2)
	at, _ := p.Ints("ngram_indexes")
	if by == nil || !finite(by) || !plainGrams(p, len(at)) {
		return
	}
	weights := make([]float32, len(at))
	for i, counter := range at {
		if counter < 0 || counter >= width || by[counter] < 0 {
			return
		}
		weights[i] = float32(by[counter])
	}
	if p.Str("mode", "TF") == "TF" {
		p.Attrs = p.Attrs.With(StringAttr("mode", "TFIDF"))
	}
	p.Attrs = p.Attrs.With(FloatsAttr("weights", weights...))
	out := n.Outputs[0]
	s.replace(out, x)
	s.absorb(p, n)
	s.g.Remove(n)
}

// plainGrams reports whether the weights of a vectorizer's n-grams are all 1.
func plainGrams(p *Node, grams int) bool {
	switch p.Str("mode", "TF") {
	case "TF":
		return true
	case "IDF", "TFIDF":
	default:
		return false
	}
	weights := p.Floats("weights")
	if weights != nil && len(weights) != grams {
		return false
	}
	for _, w := range weights {
		if w != 1 {
			return false
		}
	}
	return true
}
