package reference

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/property"
)

func init() { backend.Register("reference", Open) }

// Open opens the reference backend. It has no options.
func Open(c backend.Config) (backend.Backend, error) {
	for k := range c.Options {
		return nil, fmt.Errorf("%w: %q, expected none", backend.ErrOption, k)
	}
	return &Backend{Name: "reference", opened: true}, nil
}

// Backend is the oracle and last fallback: the plain kernels behind the Backend interface. Tests open several under
// different names, each with a layout of its own for tensors of some rank, so that every cut between them converts.
type Backend struct {
	Name string
	// Layout, where it is not nil, gives the layout in which the backend holds tensors of a type.
	Layout func(t graph.Type) graph.Layout
	// Own are converters of the layouts that Layout gives.
	Own []convert.Converter
	// Accept, where it is not nil, limits the nodes that the backend takes.
	Accept func(n *graph.Node) bool

	opened bool // by Open: it is the oracle, and no test's stand-in for another backend
}

// Info implements backend.Backend.
func (b *Backend) Info() backend.Info {
	info := backend.Info{Name: b.Name, Version: "1", Processor: runtime.GOARCH, Oracle: b.opened}
	if b.opened {
		info.Efficiency = efficiencyOf("any")
	}
	return info
}

// Properties implements backend.Backend.
func (b *Backend) Properties() []property.SubgraphProperty { return nil }

// Devices implements backend.Backend.
func (b *Backend) Devices() []device.Device { return []device.Device{device.Host} }

// Converters implements backend.Backend.
func (b *Backend) Converters() []convert.Converter { return b.Own }

// Close implements backend.Backend.
func (b *Backend) Close() error { return nil }

// format returns the format in which the backend holds v.
func (b *Backend) format(v *graph.Value) graph.Format {
	if b.Layout == nil || v == nil || v.IsDims() || !v.Type.Backed() || v.Type.DType == tensor.String {
		return graph.HostFormat
	}
	return graph.On(b.Layout(v.Type))
}

// Supports implements backend.Backend: everything that has a kernel.
func (b *Backend) Supports(n *graph.Node) backend.Support {
	if b.Accept != nil && !b.Accept(n) {
		return backend.No(property.Unsupported, "not accepted by this instance")
	}
	if n.IsCarve(graph.OpFused) {
		return backend.No(property.Unsupported, "fused nodes are their property's backend's")
	}
	if err := Supports(n); err != nil {
		var why *property.Reason
		if errors.As(err, &why) {
			return backend.Support{Reason: why}
		}
		return backend.No(property.Unsupported, "%v", err)
	}
	s := graph.Signature{Name: "plain"}
	for _, v := range n.Inputs {
		s.Inputs = append(s.Inputs, graph.Fixed(b.format(v)))
	}
	for _, v := range n.Outputs {
		s.Outputs = append(s.Outputs, graph.Fixed(b.format(v)))
	}
	return backend.Support{Signatures: []graph.Signature{s}}
}

// Compile implements backend.Backend.
func (b *Backend) Compile(_ context.Context, sub *graph.Graph, _ backend.CompileOptions) (backend.Executable, error) {
	order, err := sub.Topo()
	if err != nil {
		return nil, err
	}
	return newExecutable(b, sub, order)
}
