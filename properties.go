package carve

import (
	"fmt"
	"maps"
	"slices"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/property"
)

// checkProperties validates Options.Properties: they belong to listed backends, and no two properties of a backend share
// a name, since a fused node is known by it.
func (o *Options) checkProperties(list []backend.Backend) error {
	for _, name := range slices.Sorted(maps.Keys(o.Properties)) {
		i := slices.IndexFunc(list, func(b backend.Backend) bool { return b.Info().Name == name })
		if i < 0 {
			return fmt.Errorf("%w: properties for %q, which is not among the backends", backend.ErrUnknown, name)
		}
		seen := map[string]bool{}
		for _, p := range append(slices.Clone(o.Properties[name]), list[i].Properties()...) {
			if p == nil {
				return fmt.Errorf("%w: a nil property for %s", backend.ErrOption, name)
			}
			if seen[p.Name()] {
				return fmt.Errorf("%w: two properties of %s are named %q", backend.ErrOption, name, p.Name())
			}
			seen[p.Name()] = true
		}
	}
	return nil
}

// compileOptions returns what a backend is told when it compiles a group.
func (o *Options) compileOptions(b backend.Backend) backend.CompileOptions {
	var own []property.SubgraphProperty
	if o.Properties != nil {
		own = o.Properties[b.Info().Name]
	}
	return backend.CompileOptions{Threads: o.Threads, Properties: own}
}
