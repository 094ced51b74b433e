package tune

import (
	"fmt"

	"github.com/carve-dev/carve/graph"
)

// ShapeError says that an input cannot be measured with the shape that it was given, or with none.
type ShapeError struct{ Input, Problem, Expected, Found string }

func (e *ShapeError) Error() string { return fmt.Sprintf("input %q: %s", e.Input, e.Problem) }

// Bind returns the values that shapes of inputs give to open symbols. Errors are *ShapeErrors.
func Bind(g *graph.Graph, shapes map[string][]int) (graph.Bindings, *ShapeError) {
	at := graph.Bindings{}
	for _, v := range g.Inputs {
		dims, given := shapes[v.Name]
		fault := func(problem string) *ShapeError {
			return &ShapeError{Input: v.Name, Problem: problem, Expected: v.Type.String(), Found: fmt.Sprint(dims)}
		}
		if given && len(dims) != len(v.Type.Shape) {
			return nil, fault("a shape of another rank")
		}
		for i, d := range v.Type.Shape {
			name, symbol := d.Symbol()
			n, known := d.Const()
			switch {
			case given && symbol:
				if old, twice := at[name]; dims[i] < 0 || twice && old != int64(dims[i]) {
					return nil, fault("a shape that does not fit")
				}
				at[name] = int64(dims[i])
			case given && known && n != int64(dims[i]):
				return nil, fault("a shape that does not fit")
			}
		}
	}
	for _, v := range g.Inputs { // a shape may settle a symbol of another input
		if _, err := v.Type.Shape.Eval(at, nil); v.Type.IsTensor() && v.Type.Shape.Known() && err != nil {
			return nil, &ShapeError{Input: v.Name, Problem: "its shape is open: tuning needs one", Expected: v.Type.String()}
		}
	}
	return at, nil
}
