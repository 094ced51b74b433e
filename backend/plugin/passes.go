package plugin

import (
	"context"
	"fmt"
	"slices"
	"unsafe"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/onnx"
	"github.com/carve-dev/carve/graph/tensor"
)

// ownPass is a pass that a plugin brings.
type ownPass struct {
	l                   *Library
	at                  uintptr // of the carve_pass, where that is in this process
	c                   cPass
	name, before, after string
}

func (l *Library) readPasses(from side) error {
	addresses, list, err := own[cPass](from, l.table.passes, l.table.nPasses, "pass")
	if err != nil {
		return fmt.Errorf("%s: %w", l.path, err)
	}
	for i, c := range list {
		from.number(len(l.operators)+len(l.properties)+i, c.slots())
		p := &ownPass{l: l, at: addresses[i], c: c, name: from.text(c.name), before: from.text(c.before), after: from.text(c.after)}
		if !validName(p.name) || c.run == 0 {
			return fmt.Errorf("%w: %s: pass %d has the name %q, or no function run", ErrPlugin, l.path, i, p.name)
		}
		l.passes = append(l.passes, p)
	}
	return nil
}

func (l *Library) passList() []backend.LibraryPass {
	var out []backend.LibraryPass
	for _, p := range l.passes {
		out = append(out, backend.LibraryPass{Name: p.name, Before: p.before, After: p.after, Run: p.run})
	}
	return out
}

// run has the plugin rewrite a graph. The error names the file; it wraps onnx.ErrUnsupported for a graph that ONNX cannot
// express, ErrPlugin or an *onnx.Error for an answer that cannot be.
func (p *ownPass) run(ctx context.Context, g *graph.Graph) error {
	if err := p.rewrite(ctx, g); err != nil {
		return fmt.Errorf("%s: %w", p.l.path, err)
	}
	return nil
}

// lastModelPass is the last of carve's passes that sees the model's graph.
const lastModelPass = "prepare-properties"

func (p *ownPass) rewrite(ctx context.Context, g *graph.Graph) error {
	for n := range g.Nodes() {
		if n.Op.Domain == graph.CarveDomain {
			return fmt.Errorf("%w: a partitioned graph, which has %v, cannot be written as ONNX: a library's pass comes before %q at the latest",
				onnx.ErrUnsupported, n.Op, lastModelPass)
		}
	}
	names := make([]string, len(g.Outputs))
	for i, v := range g.Outputs {
		if names[i] = v.Name; v.Name == "" {
			names[i] = fmt.Sprintf("output %d", i)
		}
	}
	data, weights, err := onnx.Detach(ctx, &onnx.Model{Graph: g, Outputs: names})
	if err != nil {
		return err
	}
	data, weights, err = p.call(ctx, data, weights)
	if err != nil || data == nil {
		return err
	}
	m, err := onnx.Parse(ctx, data, &onnx.Options{Weights: weights})
	if err != nil {
		return err
	}
	if !slices.Equal(m.Outputs, names) {
		return fmt.Errorf("%w: the model's outputs are %q afterwards, and were %q", ErrPlugin, m.Outputs, names)
	}
	return replace(g, m.Graph)
}

// replace gives g the content of the graph that a pass has made of it. Inputs stay what they were, and nodes of the same name
// keep their provenance.
func replace(g, h *graph.Graph) error {
	if len(h.Inputs) != len(g.Inputs) {
		return fmt.Errorf("%w: the model has %d inputs afterwards, and had %d", ErrPlugin, len(h.Inputs), len(g.Inputs))
	}
	for i, v := range h.Inputs {
		was := g.Inputs[i]
		if v.Name != was.Name || !was.Type.MayBe(v.Type) {
			return fmt.Errorf("%w: input %d is %q of type %v afterwards, and was %q of type %v", ErrPlugin, i, v.Name, v.Type, was.Name, was.Type)
		}
		v.Type = was.Type
	}
	origins := map[string][]string{}
	for n := range g.Nodes() {
		if n.Origins != nil {
			origins[n.Name] = n.Origins
		}
	}
	for n := range h.Nodes() {
		if o := origins[n.Name]; o != nil {
			n.Origins = o
		}
	}
	h.Name, h.Doc, h.Meta = g.Name, g.Doc, g.Meta
	g.TakeOver(h)
	return nil
}

