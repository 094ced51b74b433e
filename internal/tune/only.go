package tune

import (
	"context"
	"fmt"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/partition"
)

// Only is a partition.Chooser for the graphs of one node that are measured: it gives the node to a backend with one signature.
type Only struct {
	Backend   string
	Signature graph.Signature
}

// Choose implements partition.Chooser.
func (o *Only) Choose(ctx context.Context, t *partition.Candidates) error {
	for i := range t.Backends() {
		if t.Backend(i) != o.Backend {
			continue
		}
		return t.Collect(ctx, i, func(c *partition.Candidate) bool {
			if c.Claim != nil || c.Node.Name != NodeName {
				return false
			}
			c.Signatures = []graph.Signature{o.Signature}
			return true
		})
	}
	return fmt.Errorf("%w: %q", backend.ErrUnknown, o.Backend)
}
