package mxnet

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// ownOperator is an operator of Domain: its schema, as graph.ParseSchema reads it, its inference and its kernel.
type ownOperator struct {
	name, schema string
	infer        func(*graph.Inference) error
	eval         func(*call) error
	expand       func(*op, *graph.Node) *graph.Value // what Expand puts in its place
}

var ownOperators = []ownOperator{
	{"Gamma", elementwiseSchema, sameType, func(c *call) error { return c.each(math.Gamma) }, expandGamma},
	{"LogGamma", elementwiseSchema, sameType, func(c *call) error {
		return c.each(func(x float64) float64 {
			y, _ := math.Lgamma(x)
			return y
		})
	}, expandLogGamma},
	{"ErfInv", elementwiseSchema, sameType, func(c *call) error { return c.each(math.Erfinv) }, expandErfInv},
	{"Digamma", elementwiseSchema, sameType, func(c *call) error { return c.each(digamma) }, expandDigamma},
	{"Cholesky", elementwiseSchema, sameType, evalCholesky, expandCholesky},
	{"Solve", "in A:T B:T\nout Y:T\nty T=float,double,float16", inferSolve, evalSolve, expandSolve},
	{"Correlation", "in X1:T X2:T\nout Y:T\nat kernel_size:int=1 max_displacement:int=1 stride1:int=1 stride2:int=1 pad_size:int=0 is_multiply:int=1\nty T=float,double,float16",
		inferCorrelation, evalCorrelation, expandCorrelation},
	{"MultiBoxPrior", "in X:T\nout Y:tensor(float)\nat sizes:floats! ratios:floats! steps:floats! offsets:floats! clip:int=0\nty T=float,double,float16",
		inferPrior, evalPrior, expandPrior},
	{"MultiBoxDetection", "in probability:T location:T anchors:T\nout Y:T\nat clip:int=1 threshold:float=0.01 background_id:int=0 nms_threshold:float=0.5 force_suppress:int=0 variances:floats nms_topk:int=-1\nty T=float,double,float16",
		inferDetection, evalDetection, expandDetection},
	{"BoxNMS", "in X:T\nout Y:T\nat overlap_thresh:float=0.5 valid_thresh:float=0 topk:int=-1 coord_start:int=2 score_index:int=1 id_index:int=-1 background_id:int=-1 force_suppress:int=0 in_center:int=0 out_center:int=0\nty T=float,double,float16",
		sameType, evalNMS, expandNMS},
}

const elementwiseSchema = "in X:T\nout Y:T\nty T=float,double,float16"

func init() {
	for _, x := range ownOperators {
		s, err := graph.ParseSchema(Domain, x.name, 1, x.schema)
		if err != nil {
			panic(err)
		}
		s.Infer, s.Evaluator = x.infer, kernel(x.eval)
		graph.RegisterSchema(s)
	}
}

// kernel makes a graph.Evaluator of a function.
type kernel func(*call) error

// Eval implements graph.Evaluator.
func (k kernel) Eval(ctx context.Context, n *graph.Node, inputs []tensor.Value) ([]tensor.Value, error) {
	c := &call{ctx: ctx, n: n}
	for _, v := range inputs {
		t, ok := v.(*tensor.Tensor)
		if !ok || t == nil {
			return nil, fmt.Errorf("%v: %w: an operand is missing", n, ErrInputs)
		}
		c.in = append(c.in, t)
	}
	if err := k(c); err != nil {
		return nil, fmt.Errorf("%v: %w", n, err)
	}
	return []tensor.Value{c.out}, nil
}

// call is one run of a kernel. Numbers are computed in float64.
type call struct {
	ctx context.Context
	n   *graph.Node
	in  []*tensor.Tensor
	out *tensor.Tensor
}

func (c *call) floats(i int) ([]float64, error) {
	out := make([]float64, c.in[i].Len())
	return out, tensor.Decode(out, c.in[i])
}

func (c *call) put(dt tensor.DType, v []float64, shape ...int) (err error) {
	if c.out, err = tensor.New(dt, shape...); err != nil {
		return err
	}
	return tensor.Encode(c.out, v)
}

// each applies a function to all elements.
func (c *call) each(f func(float64) float64) error {
	v, err := c.floats(0)
	if err != nil {
		return err
	}
	for i, x := range v {
		v[i] = f(x)
	}
	return c.put(c.in[0].DType, v, c.in[0].Shape...)
}

func sameType(c *graph.Inference) error {
	c.SetType(0, c.Type(0))
	return nil
}

// digamma is the derivative of the logarithm of gamma: the asymptotic series from 6 on, to which the recurrence leads, and the
// reflection formula below 0.
func digamma(x float64) float64 {
	if x == 0 || x < 0 && x == math.Floor(x) {
		return math.NaN()
	}
	if x < 0 {
		return digamma(1-x) - math.Pi/math.Tan(math.Pi*x)
	}
	sum := 0.0
	for ; x < 6; x++ {
		sum -= 1 / x
	}
	y := 1 / (x * x)
	return sum + math.Log(x) - 0.5/x - y*(1.0/12-y*(1.0/120-y*(1.0/252-y*(1.0/240-y/132))))
}

// errSingular is about equations that have no one solution.
var errSingular = errors.New("the matrix is singular")

