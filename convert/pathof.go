package convert

import (
	"fmt"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// PathOf is Path for tensors of one element type and rank, -1 for one that is not known: it goes around converters that do
// not support these. The error wraps ErrNoPath. It costs what Path does where that answer serves, and O(F³) for F formats
// otherwise.
func (r *Registry) PathOf(from, to graph.Format, dt tensor.DType, rank int) ([]*Converter, error) {
	hops, err := r.Path(from, to)
	if err != nil || rank < 0 {
		return hops, err
	}
	var refused *Converter
	for _, c := range hops {
		if !c.supports(dt, rank) {
			refused = c
		}
	}
	if refused == nil {
		return hops, nil
	}
	i, ok1 := r.index[from]
	j, ok2 := r.index[to]
	if ok1 && ok2 {
		e := edges{}
		for _, c := range r.converters {
			if c.supports(dt, rank) {
				e.add([2]int64{r.index[c.From], r.index[c.To]}, c)
			}
		}
		if dt.Size() > 0 { // else the package's own do not serve either
			r.addReorders(e)
		}
		if hops := e.routes(len(r.formats))[i*int64(len(r.formats))+j]; hops != nil {
			return hops, nil
		}
	}
	return nil, fmt.Errorf("%w: %v to %v: %q takes no %v of rank %d, and there is no way around", ErrNoPath, from, to, refused.Name, dt, rank)
}

func (c *Converter) supports(dt tensor.DType, rank int) bool {
	return c.Supports == nil || c.Supports(dt, rank)
}
