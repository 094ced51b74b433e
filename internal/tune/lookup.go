package tune

import (
	"strings"

	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/measurements"
)

// Lookup is a partition.Times that reads: a choice's list where there is one, and else a cache. Of several points the weighted sum
// counts.
type Lookup struct {
	host   Host
	points []place
	times  map[string]float64
	cache  *measurements.Cache
	last   *graph.Node
	found  map[[3]string]float64
	hops   map[string]float64
	hits   int
}

// place is a point, and the last node as it is there.
type place struct {
	at     graph.Bindings
	weight float64
	about  measurements.Key
	text   string // of about
	known  bool
}

// NewLookup returns the times of a choice for symbols of its values; of a nil choice those in a cache, as far as shapes are known.
func NewLookup(h Host, c *Choice, cache *measurements.Cache) *Lookup {
	l := &Lookup{host: h, cache: cache, found: map[[3]string]float64{}, hops: map[string]float64{}}
	if c != nil {
		l.times = c.Times
		for i := range c.Points {
			l.points = append(l.points, place{at: c.Points[i].At, weight: c.Points[i].Weight})
		}
	}
	if len(l.points) == 0 {
		l.points = []place{{weight: 1}}
	}
	return l
}

// Hits returns how many different times were known.
func (l *Lookup) Hits() int { return l.hits }

// Node implements partition.Times.
func (l *Lookup) Node(n *graph.Node, backend string, sig *graph.Signature, _ float64) float64 {
	if n != l.last {
		l.last = n
		for i := range l.points {
			p := &l.points[i]
			p.about = measurements.Key{}
			p.known = describe(n, p.at, &p.about)
			p.text = strings.Join([]string{p.about.Operator, p.about.Attributes, p.about.Shapes, p.about.Types}, "\n")
		}
	}
	f := formats(n, sig)
	return l.sum(func(p *place) float64 {
		if !p.known {
			return 0
		}
		short := [3]string{p.text, backend, f}
		ns, ok := l.found[short]
		if !ok {
			ns = l.get(l.host.key(p.about, backend, f))
			l.found[short] = ns
		}
		return ns
	})
}

// Conversion implements partition.Times.
func (l *Lookup) Conversion(v *graph.Value, hop *convert.Converter) float64 {
	return l.sum(func(p *place) float64 {
		k, _, ok := hopKey(&l.host, v, hop, p.at)
		if !ok {
			return 0
		}
		short := k.Operator + k.Signature + k.Shapes + k.Types
		ns, ok := l.hops[short]
		if !ok {
			ns = l.get(k)
			l.hops[short] = ns
		}
		return ns
	})
}

// sum returns the weighted sum of a time over all points, 0 where it is not known of one.
func (l *Lookup) sum(of func(p *place) float64) (total float64) {
	for i := range l.points {
		ns := of(&l.points[i])
		if ns <= 0 {
			return 0
		}
		total += l.points[i].weight * ns
	}
	return total
}

// get returns a time by its key, 0 where it is not known.
func (l *Lookup) get(k measurements.Key) (ns float64) {
	if l.times != nil {
		ns = l.times[short(k.Digest())]
	} else if l.cache != nil {
		e, _ := l.cache.Get(k)
		ns = e.Nanos
	}
	if ns > 0 {
		l.hits++
	}
	return ns
}
