package convert

import (
	"errors"
	"fmt"
	"math"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// Errors for errors.Is.
var (
	ErrNoPath    = errors.New("no conversion between the formats")
	ErrConverter = errors.New("bad converter")
)

// Registry holds the converters that a compilation may use and answers for the cheapest path between two formats. Between
// described layouts of the host it has a converter of its own. It is built by one goroutine and safe for concurrent use
// when its sources have been added.
type Registry struct {
	converters []*Converter
	index      map[graph.Format]int64 // vertex of a format
	formats    []graph.Format
	direct     edges // cheapest single hops
	paths      [][]*Converter
	sizes      map[graph.Layout]*Converter // who knows an opaque layout's size
	sources    []Source
}

// typicalBytes is the size of the tensor for which path costs are compared.
const typicalBytes = 1 << 20

// NewRegistry returns the registry of these converters and the formats that may be asked for; host formats among them are
// connected with each other. Earlier converters win ties. It computes all cheapest paths, O(F³) for F formats.
func NewRegistry(converters []Converter, formats ...graph.Format) (*Registry, error) {
	r := &Registry{index: map[graph.Format]int64{}, direct: edges{}, sizes: map[graph.Layout]*Converter{}}
	r.vertex(graph.HostFormat)
	for i := range converters {
		c := &converters[i]
		if c.Plan == nil || c.From == c.To {
			return nil, fmt.Errorf("%w: %q needs a Plan and two formats", ErrConverter, c.Name)
		}
		for _, f := range []graph.Format{c.From, c.To} {
			if f.Layout.IsOpaque() {
				if c.Size == nil {
					return nil, fmt.Errorf("%w: %q has no Size for %v", ErrConverter, c.Name, f)
				}
				if r.sizes[f.Layout] == nil {
					r.sizes[f.Layout] = c
				}
			}
		}
		r.converters = append(r.converters, c)
		r.direct.add([2]int64{r.vertex(c.From), r.vertex(c.To)}, c)
	}
	for _, f := range formats {
		r.vertex(f)
	}
	r.addReorders(r.direct)
	r.paths = r.direct.routes(len(r.formats))
	return r, nil
}

// addReorders adds the package's own converters between formats of the host that have no others.
func (r *Registry) addReorders(e edges) {
	for i, from := range r.formats {
		for j, to := range r.formats {
			k := [2]int64{int64(i), int64(j)}
			if i != j && isHostDescribed(from) && isHostDescribed(to) && e[k] == nil {
				c := hostConverter(from, to)
				e[k] = &c
			}
		}
	}
}

func isHostDescribed(f graph.Format) bool { return f.Device.IsHost() && !f.Layout.IsOpaque() }

func (r *Registry) vertex(f graph.Format) int64 {
	i, ok := r.index[f]
	if !ok {
		i = int64(len(r.formats))
		r.index[f] = i
		r.formats = append(r.formats, f)
	}
	return i
}

// Path returns the cheapest sequence of single-hop converters from one format to another; it is empty for equal formats.
// The error wraps ErrNoPath. Described host layouts that the registry has not seen are reordered directly where both are the
// host's, and from or to row-major where a path of converters follows or precedes. The list is the registry's: it must not be
// changed.
func (r *Registry) Path(from, to graph.Format) ([]*Converter, error) {
	if from == to {
		return nil, nil
	}
	i, ok1 := r.index[from]
	j, ok2 := r.index[to]
	if ok1 && ok2 {
		return r.known(i, j)
	}
	if hops := r.askedPath(from, to); hops != nil {
		return hops, nil
	}
	if isHostDescribed(from) && isHostDescribed(to) {
		c := hostConverter(from, to)
		return []*Converter{&c}, nil
	}
	host := r.index[graph.HostFormat]
	if ok1 && isHostDescribed(to) {
		if hops, err := r.known(i, host); err == nil {
			c := hostConverter(graph.HostFormat, to)
			return append(hops, &c), nil
		}
	}
	if ok2 && isHostDescribed(from) {
		if hops, err := r.known(host, j); err == nil {
			c := hostConverter(from, graph.HostFormat)
			return append([]*Converter{&c}, hops...), nil
		}
	}
	return nil, fmt.Errorf("%w: %v to %v", ErrNoPath, from, to)
}

// known returns the path between two vertices.
func (r *Registry) known(i, j int64) ([]*Converter, error) {
	hops := r.paths[i*int64(len(r.formats))+j]
	if len(hops) == 0 {
		return nil, fmt.Errorf("%w: %v to %v", ErrNoPath, r.formats[i], r.formats[j])
	}
	return hops, nil
}

// Cost returns the modelled nanoseconds of converting a tensor of that many bytes along the cheapest path, +Inf where
// there is none.
func (r *Registry) Cost(from, to graph.Format, bytes int64) float64 {
	hops, err := r.Path(from, to)
	if err != nil {
		return math.Inf(1)
	}
	sum := 0.0
	for _, c := range hops {
		sum += c.Cost.Of(bytes)
	}
	return sum
}

// Size returns the bytes of a tensor in format f: by graph.PhysicalSize for described layouts, by the owner's converter
// for opaque ones. The error wraps graph.ErrOpaque where nobody knows the layout.
func (r *Registry) Size(f graph.Format, dt tensor.DType, dims []int) (int64, error) {
	if !f.Layout.IsOpaque() {
		return graph.PhysicalSize(f, dt, dims)
	}
	c := r.sizes[f.Layout]
	if c == nil {
		c = r.askedSize(f)
	}
	if c == nil {
		return 0, fmt.Errorf("%w: no converter of %v", graph.ErrOpaque, f)
	}
	n, err := c.Size(f, dt, dims)
	if err == nil && n < 0 {
		err = fmt.Errorf("%w: %q gave %d bytes for %v %v", ErrConverter, c.Name, n, dt, dims)
	}
	return n, err
}
