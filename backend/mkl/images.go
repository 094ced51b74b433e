package mkl

import (
	"fmt"
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// Values in strided rows: operands of a concatenation that are made in its result. But for moves, the library has fast
// implementations of contiguous tensors only: of strided ones it answers with its plain one, or for products another. So what
// works on images is planned image by image, each of which is contiguous.

// Images that are computed by themselves: mostImages are the most of a tensor, leastImage is the fewest bytes of one that
// is made or read where it belongs, since a primitive for less has too little to do.
const (
	mostImages = 16
	leastImage = 4 << 10
)

// takesStrided implements what place.WantConcats asks.
func (p *planner) takesStrided(n *graph.Node, v *graph.Value, m place.Memory) bool {
	op, ok := p.e.lookup(n)
	return ok && op.Strided != nil && op.Strided(p, n, v, m)
}

// byImages is the Strided of operators whose results for an image depend on that image of their operands alone.
func byImages(p *planner, n *graph.Node, v *graph.Value, m place.Memory) bool {
	d, dy := p.Dims[v.ID], p.Dims[n.Outputs[0].ID]
	return operators.IsFloat32(v) && p.ofImages(n, v) && d[0] <= mostImages && m.Row*d[0] == p.Bytes(v) && m.Row >= leastImage && len(dy) > 2 &&
		(p.threads == 1 || grows(v))
}

// withinImages is byImages for operators along an axis, or from one on, that is not the images'.
func withinImages(p *planner, n *graph.Node, v *graph.Value, m place.Memory) bool {
	axis := int(n.Int("axis", -1))
	return axis != 0 && axis != -len(p.Dims[v.ID]) && byImages(p, n, v, m)
}

// grows reports whether v is read by several concatenations, or is the result of one with such an operand, as in DenseNet. Where
// an operand would be copied only once, several threads compute all images in one call and copy them in less time than
// they compute image by image in place (oneDNN 2.6.3, SqueezeNet of two images on two cores: 1.0 to 1.1).
func grows(v *graph.Value) bool {
	several := func(v *graph.Value) bool {
		k := 0
		for _, u := range v.Uses() {
			if u.Node.Is("Concat") {
				k++
			}
		}
		return k > 1
	}
	return several(v) || v.Producer != nil && v.Producer.Is("Concat") && slices.ContainsFunc(v.Producer.Inputs, several)
}

// manyRows is byImages for products, of which each reads the weights.
func manyRows(p *planner, n *graph.Node, v *graph.Value, m place.Memory) bool {
	const least = 64
	d := p.Dims[v.ID]
	return byImages(p, n, v, m) && d[len(d)-2] >= least
}

// ofImages reports whether operand or result v of n has one image per image of the result. Constants do only where the
// operator treats them like other operands.
func (p *planner) ofImages(n *graph.Node, v *graph.Value) bool {
	d, dy := p.Dims[v.ID], p.Dims[n.Outputs[0].ID]
	return len(d) == len(dy) && len(d) > 1 && d[0] == dy[0] && (!v.IsConst() || binaryAlgs[n.Op.Name] != 0 || n.Is("Sum"))
}

// always is for views, which are copied byte by byte where they have to be.
func always(*planner, *graph.Node, *graph.Value, place.Memory) bool { return true }

// settle says how a node's results lie with regard to its operands. What is planned image by image has places of its own.
func (p *planner) settle(n *graph.Node) {
	op, _ := p.e.lookup(n)
	if op.Settle == nil {
		return
	}
	for range p.InRows(n) {
		if op.Single {
			return
		}
	}
	op.Settle(p, n)
}

// node emits the steps of a node.
func (p *planner) node(n *graph.Node) error {
	op, _ := p.e.lookup(n)
	some := false
	for v, m := range p.InRows(n) {
		if some = true; !p.takesStrided(n, v, m) {
			return fmt.Errorf("%v lies in strided rows", v)
		}
	}
	for _, v := range n.Inputs {
		if v != nil && !v.IsConst() && slices.Contains(p.Dims[v.ID], 0) {
			return property.Because(property.ShapeReason, "%v is empty", v)
		}
	}
	if some && op.Single {
		return p.images(n, op)
	}
	return op.Plan(p, n)
}

// images emits the steps of a node for each image: dims and places of what has images are those of one of them meanwhile.
func (p *planner) images(n *graph.Node, op operator) error {
	var vs []*graph.Value
	for _, v := range append(slices.Clone(n.Inputs), n.Outputs[0]) {
		if v != nil && p.ofImages(n, v) && !slices.Contains(vs, v) {
			vs = append(vs, v)
		}
	}
	p.Out(n.Outputs[0])
	dims, where := make([][]int, len(vs)), make([]place.Memory, len(vs))
	for i, v := range vs {
		dims[i], where[i] = p.Dims[v.ID], p.Where[v.ID]
	}
	defer func() {
		for i, v := range vs {
			p.Where[v.ID] = where[i]
			_ = p.Resize(v, dims[i]) // as it was
		}
	}()
	for i, v := range vs {
		one := slices.Clone(dims[i])
		one[0] = 1
		if err := p.Resize(v, one); err != nil {
			return err
		}
	}
	p.times = dims[len(vs)-1][0]
	defer func() { p.times = 1 }()
	for k := range p.times {
		for i, v := range vs {
			one := p.Bytes(v)
			m, ok := where[i].Rows(k*one, one, one, 1)
			if !ok {
				return fmt.Errorf("%v has no image %d", v, k)
			}
			p.Where[v.ID] = m
		}
		if err := op.Plan(p, n); err != nil {
			return err
		}
	}
	return nil
}
