package backendtest

import (
	"context"
	"slices"

	"github.com/carve-dev/carve/backend"
)

// Said runs sections of the suite on a backend, and returns what they say.
func Said(open func() backend.Backend, sections ...string) []string {
	v := &examination{ctx: context.Background()}
	s := &suite{open: open}
	for _, x := range s.sections() {
		if slices.Contains(sections, x.name) {
			v.sub(x.name, x.run)
		}
	}
	return v.said
}
