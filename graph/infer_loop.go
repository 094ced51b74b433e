package graph

import (
	"fmt"
	"slices"
	"strings"

	"github.com/carve-dev/carve/graph/tensor"
)

// Limits of the search for the types of carried values, which bound the cost of hostile nests: beyond maxPasses their
// shapes are given up; loops inside more than maxLoopDepth others do so from the start and are inferred once.
const (
	maxPasses    = 4
	maxLoopDepth = 2
)

// carried infers a region that is run many times: params take the types of initial at first, and then what covers both
// these and the types of results, until nothing changes. It returns the types that cover all iterations, with symbols of
// the region's own where dims change.
func (c *Inference) carried(name string, params, results []*Value, initial []Type) ([]Type, error) {
	r := c.Node.Region(name)
	inside := make([]Type, len(params)) // with a symbol of its own for each dim that changes
	deep := loopDepth(c.g) > maxLoopDepth
	changed := false
	for i, p := range params {
		inside[i] = initial[i]
		if inside[i].Kind == KindUnknown {
			inside[i] = c.trustedType(p.Type)
		}
		if deep {
			inside[i] = withoutShape(inside[i])
		}
		changed = changed || !p.Type.Equal(inside[i])
	}
	for pass := 0; ; pass++ {
		if changed {
			forget(r)
		}
		for i, p := range params {
			p.Type, p.Dims = inside[i], nil
		}
		if err := inferRegion(c.Node, name); err != nil {
			return nil, err
		}
		changed = false
		for i, v := range results {
			joined, ok := joinTypes(inside[i], v.Type, c.Fresh)
			if v.Type.Kind == KindUnknown { // the kind cannot change, but the shape may
				joined = withoutShape(inside[i])
			}
			if opt := inside[i]; !ok && opt.Kind == KindOptional && opt.Elem != nil { // what is absent at first only
				if _, ok = joinTypes(*opt.Elem, v.Type, c.Fresh); ok {
					joined = opt
				}
			}
			if !ok {
				e := regionError(c.Node, name, ErrTypeMismatch, inside[i].String()+" as it was passed in", v.Type.String())
				e.Value = v.String()
				return nil, e
			}
			joined = keepOwn(inside[i], joined, initial[i])
			if joined.Equal(inside[i]) {
				continue
			}
			changed = true
			if pass >= maxPasses-1 {
				joined = withoutShape(joined)
			}
			inside[i] = joined
		}
		if changed && deep { // nothing is known of the body then
			forget(r)
			for i, p := range params {
				inside[i], p.Type = Type{}, Type{}
			}
			return inside, nil
		}
		if !changed {
			for i, v := range results {
				if inside[i].Kind == KindOptional && v.Type.Kind != KindOptional && v.Type.Kind != KindUnknown {
					inside[i] = v.Type
				}
			}
			return inside, nil
		}
	}
}

// keepOwn returns joined, in which a dim that was given a symbol of its own in an earlier pass keeps it.
func keepOwn(before, joined, initial Type) Type {
	if joined.Kind != KindTensor || len(before.Shape) != len(joined.Shape) || joined.Shape == nil {
		return joined
	}
	out := append(Shape{}, joined.Shape...)
	for i, d := range before.Shape {
		name, isSymbol := d.Symbol()
		own := isSymbol && strings.HasPrefix(name, "?") && (len(initial.Shape) != len(out) || !initial.Shape[i].Equal(d))
		if own {
			out[i] = d
		}
	}
	joined.Shape = out
	return joined
}

// withoutShape returns t with unknown ranks.
func withoutShape(t Type) Type {
	t.Shape = nil
	if t.Elem != nil {
		e := withoutShape(*t.Elem)
		t.Elem = &e
	}
	return t
}

func loopDepth(g *Graph) (depth int) {
	for g.owner != nil {
		if g.owner.Is("Loop", "Scan", "SequenceMap") {
			depth++
		}
		g = g.owner.graph
	}
	return depth
}

