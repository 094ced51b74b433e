package tune

import (
	"fmt"
	"maps"
	"slices"

	"github.com/carve-dev/carve/graph"
)

// ShapeError says that an input cannot be measured with the shape that it was given, or with none.
type ShapeError struct{ Input, Problem, Expected, Found string }

func (e *ShapeError) Error() string { return fmt.Sprintf("input %q: %s", e.Input, e.Problem) }

// mostPoints bounds the combinations of values that are measured.
const mostPoints = 64

// Points returns the values of open symbols that are measured: those that shapes of inputs give, with every combination of those that dims
// lists, in ascending order by the names of symbols. None is beyond its bound. Errors are *ShapeErrors.
func Points(g *graph.Graph, shapes, dims map[string][]int, bounds map[string]int) ([]graph.Bindings, *ShapeError) {
	fixed, fault := given(g, shapes)
	if fault != nil {
		return nil, fault
	}
	open := map[string]bool{}
	for _, v := range g.Inputs {
		for _, d := range v.Type.Shape {
			d.Symbols(open)
		}
	}
	points := []graph.Bindings{fixed}
	for _, name := range slices.Sorted(maps.Keys(dims)) {
		values := slices.Compact(slices.Sorted(slices.Values(dims[name])))
		_, twice := fixed[name]
		switch {
		case !open[name]:
			return nil, &ShapeError{Input: name, Problem: "no input has an open dim of that name"}
		case twice:
			return nil, &ShapeError{Input: name, Problem: "a shape gives this dim one value", Found: fmt.Sprint(values)}
		case len(values) == 0 || values[0] < 0:
			return nil, &ShapeError{Input: name, Problem: "a dim with no value that is not negative", Found: fmt.Sprint(values)}
		case len(points)*len(values) > mostPoints:
			return nil, &ShapeError{Input: name, Problem: "too many values of dims", Expected: fmt.Sprintf("at most %d combinations", mostPoints)}
		}
		var more []graph.Bindings
		for _, at := range points {
			for _, n := range values {
				with := maps.Clone(at)
				with[name] = int64(n)
				more = append(more, with)
			}
		}
		points = more
	}
	for _, at := range points {
		if fault := complete(g, at); fault != nil {
			return nil, fault
		}
		for _, name := range slices.Sorted(maps.Keys(bounds)) {
			if n, most := at[name], int64(bounds[name]); n > most {
				return nil, &ShapeError{Input: name, Problem: "dim is larger than its bound", Expected: fmt.Sprint(most), Found: fmt.Sprint(n)}
			}
		}
	}
	return points, nil
}

// given returns the values that shapes of inputs give to open symbols.
func given(g *graph.Graph, shapes map[string][]int) (graph.Bindings, *ShapeError) {
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
	return at, nil
}

// complete returns a fault where values leave the shape of an input open.
func complete(g *graph.Graph, at graph.Bindings) *ShapeError {
	for _, v := range g.Inputs {
		if _, err := v.Type.Shape.Eval(at, nil); v.Type.IsTensor() && v.Type.Shape.Known() && err != nil {
			return &ShapeError{Input: v.Name, Problem: "its shape is open: tuning needs one", Expected: v.Type.String()}
		}
	}
	return nil
}
