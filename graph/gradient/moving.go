package gradient

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// movingRules are those of operators that move elements and compute nothing.
var movingRules = map[string]func(*step){
	"Reshape":   (*step).reshaped,
	"Flatten":   (*step).reshaped,
	"Squeeze":   (*step).reshaped,
	"Unsqueeze": (*step).reshaped,
	"Expand":    func(s *step) { s.give(0, s.byOut()) },
	"Trilu": func(s *step) {
		ins := []*graph.Value{s.byOut()}
		if s.in(1) != nil {
			ins = append(ins, s.in(1))
		}
		s.give(0, s.call("Trilu", s.n.Attrs, ins...))
	},
	"Transpose": func(s *step) {
		if perm, ok := s.n.Ints("perm"); ok {
			s.give(0, s.transpose(s.byOut(), inverted(narrow(perm))))
		} else {
			s.give(0, s.call("Transpose", nil, s.byOut()))
		}
	},
	"Concat": func(s *step) {
		a := axis(s.n, s.out(), 1)
		for _, x := range s.n.Inputs {
			require(rank(x) > a, ErrShape, "%v of unknown rank", x)
		}
		parts := []*graph.Value{s.byOut()}
		if len(s.n.Inputs) > 1 {
			parts = s.calls("Split", len(s.n.Inputs), attrs(graph.IntAttr("axis", int64(a))), s.byOut(), s.dims(a, s.n.Inputs...))
		}
		for i, v := range parts {
			s.give(i, v)
		}
	},
	"Split": func(s *step) {
		parts := make([]*graph.Value, len(s.n.Outputs))
		for i, out := range s.n.Outputs {
			require(out != nil, ErrNoRule, "an omitted result")
			if parts[i] = s.byOuts[i]; parts[i] == nil {
				parts[i] = s.filled(out, 0)
			}
		}
		s.give(0, s.concat(axis(s.n, s.in(0), 0), parts...))
	},
	"Gather": gather,
	"Pad": func(s *step) { // of constants: what was put in is cut off
		require(!s.wants(2), ErrNoRule, "the derivative by what is put in")
		ins := []*graph.Value{s.byOut()}
		if pads, ok := s.n.Ints("pads"); ok {
			ins = append(ins, s.negated(s.ints(pads...)))
		} else if ins = append(ins, s.negated(s.in(1))); s.in(3) != nil {
			ins = append(ins, nil, s.in(3))
		}
		s.give(0, s.call("Pad", nil, ins...))
	},
	"Slice": func(s *step) {
		pads, _ := s.slicePads()
		s.give(0, s.call("Pad", nil, s.byOut(), s.ints(pads...)))
	},
	"ScatterND": func(s *step) {
		set := s.setsOrAdds()
		g, places := s.byOut(), s.in(1)
		s.give(2, s.call("GatherND", nil, g, places))
		if set && s.wants(0) {
			g = s.call("ScatterND", nil, g, places, s.filled(s.in(2), 0))
		}
		s.give(0, g)
	},
	"ScatterElements": func(s *step) {
		set := s.setsOrAdds()
		g, places, as := s.byOut(), s.in(1), attrs(graph.IntAttr("axis", s.n.Int("axis", 0)))
		s.give(2, s.call("GatherElements", as, g, places))
		if set && s.wants(0) {
			g = s.call("ScatterElements", as, g, places, s.filled(s.in(2), 0))
		}
		s.give(0, g)
	},
}

// setsOrAdds reports whether a scatter replaces elements; otherwise it adds to them.
func (s *step) setsOrAdds() (sets bool) {
	r := s.n.Str("reduction", "none")
	require(r == "none" || r == "add", ErrNoRule, "the reduction %q", r)
	return r == "none"
}

func (s *step) reshaped() { s.give(0, s.reshape(s.byOut(), s.shape(s.in(0)))) }