// inferLoop: carried values keep what no iteration changes; what an iteration yields is stacked along a new first dim.
func inferLoop(c *Inference) error {
	carriedN := max(0, c.NumInputs()-2)
	body := c.Node.Region("body")
	scans := c.NumOutputs() - carriedN
	if scans < 0 {
		return nodeError(c.Node, ErrArity, fmt.Sprintf("at least %d outputs", carriedN), fmt.Sprint(c.NumOutputs()))
	}
	if err := regionPorts(c.Node, "body", 2+carriedN, 1+c.NumOutputs()); err != nil {
		return err
	}
	initial := []Type{TensorType(tensor.Int64, Shape{}), TensorType(tensor.Bool, Shape{})}
	for i := range carriedN {
		initial = append(initial, c.Type(2+i))
	}
	// The iteration number and the condition are parameters too; their types never change.
	params := body.Inputs
	results := append([]*Value{body.Inputs[0]}, body.Outputs[:1+carriedN]...)
	results[1] = body.Inputs[1]
	types, err := c.carried("body", params, results, initial)
	if err != nil {
		return err
	}
	if t := body.Outputs[0].Type; t.Kind > KindTensor || t.DType != tensor.Bool && t.DType != tensor.Invalid {
		return regionError(c.Node, "body", ErrTypeMismatch, "a condition of type bool", t.String())
	}
	for i := range carriedN {
		c.SetType(i, c.outerType(types[2+i]))
	}
	trips := c.trips(body)
	for i := range scans {
		t := body.Outputs[1+carriedN+i].Type
		if t.Kind != KindTensor {
			if t.Kind != KindUnknown {
				return regionError(c.Node, "body", ErrTypeMismatch, "tensors as scan outputs", t.String())
			}
			continue
		}
		var s Shape
		if t.Shape != nil {
			s = append(Shape{trips}, c.outerShape(t.Shape)...)
		}
		if err := c.SetTensor(carriedN+i, t.DType, s); err != nil {
			return err
		}
	}
	return nil
}

// trips returns how often a Loop runs: the trip count where nothing else ends it.
func (c *Inference) trips(body *Graph) Dim {
	m, ok := c.contents(0)
	if !ok || len(m) != 1 {
		return c.Fresh()
	}
	if c.Has(1) {
		if b, ok := bools(c.Node.Inputs[1], followDepth); !ok || len(b) != 1 || b[0] != yes {
			return c.Fresh()
		}
	}
	v := body.Outputs[0]
	for depth := 0; v != body.Inputs[1]; depth++ {
		if b, ok := bools(v, followDepth); ok && len(b) == 1 && b[0] == yes {
			break
		}
		if v.Producer == nil || !v.Producer.Is("Identity") || v.Producer.Input(0) == nil || depth > followDepth {
			return c.Fresh()
		}
		v = v.Producer.Input(0)
	}
	n, _ := maxDims(m[0], D(0))
	return n
}

// scanDirections checks that each of the scanned values is walked through forwards, 0, or backwards, 1.
func (c *Inference) scanDirections(inputs, outputs int) error {
	for _, a := range [...]struct {
		name string
		n    int
	}{{"directions", inputs}, {"scan_input_directions", inputs}, {"scan_output_directions", outputs}} {
		list, ok := c.Node.Ints(a.name)
		if !ok || !c.hasAttr(a.name) {
			continue
		}
		if len(list) != a.n || slices.ContainsFunc(list, func(d int64) bool { return d != 0 && d != 1 }) {
			return c.attrError(a.name, fmt.Sprintf("%d numbers, each 0 or 1", a.n), list)
		}
	}
	return nil
}