// maxModel bounds the bytes of a model: protobuf's messages are no longer.
const maxModel = 1<<31 - 1

// call has the plugin run the pass on a model. It returns copies of what the plugin has made, nil where that is nothing, and
// all weights that it may refer to.
func (p *ownPass) call(ctx context.Context, data []byte, weights []*tensor.Tensor) ([]byte, []*tensor.Tensor, error) {
	var pg page
	defer pg.end()
	w, done := p.l.ownWriter(&pg)
	defer done()
	if w.err != nil {
		return nil, nil, w.err
	}
	in, at := p.l.onnx(w, data, weights), one[cONNX](w)
	opts, cancel := one[cOptions](w), one[int32](w)
	*opts = cOptions{size: uint32(unsafe.Sizeof(*opts)), cancel: address(cancel)}
	at.size = uint32(unsafe.Sizeof(*at))
	if w.err != nil {
		return nil, nil, w.err
	}
	ends := watch{flag: cancel}
	call := ends.begin(ctx)
	err := p.l.do(w, "run", p.c.run, p.at, address(in), address(opts), address(at))
	ends.end(call)
	out := *at
	if err == nil && p.c.release != 0 {
		defer func() { _, _ = p.l.call(w.side, p.c.release, p.at, address(at)) }()
	}
	if ctx.Err() != nil {
		return nil, nil, ctx.Err()
	}
	if err != nil {
		return nil, nil, err
	}
	if out.data == 0 && out.len == 0 {
		return nil, nil, nil
	}
	if out.data == 0 || out.len > maxModel {
		return nil, nil, fmt.Errorf("%w: a model of %d bytes at %#x", ErrPlugin, out.len, out.data)
	}
	made, err := w.bytes(out.data, out.len)
	if err != nil {
		return nil, nil, err
	}
	more, err := views[cTensor](w.side, out.weights, out.nWeights, "weight")
	if err != nil {
		return nil, nil, err
	}
	weights = slices.Clone(weights)
	for i := range more {
		t, err := copyOf(w.side, &more[i])
		if err != nil {
			return nil, nil, fmt.Errorf("%w: weight %d: %w", ErrPlugin, i, err)
		}
		weights = append(weights, t)
	}
	return made, weights, nil
}

// onnx writes a model for a plugin. Nothing of it is copied but the bytes of the model.
func (l *Library) onnx(w *writer, data []byte, weights []*tensor.Tensor) *cONNX {
	c := one[cONNX](w)
	tensors := make([]uintptr, len(weights))
	for i, t := range weights {
		tensors[i] = address(l.tensor(w, t))
	}
	*c = cONNX{size: uint32(unsafe.Sizeof(*c)), data: list(w, data), len: uint64(len(data)), weights: list(w, tensors), nWeights: uint64(len(tensors))}
	return c
}

// copyOf returns a copy of a tensor of the plugin's, which is row-major and compact on the host.
func copyOf(from side, c *cTensor) (*tensor.Tensor, error) {
	dt := tensor.DType(uint8(c.typ))
	if int32(dt) != c.typ || dt == tensor.String || dt.Name() == "" || dt.Size() == 0 && !dt.IsPacked() {
		return nil, fmt.Errorf("elements of type %d", c.typ)
	}
	if c.ndim < 0 {
		return nil, fmt.Errorf("rank %d", c.ndim)
	}
	if c.strides != 0 || c.format != 0 || c.deviceType != 0 && c.deviceType != int32(tensor.Host) {
		return nil, tensor.ErrNotHost
	}
	dims, err := from.dims(c.shape, uint64(c.ndim), "shape")
	if err != nil {
		return nil, err
	}
	n, err := tensor.NumElements(dims)
	if err != nil {
		return nil, err
	}
	if size := dt.Bytes(n); int64(size) != c.bytes || size > 0 && c.data == 0 {
		return nil, fmt.Errorf("%w: %d bytes at %#x for %v%v", tensor.ErrShape, c.bytes, c.data, dt, dims)
	}
	t, err := tensor.New(dt, dims...)
	if err != nil {
		return nil, err
	}
	if len(t.Data) == 0 {
		return t, nil
	}
	return t, from.read(c.data+uintptr(c.byteOffset), t.Data)
}
