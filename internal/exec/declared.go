package exec

import (
	"context"
	"sync/atomic"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// doubt is a type that the model declares for an output, and of which only a run shows whether it is right.
type doubt struct {
	output   int
	declared graph.Type
	settled  atomic.Bool // it was wrong, and has been logged
	computed graph.Type  // written once, with the Machine's mu held
}

// doubts returns those of Env.Declared.
func (e *Env) doubts() []*doubt {
	var out []*doubt
	for i, t := range e.Declared {
		if t.Kind == graph.KindTensor {
			out = append(out, &doubt{output: i, declared: t})
		}
	}
	return out
}

// checkDeclared warns, once per output, of results of a run that are not what the model declares. It allocates only where
// one is not.
func (f *frame) checkDeclared(ctx context.Context) {
	m := f.session.m
	for _, d := range m.doubts {
		if d.settled.Load() {
			continue
		}
		t, ok := f.values[m.main.Outputs[d.output]].(*tensor.Tensor)
		if !ok || d.admits(t) || !d.settled.CompareAndSwap(false, true) {
			continue
		}
		computed := graph.TensorType(t.DType, graph.ShapeOf(t.Shape...))
		m.mu.Lock()
		d.computed = computed
		m.mu.Unlock()
		m.env.Logger.WarnContext(ctx, "declared type is wrong: the computed one counts", "value", m.env.OutputNames[d.output],
			"declared", d.declared.String(), "computed", computed.String())
	}
}

// admits reports whether t may be of the declared type.
func (d *doubt) admits(t *tensor.Tensor) bool {
	s := d.declared.Shape
	if d.declared.DType != tensor.Invalid && d.declared.DType != t.DType || s.Known() && len(s) != len(t.Shape) {
		return false
	}
	for k, dim := range s {
		if n, ok := dim.Const(); ok && n != int64(t.Shape[k]) {
			return false
		}
	}
	return true
}

// Overruled returns the declarations of outputs that runs have shown to be wrong, in the order of the outputs.
func (m *Machine) Overruled() []graph.Contradiction {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []graph.Contradiction
	for _, d := range m.doubts {
		if d.computed.Kind != graph.KindUnknown {
			out = append(out, graph.Contradiction{Value: m.env.OutputNames[d.output], Declared: d.declared, Computed: d.computed})
		}
	}
	return out
}
