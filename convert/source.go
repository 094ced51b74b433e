package convert

import (
	"math"
	"slices"

	"github.com/carve-dev/carve/graph"
)

// Source knows converters of opaque layouts that come up while a model is compiled, such as those that a library chooses for
// the weights of one convolution. It is safe for concurrent use.
type Source interface {
	// ConvertersOf returns converters from and to a layout, on any device, earlier ones winning ties; none where the layout is not the
	// source's. They have a Size.
	ConvertersOf(l graph.Layout) []Converter
}

// AddSource makes the registry ask a source about opaque layouts that it has no converters of. It is called before the
// registry is shared. Conversions of such layouts begin or end with the source's converter.
func (r *Registry) AddSource(s Source) { r.sources = append(r.sources, s) }

// asked returns the sources' converters from and to a format that the registry does not know by itself.
func (r *Registry) asked(f graph.Format) []Converter {
	if _, known := r.index[f]; known || !f.Layout.IsOpaque() {
		return nil
	}
	var list []Converter
	for _, s := range r.sources {
		for _, c := range s.ConvertersOf(f.Layout) { // of all devices
			if c.From == f || c.To == f {
				list = append(list, c)
			}
		}
	}
	return list
}

// askedPath returns the cheapest path that begins or ends with a source's converter, the first of equal ones; nil where there is none.
func (r *Registry) askedPath(from, to graph.Format) (best []*Converter) {
	least := math.Inf(1)
	try := func(hops []*Converter) {
		sum := 0.0
		for _, c := range hops {
			sum += weight(c)
		}
		if sum < least {
			best, least = hops, sum
		}
	}
	for _, c := range r.asked(from) {
		if c.From != from || r.asked(c.To) != nil {
			continue
		}
		if rest, err := r.Path(c.To, to); err == nil {
			try(append([]*Converter{&c}, rest...))
		}
	}
	if best != nil {
		return best
	}
	for _, c := range r.asked(to) {
		if c.To != to || r.asked(c.From) != nil {
			continue
		}
		if first, err := r.Path(from, c.From); err == nil {
			try(append(slices.Clip(first), &c))
		}
	}
	return best
}

// askedSize returns a source's converter that knows the size of a format, nil where there is none.
func (r *Registry) askedSize(f graph.Format) *Converter {
	for _, c := range r.asked(f) {
		if c.Size != nil {
			return &c
		}
	}
	return nil
}
