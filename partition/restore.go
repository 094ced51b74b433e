package partition

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// Restore returns the Result of a graph that was partitioned at another time, as far as the graph tells it: groups, and
// constants in other formats than the model's. The error wraps ErrPlan, or is a *graph.VerifyError, where the graph is no sound
// partition, or has a group on none of the backends.
func Restore(g *graph.Graph, backends []string) (*Result, error) {
	s := &State{g: g, names: backends, result: &Result{}}
	if err := s.Edited(); err != nil {
		return nil, err
	}
	type pack struct {
		t *tensor.Tensor
		f graph.Format
	}
	seen := map[pack]bool{}
	for _, gr := range s.result.Groups {
		for v := range gr.Body.Constants() {
			if !v.IsConst() || v.Format == graph.HostFormat || seen[pack{v.Const, v.Format}] {
				continue
			}
			seen[pack{v.Const, v.Format}] = true
			s.result.Packs = append(s.result.Packs, Pack{Name: v.Name, Constant: &tensor.Tensor{DType: v.Const.DType, Shape: v.Const.Shape},
				Format: v.Format, Packed: v.Const})
		}
	}
	return s.result, nil
}
