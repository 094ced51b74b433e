package gpukernel

import (
	"fmt"
	"slices"
)

const (
	nodesMax    = 4096
	elementsMax = 1 << 30
	buffersMax  = 48
)

// Render returns kernels that compute the outputs of a program: one, where its operators can be computed element by element, or
// row by row with reductions along the row, however many; several, with buffers between them, where a reduction is wanted for
// another row than the one at hand, or a kernel would grow too long. What is computed in several places of a kernel is computed
// again for each, unless it is a reduction. The error wraps ErrUnsupported.
func Render(name string, d Device, p *Program) (_ *Plan, err error) {
	if err := p.check(d); err != nil {
		return nil, err
	}
	r := &renderer{name: name, device: d, p: p, limit: interpreterLimit, materialised: map[Value]string{}, targets: map[Value]bool{}}
	defer func() {
		switch x := recover().(type) {
		case nil:
		case untranslatable:
			err = unsupported("%s: the interpreter has no %s", name, x.why)
		default:
			panic(x)
		}
	}()
	for _, o := range p.outputs {
		r.targets[o.value] = true
	}
	for {
		c := r.attempt()
		if c == nil {
			break
		}
		if c.long && r.limit > 4 { // pieces have to be smaller
			r.limit /= 2
			continue
		}
		if r.targets[c.value] { // it cannot be, and would not end
			return nil, unsupported("%s: %s", name, c.why)
		}
		r.targets[c.value] = true
	}
	for _, k := range r.kernels {
		if len(k.launch.Args) > buffersMax {
			return nil, unsupported("%s: a kernel of %d buffers", name, len(k.launch.Args))
		}
		k.launch.Kernel.Double = p.doubles()
		r.plan.Launches = append(r.plan.Launches, k.launch)
	}
	return &r.plan, nil
}

func (p *Program) check(d Device) error {
	if len(p.nodes) > nodesMax || len(p.outputs) == 0 {
		return unsupported("a program of %d operators and %d outputs", len(p.nodes), len(p.outputs))
	}
	for _, n := range p.nodes {
		total := 1
		for _, d := range n.shape {
			if d < 1 || total > elementsMax/d {
				return unsupported("an element-wise operator on the shape %v", n.shape)
			}
			total *= d
		}
	}
	if p.doubles() {
		return d.checkDouble()
	}
	return nil
}

// renderer cuts a program into kernels.
type renderer struct {
	name         string
	device       Device
	p            *Program
	limit        int            // of statements of a program for the interpreter
	targets      map[Value]bool // what has to be in memory
	materialised map[Value]string
	kernels      []rendered
	plan         Plan
}

type rendered struct {
	outputs []output
	launch  Launch
}

// attempt renders all targets, in order, each into the kernel before it where it can join that. It returns a cut where another
// target is needed first.
func (r *renderer) attempt() *cut {
	r.kernels, r.plan = nil, Plan{}
	r.materialised = map[Value]string{}
	list := make([]Value, 0, len(r.targets))
	for v := range r.targets {
		list = append(list, v)
	}
	slices.Sort(list)
	for _, v := range list {
		outputs := r.outputsOf(v)
		if last := len(r.kernels) - 1; last >= 0 {
			joint := slices.Concat(r.kernels[last].outputs, outputs)
			if launch, c := r.kernel(last, joint); c == nil {
				r.kernels[last] = rendered{joint, launch}
				continue
			}
			for _, o := range r.kernels[last].outputs {
				r.materialised[o.value] = o.buffer
			}
		}
		launch, c := r.kernel(len(r.kernels), outputs)
		if c != nil {
			return c
		}
		r.kernels = append(r.kernels, rendered{outputs, launch})
	}
	return nil
}

// outputsOf returns the buffers that a target is written to: outputs of the program, or scratch.
func (r *renderer) outputsOf(v Value) []output {
	var list []output
	for _, o := range r.p.outputs {
		if o.value == v {
			list = append(list, o)
		}
	}
	if list == nil {
		n := &r.p.nodes[v]
		s := Scratch{fmt.Sprintf("%s_value%d", r.name, v), int64(elements(n.shape)) * int64(n.typ.Size())}
		r.plan.Scratch = append(r.plan.Scratch, s)
		list = []output{{v, s.Buffer}}
	}
	return list
}

// kernel renders one kernel for outputs.
func (r *renderer) kernel(serial int, outputs []output) (launch Launch, failed *cut) {
	defer func() {
		switch c := recover().(type) {
		case nil:
		case cut:
			failed = &c
		case tooLong:
			failed = &cut{value: outputs[0].value, why: "it does not fit the interpreter", long: true}
		default:
			panic(c)
		}
	}()
	name := r.name
	if serial > 0 {
		name = fmt.Sprintf("%s_%d", r.name, serial)
	}
	reductions := r.reductions(outputs)
	switch rows := len(reductions) > 0; {
	case r.device.Prebuilt && rows:
		return r.interpretRows(name, outputs, reductions), nil
	case r.device.Prebuilt:
		return r.interpretMap(name, outputs), nil
	case !rows:
		return r.mapKernel(name, outputs), nil
	}
	return r.rowKernel(name, outputs, reductions), nil
}

// reductions returns those that outputs need and that are not in memory, by depth: a reduction follows those it needs.
func (r *renderer) reductions(outputs []output) [][]Value {
	depth := map[Value]int{}
	var visit func(v Value) int
	visit = func(v Value) int {
		if d, ok := depth[v]; ok {
			return d
		}
		d := 0
		if _, there := r.materialised[v]; !there {
			for _, in := range r.p.nodes[v].in {
				d = max(d, visit(in))
			}
			if r.p.nodes[v].kind == kindReduce {
				d++
			}
		}
		depth[v] = d
		return d
	}
	var levels [][]Value
	for _, o := range outputs {
		visit(o.value)
	}
	for v := range Value(len(r.p.nodes)) {
		if _, there := r.materialised[v]; there || r.p.nodes[v].kind != kindReduce || depth[v] == 0 {
			continue
		}
		for len(levels) < depth[v] {
			levels = append(levels, nil)
		}
		levels[depth[v]-1] = append(levels[depth[v]-1], v)
	}
	return levels
}

// extents returns the dims of a shape that are not 1.
func extents(shape []int) []int {
	var list []int
	for _, d := range shape {
		if d != 1 {
			list = append(list, d)
		}
	}
	return list
}
