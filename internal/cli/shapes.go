package cli

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// binding is the concrete shape of everything that enters a model.
type binding struct {
	dims   map[string]int   // every symbol of the inputs
	shapes map[string][]int // inputs of unknown rank, and those that --shape names
	unset  []string         // the symbols that nobody set: they are 1
	values graph.Bindings   // dims, as graph wants them
	open   map[string][]int // symbols that stay open when the model is compiled, with the values that are measured

	libraries []*backend.Library // of --plugin
}

// bind decides all symbols of the inputs of g: --dim counts first, then --shape, then the shapes of the tensors that
// are fed; what is left is 1.
func bind(g *graph.Graph, f *modelFlags, feeds map[string]tensor.Value) (*binding, error) {
	dims, shapes, err := f.parseShapes()
	if err != nil {
		return nil, err
	}
	b := &binding{dims: map[string]int{}, shapes: shapes, values: graph.Bindings{}}
	if b.libraries, err = f.libraries(); err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for _, v := range g.Inputs {
		for _, d := range v.Type.Shape {
			d.Symbols(known)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(dims)) {
		symbol, ok := symbolOf(known, name)
		if !ok {
			return nil, fmt.Errorf("--dim %s: no input has a dim of that name (there are: %s)", name, nameList(known))
		}
		b.dims[symbol] = dims[name]
	}
	if b.open, err = f.parseOpen(known); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(shapes)) {
		if !slices.ContainsFunc(g.Inputs, func(v *graph.Value) bool { return v.Name == name }) {
			return nil, fmt.Errorf("--shape %s: %w", name, noInput(g, name))
		}
	}
	for _, v := range g.Inputs {
		shape, given := shapes[v.Name]
		if t, ok := feeds[v.Name].(*tensor.Tensor); ok && !given {
			shape, given = t.Shape, true
			if !v.Type.Shape.Known() {
				b.shapes[v.Name] = shape
			}
		}
		if given && len(shape) == len(v.Type.Shape) {
			for k, d := range v.Type.Shape {
				if s, ok := d.Symbol(); ok {
					if _, had := b.dims[s]; !had {
						b.dims[s] = shape[k]
					}
				}
			}
		}
	}
	for _, s := range slices.Sorted(maps.Keys(known)) {
		if _, ok := b.dims[s]; !ok {
			b.dims[s] = 1
			if len(b.open[s]) == 0 {
				b.unset = append(b.unset, s)
			}
		}
		b.values[s] = int64(b.dims[s])
	}
	return b, nil
}

// parseShapes reads --dim and --shape.
func (f *modelFlags) parseShapes() (dims map[string]int, shapes map[string][]int, err error) {
	dims, shapes = map[string]int{}, map[string][]int{}
	for _, s := range f.dims {
		name, text, ok := cutLast(s)
		n, err := strconv.Atoi(text)
		if !ok || err != nil || n < 0 {
			return nil, nil, fmt.Errorf("--dim %s: expected NAME=N with N of at least 0", s)
		}
		if _, twice := dims[name]; twice {
			return nil, nil, fmt.Errorf("--dim %s: %q is set twice", s, name)
		}
		dims[name] = n
	}
	for _, s := range f.shapes {
		name, text, ok := cutLast(s)
		if !ok {
			return nil, nil, fmt.Errorf("--shape %s: expected INPUT=1,128", s)
		}
		if _, twice := shapes[name]; twice {
			return nil, nil, fmt.Errorf("--shape %s: %q is set twice", s, name)
		}
		shape := []int{}
		for _, d := range strings.Split(text, ",") {
			if text == "" {
				break // a scalar
			}
			n, err := strconv.Atoi(strings.TrimSpace(d))
			if err != nil || n < 0 {
				return nil, nil, fmt.Errorf("--shape %s: %q is no dim", s, d)
			}
			shape = append(shape, n)
		}
		shapes[name] = shape
	}
	return dims, shapes, nil
}

