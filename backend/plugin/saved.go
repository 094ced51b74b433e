package plugin

import (
	"context"
	"fmt"
	"unsafe"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/onnx"
	"github.com/carve-dev/carve/graph/tensor"
)

// Fingerprint implements backend.Loader: plugin and processor with their versions.
func (b *Backend) Fingerprint() string {
	l, p := b.p.l, &b.p.info
	return fmt.Sprintf("plugin %q %q %q, processor %q %q %q", l.name, l.version, l.vendor, p.Name, p.Version, p.Arch)
}

// Load implements backend.Loader. The error wraps backend.ErrUnavailable where the plugin does not load, or is the plugin's.
func (b *Backend) Load(ctx context.Context, sub *graph.Graph, saved []byte, o backend.CompileOptions) (backend.Executable, error) {
	if b.p.l.table.load == 0 || len(saved) == 0 {
		return nil, fmt.Errorf("%w: %s loads nothing, or from %d bytes", backend.ErrUnavailable, b.p.info.Name, len(saved))
	}
	return b.make(ctx, sub, o, saved)
}

// maxSaved bounds the bytes that a plugin may save an executable as.
const maxSaved = 1 << 32

// Save implements backend.Saver: nil where the plugin keeps nothing.
func (e *executable) Save(ctx context.Context) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	e.mu.Lock() // the bytes are there until the executable is closed
	defer e.mu.Unlock()
	l := e.b.p.l
	switch {
	case l.table.save == 0:
		return nil, nil
	case e.closed:
		return nil, fmt.Errorf("%w: the group is closed", backend.ErrUnavailable)
	}
	w, done := e.b.p.writer()
	defer done()
	if err := e.revive(ctx, w); err != nil {
		return nil, err
	}
	out := one[cSaved](w)
	out.size = uint32(unsafe.Sizeof(*out))
	if w.err != nil {
		return nil, w.err
	}
	if err := e.b.p.do(w, "save", l.table.save, uintptr(e.at.word), address(out)); err != nil {
		return nil, err
	}
	at, n := out.data, out.len
	if n == 0 {
		return nil, nil
	}
	if at == 0 || n > maxSaved {
		return nil, fmt.Errorf("%w: %s saves %d bytes at %#x", ErrPlugin, l.path, n, at)
	}
	return w.bytes(at, n)
}

// asONNX gives a described group its form as a model where the processor wants it, and returns the weights, which the caller
// keeps for as long as the executable. A group that ONNX cannot express goes without.
func (b *Backend) asONNX(ctx context.Context, w *writer, d *description, sub *graph.Graph) []*tensor.Tensor {
	if b.p.info.flags&processorONNX == 0 {
		return nil
	}
	data, weights, err := groupAsONNX(ctx, sub)
	if err != nil {
		if log := b.p.l.host.logger.Load(); log != nil {
			log.DebugContext(ctx, "group goes to the plugin without its form in ONNX", "backend", b.p.info.Name, "group", sub.Name, "error", err)
		}
		return nil
	}
	d.at.onnx = address(b.p.l.onnx(w, data, weights))
	return weights
}

// groupAsONNX writes a group as a model of its own, with fused nodes taken apart. Operator sets are those of the model that the
// group is of, or newer where simplification has put in a newer operator.
func groupAsONNX(ctx context.Context, sub *graph.Graph) ([]byte, []*tensor.Tensor, error) {
	g, err := sub.Clone()
	if err != nil {
		return nil, nil, err
	}
	for {
		var fused *graph.Node
		for n := range g.Nodes() {
			if n.IsCarve(graph.OpFused) {
				fused = n
				break
			}
		}
		if fused == nil {
			break
		}
		if _, err := g.Inline(fused); err != nil {
			return nil, nil, err
		}
	}
	if g.Opsets == nil {
		g.Opsets = map[string]int{}
	}
	for outer := sub; outer != nil; outer = outer.Owner().Graph() {
		for domain, version := range outer.Opsets {
			if g.Opsets[domain] == 0 {
				g.Opsets[domain] = version
			}
		}
		if outer.Owner() == nil {
			break
		}
	}
	for n := range g.Nodes() {
		if n.Op.Domain != graph.CarveDomain {
			g.Opsets[n.Op.Domain] = max(g.Opsets[n.Op.Domain], n.Op.Since, 1)
		}
	}
	return onnx.Detach(ctx, &onnx.Model{Graph: g})
}
