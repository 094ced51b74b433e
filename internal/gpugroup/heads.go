package gpugroup

import (
	"math"
	"slices"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/fuse"
	"github.com/carve-dev/carve/internal/gpukernel"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// head is an operator with a template of its own, which applies what follows it too.
type head struct {
	// signature says how d runs n, or why not. one is n in static shapes.
	signature func(d *Device, n, one *graph.Node) (graph.Signature, *property.Reason)
	// plan emits the kernels of a node, which finish as tail says.
	plan func(p *planner, n *graph.Node, t tail) error
	// tiles returns those that the kernel of one may have, the best first; nil where there is no choice.
	tiles func(d *Device, one *graph.Node) ([]gpukernel.Tile, error)
	// library returns the signature by which a library of the vendor's runs the node, like the one of kernels, and the product that it
	// does; nil where there is none.
	library func(d *Device, n, one *graph.Node, s graph.Signature) (graph.Signature, gpukernel.ProductShape, error)
	// alone says that its kernels apply nothing that follows.
	alone bool
	// types says that signature looks at element types. Of others all are float32, or float64 where doubles are said to be computed.
	types, doubles bool
}

// heads are those operators, by name.
var heads map[string]head

func init() {
	heads = map[string]head{
		"Attention":     {signature: attentionSignature, plan: planAttention, alone: true, types: true},
		"Conv":          {signature: convSignature, plan: planConv, tiles: convTiles, library: convLibrary, doubles: true},
		"ConvTranspose": {signature: spreadSignature, plan: planSpread, alone: true, doubles: true},
		"GRU":           {signature: recurrentSignature, plan: planRecurrent, alone: true, types: true},
		"LSTM":          {signature: recurrentSignature, plan: planRecurrent, alone: true, types: true},
		"RNN":           {signature: recurrentSignature, plan: planRecurrent, alone: true, types: true},
		"MatMul":        {signature: productSignature, plan: planMatMul, tiles: matMulTiles, library: matMulLibrary, doubles: true},
		"Gemm":          {signature: productSignature, plan: planGemm, tiles: gemmTiles, library: gemmLibrary, doubles: true},
	}
}

// isHead reports whether a node has a template of its own.
func isHead(n *graph.Node) bool {
	_, ok := heads[n.Op.Name]
	return ok && n.Op.Domain == ""
}

func (d *Device) supportsHead(h head, n, one *graph.Node) backend.Support {
	want := tensor.Float32
	if h.doubles && n.Outputs[0] != nil && n.Outputs[0].Type.DType == tensor.Float64 {
		want = tensor.Float64
	}
	for _, v := range slices.Concat(n.Inputs, n.Outputs) {
		if !h.types && v != nil && v.Type.DType != want {
			return backend.Support{Reason: operators.NotFloat32(v)}
		}
	}
	for _, vs := range [][]*graph.Value{one.Inputs, one.Outputs} {
		for _, v := range vs {
			if v != nil && elementsOf(v) == 0 {
				return backend.No(property.ShapeReason, "%v is empty", v)
			}
		}
	}
	s, reason := h.ask(d, n, one)
	if reason != nil {
		return backend.Support{Reason: reason}
	}
	tiled := d.tiled(h, s, one)
	list := tiled
	if h.tiles != nil {
		list = d.withHalves(n, tiled)
	}
	return backend.Support{Signatures: d.byLibrary(h, n, one, tiled[0], list)}
}

// ask is signature, of operands that may not fit.
func (h head) ask(d *Device, n, one *graph.Node) (s graph.Signature, reason *property.Reason) {
	var err error
	defer func() {
		if err != nil {
			reason = property.Because(property.Unsupported, "%v", err)
		}
	}()
	defer guard(&err)
	return h.signature(d, n, one)
}

// dims returns the static dims of a value.
func dims(v *graph.Value) []int {
	d, _ := v.Type.Shape.Static()
	return d
}

func elementsOf(v *graph.Value) int {
	n := 1
	for _, d := range dims(v) {
		n *= d
	}
	return n
}

// chain is what a head's kernel applies.
var chain = fuse.Chain{
	Name: "gpu-finish", Head: isHead,
	Bias:     func(*graph.Node) bool { return true },
	Residual: func(*graph.Node, *graph.Value) bool { return true },
	Activation: func(n *graph.Node) bool {
		_, ok := activation(n)
		return ok
	},
}

// activation returns the step that an activation is.
func activation(n *graph.Node) (s gpukernel.Step, ok bool) {
	if n.Op.Domain != "" {
		return s, false
	}
	switch n.Op.Name {
	case "Relu":
		return gpukernel.Step{Op: gpukernel.Relu}, true
	case "Sigmoid":
		return gpukernel.Step{Op: gpukernel.Sigmoid}, true
	case "Tanh":
		return gpukernel.Step{Op: gpukernel.Tanh}, true
	case "HardSwish":
		return gpukernel.Step{Op: gpukernel.HardSwish}, true
	case "LeakyRelu":
		return gpukernel.Step{Op: gpukernel.Leaky, Alpha: n.Float("alpha", 0.01)}, true
	case "HardSigmoid":
		return gpukernel.Step{Op: gpukernel.HardSigmoid, Alpha: n.Float("alpha", 0.2), Beta: n.Float("beta", 0.5)}, true
	case "Gelu":
		if n.Str("approximate", "none") == "tanh" {
			return gpukernel.Step{Op: gpukernel.GeluTanh}, true
		}
		return gpukernel.Step{Op: gpukernel.Gelu}, true
	case "Clip":
		return clip(n)
	}
	return s, false
}

// clip is a Clip by numbers that are known.
func clip(n *graph.Node) (s gpukernel.Step, ok bool) {
	s = gpukernel.Step{Op: gpukernel.Clip, Alpha: float32(math.Inf(-1)), Beta: float32(math.Inf(1))}
	for i, at := range []*float32{&s.Alpha, &s.Beta} {
		if v := n.Input(i + 1); v != nil {
			if *at, ok = fuse.Scalar(v); !ok {
				return s, false
			}
		} else if name := []string{"min", "max"}[i]; n.Attrs.Lookup(name) != nil {
			*at = n.Float(name, 0)
		}
	}
	return s, true
}

// tail is what a kernel does to its results before it stores them, and where the operands of that lie.
type tail struct {
	out      *graph.Value // the last node's result; nil for the head's own
	steps    []gpukernel.Step
	operands []place.Memory // by step; nowhere for those without
}

func (t *tail) add(s gpukernel.Step, at place.Memory) {
	t.steps, t.operands = append(t.steps, s), append(t.operands, at)
}

// follow returns what the kernel of a head may apply, and the nodes beyond the head that this stands for.
func (p *planner) follow(n *graph.Node) *fuse.Links {
	if heads[n.Op.Name].alone {
		return nil
	}
	l := chain.Follow(n)
	for _, m := range l.Nodes()[1:] {
		if p.taken[m] || m.Outputs[0].Format != n.Outputs[0].Format {
			return nil
		}
	}
	onDevice := func(v *graph.Value) bool { return v == nil || !v.Format.Device.IsHost() }
	if l.Len() == 1 || !onDevice(l.Bias) || !onDevice(l.Residual) || l.Residual != nil && l.Residual.Format != n.Outputs[0].Format {
		return nil
	}
	return l
}

// tailOf returns what the kernel of a head does behind it.
func (p *planner) tailOf(l *fuse.Links) tail {
	t := tail{out: l.Out}
	if l.Bias != nil {
		t.add(gpukernel.Step{Op: gpukernel.AddColumn, Operand: keptAs(l.Bias)}, p.In(l.Bias))
	}
	if l.Residual != nil {
		t.add(gpukernel.Step{Op: gpukernel.AddMatrix, Operand: keptAs(l.Residual)}, p.In(l.Residual))
	}
	if l.Silu() {
		t.add(gpukernel.Step{Op: gpukernel.Silu}, place.Nowhere)
	} else if len(l.Acts) > 0 {
		s, _ := activation(l.Acts[0])
		t.add(s, place.Nowhere)
	}
	return t
}

// behind returns the steps of a tail with others in front of them.
func (t tail) behind(steps tail) tail {
	steps.out = t.out
	for i, s := range t.steps {
		steps.add(s, t.operands[i])
	}
	return steps
}