// parseOpen reads --open, for a model with these symbols.
func (f *modelFlags) parseOpen(known map[string]bool) (map[string][]int, error) {
	open := map[string][]int{}
	for _, s := range f.openDims {
		name, text, listed := cutLast(s)
		if !listed {
			name = s
		}
		symbol, ok := symbolOf(known, name)
		if !ok {
			return nil, fmt.Errorf("--open %s: no input has a dim of that name (there are: %s)", s, nameList(known))
		}
		if _, twice := open[symbol]; twice {
			return nil, fmt.Errorf("--open %s: %q is given twice", s, name)
		}
		if listed != f.measuring {
			return nil, fmt.Errorf("--open %s: expected NAME, or of tune NAME=1,8,32", s)
		}
		open[symbol] = nil
		for _, d := range strings.Split(text, ",") {
			if !listed {
				break
			}
			n, err := strconv.Atoi(strings.TrimSpace(d))
			if err != nil || n < 0 {
				return nil, fmt.Errorf("--open %s: %q is no dim", s, d)
			}
			open[symbol] = append(open[symbol], n)
		}
	}
	return open, nil
}

// opened reports whether a symbol of an input's shape stays open, and whether values of such a one are measured.
func (b *binding) opened(v *graph.Value) (open, measured bool) {
	used := map[string]bool{}
	for _, d := range v.Type.Shape {
		d.Symbols(used)
	}
	for name, values := range b.open {
		open = open || used[name]
		measured = measured || used[name] && len(values) > 0
	}
	return open, measured
}

// cutLast cuts at the last "=", since names may hold one and numbers do not.
func cutLast(s string) (name, value string, ok bool) {
	i := strings.LastIndexByte(s, '=')
	if i <= 0 {
		return "", "", false
	}
	return s[:i], s[i+1:], true
}

// symbolOf finds the symbol for a dim's name in the model file, where it need not be an identifier.
func symbolOf(known map[string]bool, name string) (string, bool) {
	if known[name] {
		return name, true
	}
	plain := strings.Map(func(r rune) rune {
		if r == '_' || r == '.' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, name)
	return plain, known[plain]
}

func nameList(set map[string]bool) string {
	if len(set) == 0 {
		return "none"
	}
	names := slices.Sorted(maps.Keys(set))
	if len(names) > 20 {
		names = append(names[:20], "…")
	}
	return strings.Join(names, ", ")
}

// noInput says that g lacks an input, and which it has.
func noInput(g *graph.Graph, name string) error {
	set := map[string]bool{}
	for _, v := range g.Inputs {
		set[v.Name] = true
	}
	return fmt.Errorf("the model has no input %q (there are: %s)", name, nameList(set))
}

// report returns the symbols' values for JSON.
func (b *binding) report() map[string]int64 { return b.values }

// apply puts the shapes of a model's inputs into options, but for what stays open.
func (b *binding) apply(g *graph.Graph, o *carve.Options) {
	o.Dims, o.Shapes = maps.Clone(b.dims), maps.Clone(b.shapes)
	for name := range b.open {
		delete(o.Dims, name)
	}
	for _, v := range g.Inputs {
		if open, _ := b.opened(v); open {
			delete(o.Shapes, v.Name) // its other symbols are among the dims
		}
	}
}

// say tells which symbols nobody set.
func (b *binding) say(a *app) {
	if taken := b.taken(); taken != "" {
		a.note("%s", taken)
	}
}

// taken lists the symbols that nobody set, if there are some.
func (b *binding) taken() string {
	if len(b.unset) == 0 {
		return ""
	}
	return fmt.Sprintf("dims not set, taken as 1: %s (--dim NAME=N)", strings.Join(b.unset, ", "))
}

// shapeOf returns the concrete shape of an input.
func (b *binding) shapeOf(v *graph.Value) ([]int, error) {
	if shape, ok := b.shapes[v.Name]; ok {
		return shape, nil
	}
	if !v.Type.Shape.Known() {
		return nil, fmt.Errorf("input %q has an unknown rank: --shape %s=…", v.Name, v.Name)
	}
	return v.Type.Shape.Eval(b.values, []int{})
}
