// Package twin finds subgraphs that are equal but for names and weights, such as the layers of a transformer, and has them run by what
// was compiled for one of them.
//
// The package imports backend and what is below it.
package twin

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
)

// Text returns a text that subgraphs have in common which are equal but for the names of values and nodes, where nodes come from,
// and what is in constants of more than backend.RepeatedContent elements. It costs O(size of the subgraph).
func Text(sub *graph.Graph) (string, error) {
	g, err := sub.Clone()
	if err != nil {
		return "", err
	}
	g.Name = ""
	strip(g)
	var s strings.Builder
	err = graph.Print(&s, g, &graph.PrintOptions{MaxElements: backend.RepeatedContent})
	return s.String(), err
}

// strip takes names and the data of large constants out of a graph.
func strip(g *graph.Graph) {
	for _, vs := range [][]*graph.Value{g.Inputs, g.Captures, slices.Collect(g.Constants())} {
		for _, v := range vs {
			v.Name = ""
			if v.IsConst() && v.Const.Len() > backend.RepeatedContent {
				v.Const = &tensor.Tensor{DType: v.Const.DType, Shape: v.Const.Shape, Device: v.Const.Device}
			}
		}
	}
	for n := range g.Nodes() {
		n.Name, n.Origins = "", nil
		for _, v := range n.Outputs {
			if v != nil {
				v.Name = ""
			}
		}
		for _, r := range n.Regions {
			strip(r.Graph)
		}
	}
}

// Group is one of those that are to be compiled.
type Group struct {
	Body    *graph.Graph
	Backend backend.Backend     // nil for a group that has no twins
	Exe     *backend.Executable // of the group, nil in it where it has not been compiled
	first   int                 // place of the group that it is run by
}

// Find looks for groups that are equal, of those whose backends run them by one executable, and returns the places of all groups that
// are to be compiled: of equal ones the first.
func Find(list []Group) (compile []int) {
	seen := map[[2]string]int{} // by backend and text
	for i := range list {
		g := &list[i]
		g.first = i
		if r, ok := g.Backend.(backend.Repeating); ok && r.Repeats(g.Body) {
			if text, err := Text(g.Body); err == nil { // otherwise it is compiled by itself
				k := [2]string{g.Backend.Info().Name, text}
				if _, known := seen[k]; !known {
					seen[k] = i
				}
				g.first = seen[k]
			}
		}
		if g.first == i {
			compile = append(compile, i)
		}
	}
	return compile
}

// Share gives groups the executables of the first of their twins. It returns the places of those whose first has none.
func Share(list []Group) (left []int) {
	shared := map[int]*Shared{}
	for i := range list {
		first := &list[list[i].first]
		switch s := shared[list[i].first]; {
		case list[i].first == i:
		case s != nil:
			*list[i].Exe = s.As(list[i].Body)
		case *first.Exe == nil:
			left = append(left, i)
		default:
			s = New(first.Body, *first.Exe)
			shared[list[i].first] = s
			*first.Exe, *list[i].Exe = s.First(), s.As(list[i].Body)
		}
	}
	return left
}

// Shared is an executable that runs several equal subgraphs. It is safe for concurrent use, like its Executables.
type Shared struct {
	of  *graph.Graph // what it was compiled from
	exe backend.Executable

	mu   sync.Mutex
	at   graph.Bindings
	last backend.Instance // the latest one, for at: twins are specialised one after the other
}

// New returns what was compiled for a subgraph as something that others are run by as well.
func New(of *graph.Graph, exe backend.Executable) *Shared { return &Shared{of: of, exe: exe} }

// First is the executable for the subgraph that was compiled. Closing it ends all.
func (s *Shared) First() backend.Executable { return &executable{Shared: s, first: true} }

// As is the executable for another subgraph with the same Text.
func (s *Shared) As(sub *graph.Graph) backend.Executable { return &executable{Shared: s, sub: sub} }

// specialize returns the instance for concrete values of the symbols.
func (s *Shared) specialize(ctx context.Context, b graph.Bindings) (backend.Instance, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last != nil && len(b) == len(s.at) {
		same := true
		for name, n := range b {
			m, known := s.at[name]
			same = same && known && m == n
		}
		if same {
			return s.last, nil
		}
	}
	in, err := s.exe.Specialize(ctx, b)
	if err != nil {
		return nil, err
	}
	s.last, s.at = in, graph.Bindings{}
	for name, n := range b {
		s.at[name] = n
	}
	return in, nil
}

// executable is a Shared for one of its subgraphs.
type executable struct {
	*Shared
	sub   *graph.Graph
	first bool
}

// Specialize implements backend.Executable.
func (e *executable) Specialize(ctx context.Context, b graph.Bindings) (backend.Instance, error) {
	in, err := e.specialize(ctx, b)
	if err != nil || e.first {
		return in, err
	}
	return &instance{Instance: in, of: e.of, sub: e.sub}, nil
}

// Save implements backend.Saver for the subgraph that was compiled: the others have nothing to save.
func (e *executable) Save(ctx context.Context) ([]byte, error) {
	if x, ok := e.exe.(backend.Saver); ok && e.first {
		return x.Save(ctx)
	}
	return nil, nil
}

// Close implements backend.Executable.
func (e *executable) Close() error {
	if e.first {
		return e.exe.Close()
	}
	return nil
}

// instance is an instance of another subgraph: what it says of nodes is said of that one's.
type instance struct {
	backend.Instance
	of, sub *graph.Graph
}

// Requirements implements backend.Instance.
func (i *instance) Requirements() backend.Requirements {
	r := i.Instance.Requirements()
	if len(r.Labels) == 0 {
		return r
	}
	r.Labels = slices.Clone(r.Labels)
	from, to := slices.Collect(i.of.Nodes()), slices.Collect(i.sub.Nodes())
	at := 0 // labels come in the order of nodes
	for k := range r.Labels {
		l := &r.Labels[k]
		for n := range from {
			if j := (at + n) % len(from); from[j].Name == l.Name && slices.Equal(from[j].Provenance(), l.Origins) {
				at = j
				l.Name, l.Origins = to[j].Name, to[j].Provenance()
				break
			}
		}
	}
	return r
}

// Enqueue implements backend.Instance.
func (i *instance) Enqueue(ctx context.Context, a *backend.RunArgs) (device.Event, error) {
	event, err := i.Instance.Enqueue(ctx, a)
	var data *backend.RangeError
	if errors.As(err, &data) {
		to := slices.Collect(i.sub.Nodes())
		k := 0
		for n := range i.of.Nodes() {
			if n.Label() == data.Node {
				own := *data
				own.Node = to[k].Label()
				return event, &own
			}
			k++
		}
	}
	return event, err
}
