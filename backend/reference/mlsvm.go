package reference

import (
	"math"

	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/coupling"
)

var svmKernels = []kernel{
	{"SVMRegressor", 1, svmRegressor},
	{"SVMClassifier", 1, svmClassifier},
}

// svm is a support vector machine: vectors [n, features], and the kernel function with its parameters.
type svm struct {
	vectors             []float64
	n, features         int
	kind                string
	gamma, coef0, power float64
}

func (c *Call) svm(n int) *svm {
	_, features := c.rowsAndColumns()
	s := &svm{n: n, features: features, kind: c.Node.Str("kernel_type", "LINEAR")}
	switch s.kind {
	case "LINEAR", "POLY", "RBF", "SIGMOID":
	default:
		c.fail("kernel_type", ErrAttribute, "%q", s.kind)
	}
	if p := c.Node.Floats("kernel_params"); len(p) >= 3 {
		s.gamma, s.coef0, s.power = float64(p[0]), float64(p[1]), float64(p[2])
	}
	for _, f := range c.Node.Floats("support_vectors") {
		s.vectors = append(s.vectors, float64(f))
	}
	if n > 0 && (len(s.vectors)%n != 0 || len(s.vectors)/n != features) {
		c.fail("support_vectors", ErrAttribute, "%d numbers for %d vectors of %d features", len(s.vectors), n, features)
	}
	return s
}

// kernel returns the kernel function of two vectors.
func (s *svm) kernel(a, b []float64) float64 {
	dot := 0.0
	for i, x := range a {
		if s.kind == "RBF" {
			dot += (x - b[i]) * (x - b[i])
		} else {
			dot += x * b[i]
		}
	}
	switch s.kind {
	case "POLY":
		return math.Pow(s.gamma*dot+s.coef0, s.power)
	case "RBF":
		return math.Exp(-s.gamma * dot)
	case "SIGMOID":
		return math.Tanh(s.gamma*dot + s.coef0)
	}
	return dot
}

// kernels returns the kernel function of a row and every vector.
func (s *svm) kernels(c *Call, row []float64) []float64 {
	out := make([]float64, s.n)
	for i := range out {
		out[i] = s.kernel(row, s.vectors[i*s.features:][:s.features])
	}
	c.spend(s.n * (s.features + 8))
	return out
}

func svmRegressor(c *Call) {
	count := c.Node.Int("n_supports", 0)
	if count < 0 || count > 1<<30 {
		c.fail("n_supports", ErrAttribute, "%d", count)
	}
	s := c.svm(int(count))
	coef, rho := c.numbers("coefficients"), c.numbers("rho")
	if len(rho) == 0 {
		rho = []float64{0}
	}
	want := s.n
	if s.n == 0 {
		want = s.features
	}
	c.require(len(coef) == want, "coefficients", "%d for %d", len(coef), want)
	n, _ := c.rowsAndColumns()
	v := c.floats(0)
	out := c.floatBuffer(n, 1)
	for r := range out {
		row := v[r*s.features:][:s.features]
		terms := row
		if s.n > 0 {
			terms = s.kernels(c, row)
		}
		out[r] = rho[0]
		for i, k := range terms {
			out[r] += coef[i] * k
		}
		if c.Node.Int("one_class", 0) != 0 {
			if out[r] > 0 {
				out[r] = 1
			} else {
				out[r] = -1
			}
		}
		c.postTransform(out[r:r+1], c.Node.Str("post_transform", "NONE"))
	}
	c.putFloats(0, tensor.Float32, []int{n, 1}, out)
}

// svmClassifier lets every pair of classes vote, or, without support vectors, scores classes by linear functions. With
// prob_a and prob_b scores become probabilities.
func svmClassifier(c *Call) {
	l := c.labels("classlabels_ints")
	classes := max(l.len(), 1)
	per, _ := c.Node.Ints("vectors_per_class")
	total := 0
	starts := make([]int, len(per))
	for i, p := range c.dims("vectors_per_class", per) {
		c.require(p <= 1<<30, "vectors_per_class", "%d", p)
		starts[i] = total
		total += p
	}
	s := c.svm(total)
	coef, rho := c.numbers("coefficients"), c.numbers("rho")
	n, _ := c.rowsAndColumns()
	v := c.floats(0)
	mode := c.Node.Str("post_transform", "NONE")
	if total == 0 {
		s.kind = "LINEAR"
		c.require(len(coef) == classes*s.features && len(rho) > 0, "coefficients", "%d for %d classes of %d features", len(coef), classes, s.features)
		c.scoreLinearly(s, l, classes, coef, rho)
		return
	}
	picked := make([]int, n)
	pairs := classes * (classes - 1) / 2
	c.require(len(per) == classes && len(coef) == (classes-1)*total && len(rho) == pairs, "coefficients",
		"%d coefficients, %d rho for %d classes of %v vectors", len(coef), len(rho), classes, per)
	pa, pb := c.numbers("prob_a"), c.numbers("prob_b")
	c.require(len(pa) == len(pb) && (len(pa) == 0 || len(pa) == pairs), "prob_a", "%d and %d for %d pairs", len(pa), len(pb), pairs)
	width := max(pairs, 1)
	if len(pa) > 0 {
		width = classes
	} else if classes == 2 {
		width = 2
	}
	out := c.floatBuffer(n, width)
	votes := make([]float64, classes)
	scores := make([]float64, pairs)
	for r := range n {
		kernels := s.kernels(c, v[r*s.features:][:s.features])
		clear(votes)
		p := 0
		for i := range classes {
			for j := i + 1; j < classes; j++ {
				sum := rho[p]
				for k := range int(per[i]) {
					sum += coef[(j-1)*total+starts[i]+k] * kernels[starts[i]+k]
				}
				for k := range int(per[j]) {
					sum += coef[i*total+starts[j]+k] * kernels[starts[j]+k]
				}
				scores[p] = sum
				if sum > 0 {
					votes[i]++
				} else {
					votes[j]++
				}
				p++
			}
		}
		dst := out[r*width:][:width]
		picked[r] = argMax(votes)
		switch {
		case len(pa) > 0:
			coupling.Probabilities(dst, scores, pa, pb, make([]float64, coupling.Scratch(classes)))
		case classes == 2:
			dst[0], dst[1] = -scores[0], scores[0]
		default:
			copy(dst, scores)
		}
		c.postTransform(dst, mode)
		c.spend(total * classes)
	}
	c.putLabels(l, picked)
	c.putFloats(1, tensor.Float32, []int{n, width}, out)
}

// scoreLinearly is the classifier without support vectors: class k scores rho[k%len(rho)] and the product of a row with
// coef [classes, features].
func (c *Call) scoreLinearly(s *svm, l labels, classes int, coef, rho []float64) {
	n, _ := c.rowsAndColumns()
	v, mode := c.floats(0), c.Node.Str("post_transform", "NONE")
	out, picked := c.floatBuffer(n, classes), make([]int, n)
	for r := range n {
		row := v[r*s.features:][:s.features]
		dst := out[r*classes:][:classes]
		for k := range dst {
			dst[k] = rho[k%len(rho)] + s.kernel(row, coef[k*s.features:][:s.features])
		}
		picked[r] = argMax(dst)
		c.postTransform(dst, mode)
	}
	c.putLabels(l, picked)
	c.putFloats(1, tensor.Float32, []int{n, classes}, out)
}

// numbers reads a list attribute as numbers, nil where the node does not have it.
func (c *Call) numbers(name string) []float64 {
	t := c.listAttr(name)
	if t == nil {
		return nil
	}
	return c.floatsOf(name, t)
}
