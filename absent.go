package carve

import (
	"context"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/property"
)

// absent stands in the list for a backend that is not available here: it turns every node down with the reason, so that
// other backends have its place, and reports say why.
type absent struct {
	name string
	err  error
}

// Info implements backend.Backend.
func (a *absent) Info() backend.Info { return backend.Info{Name: a.name} }

// Supports implements backend.Backend.
func (a *absent) Supports(*graph.Node) backend.Support {
	return backend.No(property.Unavailable, "%v", a.err)
}

// Properties implements backend.Backend.
func (*absent) Properties() []property.SubgraphProperty { return nil }

// Compile implements backend.Backend. It is asked where a user's property claims nodes by itself.
func (a *absent) Compile(context.Context, *graph.Graph, backend.CompileOptions) (backend.Executable, error) {
	return nil, a.err
}

// Devices implements backend.Backend.
func (*absent) Devices() []device.Device { return []device.Device{device.Host} }

// Converters implements backend.Backend.
func (*absent) Converters() []convert.Converter { return nil }

// Close implements backend.Backend.
func (*absent) Close() error { return nil }