// gather adds rows to those that they came from.
func gather(s *step) {
	x, places, g := s.in(0), s.in(1), s.byOut()
	a, indices := axis(s.n, x, 0), rank(places)
	if places.Type.DType != tensor.Int64 {
		places = s.call("Cast", attrs(graph.IntAttr("to", int64(tensor.Int64))), places)
	}
	// The axis first, in x as in the result.
	perm := append(append([]int{a}, series(0, a)...), series(a+1, rank(x))...)
	g = s.transpose(g, append(append(series(a, a+indices), series(0, a)...), series(a+indices, rank(g))...))
	rows := s.call("ScatterND", attrs(graph.StringAttr("reduction", "add")), s.transpose(s.filled(x, 0), perm),
		s.call("Unsqueeze", nil, places, s.ints(-1)), g)
	s.give(0, s.transpose(rows, inverted(perm)))
}

// movingDefinitions are those of operators whose result is gathered from operand 0, wherever they take elements from.
var movingDefinitions = map[string]func(*step) []*graph.Value{
	"Compress":        moved,
	"DepthToSpace":    moved,
	"GatherElements":  moved,
	"GatherND":        moved,
	"ReverseSequence": moved,
	"SpaceToDepth":    moved,
	"Tile":            moved,
	"Pad": func(s *step) []*graph.Value {
		if s.n.Str("mode", "constant") == "constant" {
			return nil
		}
		return moved(s)
	},
	"Slice": func(s *step) []*graph.Value {
		if _, ok := s.slicePads(); ok {
			return nil
		}
		return moved(s)
	},
	"TopK": func(s *step) []*graph.Value {
		places := s.n.Output(1)
		if places == nil {
			places = s.again(s.n, s.n.Inputs, 2).Outputs[1]
		}
		return one(s.call("GatherElements", attrs(graph.IntAttr("axis", s.n.Int("axis", -1))), s.in(0), places))
	},
}

// moved applies the node to the numbers of its elements, and gathers by them.
func moved(s *step) []*graph.Value {
	x := s.in(0)
	zero, unit := s.g.AddConst("", tensor.Scalar(int64(0))), s.g.AddConst("", tensor.Scalar(int64(1)))
	numbers := s.reshape(s.call("Range", nil, zero, s.call("Size", nil, x), unit), s.shape(x))
	places := s.again(s.n, append([]*graph.Value{numbers}, s.n.Inputs[1:]...), 1)
	return one(s.call("Gather", nil, s.flat(x), places.Outputs[0]))
}

// slicePads returns what a Slice with steps of 1 has cut off in front and behind each axis. ok is false where that is not known.
func (s *step) slicePads() (pads []int64, ok bool) {
	x, y := s.in(0).Type.Shape, s.out().Type.Shape
	starts, ok := s.list("starts", 1)
	axes, named := s.list("axes", 3)
	steps, stepped := s.list("steps", 4)
	if !ok || !named && s.in(3) != nil || !stepped && s.in(4) != nil || named && len(axes) != len(starts) || x == nil || y == nil {
		return nil, false
	}
	pads = make([]int64, 2*len(x))
	for i, start := range starts {
		a := i
		if named {
			var err error
			if a, err = graph.NormAxis(axes[i], len(x)); err != nil {
				return nil, false
			}
		}
		if n, known := x[a].Const(); known {
			start, _ = graph.SliceRange(n, start, n, 1)
		}
		end, known := x[a].Sub(y[a]).Sub(graph.D(int(start))).Const()
		if start < 0 || !known || stepped && steps[i] != 1 {
			return nil, false
		}
		pads[a], pads[len(x)+a] = start, end
	}
	return pads, true
}

// list returns integers that an attribute or a constant operand has.
func (s *step) list(attr string, operand int) (list []int64, ok bool) {
	if list, ok := s.n.Ints(attr); ok {
		return list, true
	}
	v := s.in(operand)
	if v == nil || v.Const == nil {
		return nil, false
	}
	list = make([]int64, v.Const.Len())
	return list, tensor.DecodeInts(list, v.Const) == nil
}