// inferScan: states are carried; scan inputs lose the axis that is scanned and scan outputs get one.
func inferScan(c *Inference) error {
	body := c.Node.Region("body")
	first := 0
	if c.Node.Schema.Since < 9 { // sequence_lens comes first, and a batch axis in every value
		first = 1
	}
	scans := c.Node.Int("num_scan_inputs", 0)
	total := c.NumInputs() - first
	if scans < 1 || scans > int64(max(total, 0)) {
		return c.attrError("num_scan_inputs", fmt.Sprintf("from 1 to %d", total), scans)
	}
	states := total - int(scans)
	outs := c.NumOutputs() - states
	if outs < 0 {
		return nodeError(c.Node, ErrArity, fmt.Sprintf("at least %d outputs", states), fmt.Sprint(c.NumOutputs()))
	}
	if err := regionPorts(c.Node, "body", total, c.NumOutputs()); err != nil {
		return err
	}
	if err := c.scanDirections(int(scans), outs); err != nil {
		return err
	}
	p := scanPorts{first: first, states: states, scans: int(scans), outs: outs, length: c.Fresh(), batch: c.Fresh()}
	initial, err := c.scanInitial(&p)
	if err != nil {
		return err
	}
	types, err := c.carried("body", body.Inputs, append(append([]*Value{}, body.Outputs[:states]...), body.Inputs[states:]...), initial)
	if err != nil {
		return err
	}
	for i, t := range types[:states] {
		if t.Kind == KindTensor {
			s := c.outerShape(t.Shape)
			if first == 1 && s != nil {
				s = append(Shape{p.batch}, s...)
			}
			if err := c.SetTensor(i, t.DType, s); err != nil {
				return err
			}
		}
	}
	return c.scanOutputs(&p, body)
}

// scanPorts is what a Scan's inputs and outputs are: first of the inputs, states, scan inputs and scan outputs; and the dims
// that they have in common: the length that is scanned, and that of the batch axis where first is 1.
type scanPorts struct {
	first, states, scans, outs int
	length, batch              Dim
}

// scanInitial returns the types that the inputs of a Scan's body have in its first step, and notes length and batch.
func (c *Inference) scanInitial(p *scanPorts) ([]Type, error) {
	initial := make([]Type, p.states+p.scans)
	for i := range initial {
		t := c.Type(p.first + i)
		s := t.Shape
		if p.first == 1 && s != nil {
			if len(s) == 0 {
				return nil, c.shapeError(p.first+i, "a batch axis")
			}
			p.batch, s = s[0], s[1:]
		}
		if i >= p.states && s != nil {
			a, err := c.scanAxis("scan_input_axes", i-p.states, p.scans, len(s))
			if err != nil {
				return nil, err
			}
			m, ok := sameDim(p.length, s[a])
			if !ok {
				return nil, c.shapeError(p.first+i, fmt.Sprintf("%v at the scanned axis", p.length))
			}
			p.length = m
			s = append(append(Shape{}, s[:a]...), s[a+1:]...)
		}
		if t.Kind == KindTensor {
			t.Shape = s
		}
		initial[i] = t
	}
	return initial, nil
}

// scanOutputs sets the types of a Scan's scan outputs: those of the body's, with the scanned axis.
func (c *Inference) scanOutputs(p *scanPorts, body *Graph) error {
	for i := range p.outs {
		t := body.Outputs[p.states+i].Type
		if t.Kind != KindTensor {
			continue
		}
		s := t.Shape
		if s != nil {
			a, err := c.scanAxis("scan_output_axes", i, p.outs, len(s)+1)
			if err != nil {
				return err
			}
			s = c.outerShape(s)
			s = append(append(append(Shape{}, s[:a]...), p.length), s[a:]...)
			if p.first == 1 {
				s = append(Shape{p.batch}, s...)
			}
		}
		if err := c.SetTensor(p.states+i, t.DType, s); err != nil {
			return err
		}
	}
	return nil
}

// scanAxis returns entry i of an attribute that lists an axis for each of n values, 0 by default.
func (c *Inference) scanAxis(name string, i, n, rank int) (int, error) {
	list, ok := c.Node.Ints(name)
	axis := int64(0)
	if ok && len(list) > 0 {
		if len(list) != n {
			return 0, c.attrError(name, fmt.Sprintf("%d axes", n), list)
		}
		axis = list[i]
	}
	a, err := NormAxis(axis, rank)
	if err != nil {
		return 0, c.attrError(name, fmt.Sprintf("an axis of rank %d", rank), axis)
	}
	return a, nil
}
