package carve

import (
	"context"

	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/exec"
)

// Difference is what Check found: the first node whose result on its backend differs from the reference kernels'.
type Difference struct {
	Group   int      // id of the group in the Report
	Backend string   // that ran the group
	Nodes   []string // of the model: the node, or the unit that the backend fused
	Op      string
	Value   string  // the result
	Index   int     // first element that differs
	Got     float64 // the backend's
	Want    float64 // the reference kernels'
}

// String describes the difference in one line.
func (d *Difference) String() string { return (*exec.Difference)(d).String() }

// Check runs the program once and compares every group with the reference kernels, on the inputs that the group had. Where
// a group differs, its nodes are compiled and run one by one on their backend to find the first that does. It returns nil
// where everything agrees. Results of eight-bit quantisation may be one step off, and what follows from that in a group is no
// difference where none of its nodes differs by itself.
func (p *Program) Check(ctx context.Context, inputs map[string]tensor.Value) (*Difference, error) {
	s, err := p.runs().Acquire(background(ctx))
	if err != nil {
		return nil, err
	}
	defer p.machine.GiveBack(s)
	stop := s.Check()
	_, err = s.Run(background(ctx), inputs)
	d, failed := stop()
	if err == nil {
		err = failed
	}
	if err != nil {
		return nil, public(err)
	}
	return (*Difference)(d), nil
}