// errDefinite is about matrices that have no triangle.
var errDefinite = errors.New("the matrix is not positive definite")

// evalCholesky computes the lower triangle L with L·Lᵀ = a, for each matrix of the last two axes.
func evalCholesky(c *call) error {
	a, err := c.floats(0)
	if err != nil {
		return err
	}
	shape := c.in[0].Shape
	rank := len(shape)
	if rank < 2 || shape[rank-1] != shape[rank-2] {
		return fmt.Errorf("%w: square matrices are expected, found %v", tensor.ErrShape, shape)
	}
	n := shape[rank-1]
	out := make([]float64, len(a))
	for at := 0; at < len(a); at += n * n {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		m, l := a[at:at+n*n], out[at:at+n*n]
		for i := range n {
			for j := range i + 1 {
				s := m[i*n+j]
				for k := range j {
					s -= l[i*n+k] * l[j*n+k]
				}
				switch {
				case i != j:
					l[i*n+j] = s / l[j*n+j]
				case !(s > 0):
					return errDefinite
				default:
					l[i*n+i] = math.Sqrt(s)
				}
			}
		}
	}
	return c.put(c.in[0].DType, out, shape...)
}

// field reads the attributes of Correlation.
type field struct {
	kernel, reach, stride1, stride2, pad int
	multiply                             bool
}

func fieldOf(n *graph.Node) (f field, err error) {
	read := func(name string, def, lo int64) int {
		v := n.Int(name, def)
		if v < lo || v > 1<<16 {
			err = fmt.Errorf("%w: %s is %d", ErrAttribute, name, v)
		}
		return int(v)
	}
	f = field{read("kernel_size", 1, 1), read("max_displacement", 1, 0), read("stride1", 1, 1), read("stride2", 1, 1), read("pad_size", 0, 0),
		n.Int("is_multiply", 1) != 0}
	return f, err
}

// width returns the displacements along an axis.
func (f field) width() int { return 2*(f.reach/f.stride2) + 1 }

// places returns the places of the result along an axis of n elements.
func (f field) places(n graph.Dim) graph.Dim {
	border := f.reach + (f.kernel-1)/2
	return n.Add(graph.D(2*f.pad - 2*border)).CeilDiv(graph.D(f.stride1))
}

func inferCorrelation(c *graph.Inference) error {
	s := c.Shape(0)
	f, err := fieldOf(c.Node)
	if err != nil {
		return err
	}
	if s == nil || len(s) != 4 {
		return c.SetShape(0, nil)
	}
	return c.SetShape(0, graph.Shape{s[0], graph.D(f.width() * f.width()), f.places(s[2]), f.places(s[3])})
}

// evalCorrelation compares patches of one image with displaced ones of the other: the mean of products, or of the amounts of
// differences (Dosovitskiy et al., FlowNet, 10.1109/ICCV.2015.316).
func evalCorrelation(c *call) error {
	f, err := fieldOf(c.n)
	if err != nil {
		return err
	}
	a, err := c.floats(0)
	if err != nil {
		return err
	}
	b, err := c.floats(1)
	if err != nil {
		return err
	}
	s := c.in[0].Shape
	if len(s) != 4 || len(c.in[1].Shape) != 4 || len(a) != len(b) {
		return fmt.Errorf("%w: two images [N, C, H, W] are expected, found %v and %v", tensor.ErrShape, s, c.in[1].Shape)
	}
	size := func(n int) int {
		d, _ := f.places(graph.D(n)).Const()
		return int(d)
	}
	h, w, width := size(s[2]), size(s[3]), f.width()
	if h < 1 || w < 1 {
		return fmt.Errorf("%w: images of %d by %d are too small", tensor.ErrShape, s[2], s[3])
	}
	shape := []int{s[0], width * width, h, w}
	n, err := tensor.NumElements(shape)
	if err != nil {
		return err
	}
	if c.out, err = tensor.New(c.in[0].DType, shape...); err != nil {
		return err
	}
	out := make([]float64, n)
	at := func(v []float64, img, ch, y, x int) float64 {
		if y -= f.pad; y < 0 || y >= s[2] {
			return 0
		}
		if x -= f.pad; x < 0 || x >= s[3] {
			return 0
		}
		return v[((img*s[1]+ch)*s[2]+y)*s[3]+x]
	}
	for i := range out {
		if i%1024 == 0 && c.ctx.Err() != nil {
			return c.ctx.Err()
		}
		x, y, k, img := i%w, i/w%h, i/(w*h)%(width*width), i/(w*h*width*width)
		x1, y1 := x*f.stride1+f.reach, y*f.stride1+f.reach
		x2, y2 := x1+(k%width-width/2)*f.stride2, y1+(k/width-width/2)*f.stride2
		sum := 0.0
		for dy := range f.kernel {
			for dx := range f.kernel {
				for ch := range s[1] {
					p, q := at(a, img, ch, y1+dy, x1+dx), at(b, img, ch, y2+dy, x2+dx)
					if f.multiply {
						sum += p * q
					} else {
						sum += math.Abs(p - q)
					}
				}
			}
		}
		out[i] = sum / float64(f.kernel*f.kernel*s[1])
	}
	return tensor.Encode(c.out, out)
}
