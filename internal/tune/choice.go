package tune

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/measurements"
)

// Choice is what tuning found for a model and its options.
type Choice struct {
	Whole string           // name of the fastest whole
	Runs  []Run            // of all wholes, the fastest first
	At    map[string]int64 // symbols' values for which it was measured
	Times map[string]float64
}

// Run is how long a whole takes.
type Run struct {
	Whole string
	Nanos float64
	Noise float64
}

// Text returns the choice as ParseChoice reads it: the same choice, the same text.
func (c *Choice) Text() string {
	var s strings.Builder
	fmt.Fprintf(&s, "whole %q\n", c.Whole)
	for _, r := range c.Runs {
		fmt.Fprintf(&s, "run %q %s %s\n", r.Whole, number(r.Nanos), number(r.Noise))
	}
	for _, name := range slices.Sorted(maps.Keys(c.At)) {
		fmt.Fprintf(&s, "at %q %d\n", name, c.At[name])
	}
	for _, d := range slices.Sorted(maps.Keys(c.Times)) {
		fmt.Fprintf(&s, "time %s %s\n", d, number(c.Times[d]))
	}
	return s.String()
}

func number(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

// ParseChoice reads Text. The error wraps measurements.ErrEntry.
func ParseChoice(text string) (*Choice, error) {
	c := &Choice{At: map[string]int64{}, Times: map[string]float64{}}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if err := c.line(line); err != nil {
			return nil, fmt.Errorf("%w: %q", measurements.ErrEntry, line)
		}
	}
	if c.Whole == "" {
		return nil, fmt.Errorf("%w: no whole is chosen", measurements.ErrEntry)
	}
	return c, nil
}

func (c *Choice) line(s string) (err error) {
	word, rest, _ := strings.Cut(s, " ")
	if word == "time" {
		d, ns, _ := strings.Cut(rest, " ")
		c.Times[d], err = nanos(ns)
		return err
	}
	quoted, err := strconv.QuotedPrefix(rest)
	if err != nil {
		return err
	}
	name, err := strconv.Unquote(quoted)
	if err != nil {
		return err
	}
	rest = strings.TrimPrefix(rest[len(quoted):], " ")
	switch word {
	case "whole":
		c.Whole = name
	case "at":
		c.At[name], err = strconv.ParseInt(rest, 10, 64)
	case "run":
		r := Run{Whole: name}
		ns, noise, _ := strings.Cut(rest, " ")
		if r.Nanos, err = nanos(ns); err == nil {
			r.Noise, err = nanos(noise)
		}
		c.Runs = append(c.Runs, r)
	default:
		err = fmt.Errorf("unknown word %q", word)
	}
	return err
}

// nanos reads a finite number that is not negative.
func nanos(s string) (float64, error) {
	x, err := strconv.ParseFloat(s, 64)
	if err == nil && (!(x >= 0) || math.IsInf(x, 1)) {
		err = strconv.ErrRange
	}
	return x, err
}

// Lookup is a partition.Times that reads: a choice's list where there is one, and else a cache.
type Lookup struct {
	host  Host
	at    graph.Bindings
	times map[string]float64
	cache *measurements.Cache
	last  *graph.Node
	about measurements.Key
	text  string // of about
	known bool
	found map[[3]string]float64
	hops  map[string]float64
	hits  int
}

// NewLookup returns the times of a choice for symbols of its values; of a nil choice those in a cache, as far as shapes are known.
func NewLookup(h Host, c *Choice, cache *measurements.Cache) *Lookup {
	l := &Lookup{host: h, cache: cache, found: map[[3]string]float64{}, hops: map[string]float64{}}
	if c != nil {
		l.at, l.times = c.At, c.Times
	}
	return l
}

// Hits returns how many different times were known.
func (l *Lookup) Hits() int { return l.hits }

// Node implements partition.Times.
func (l *Lookup) Node(n *graph.Node, backend string, sig *graph.Signature, _ float64) float64 {
	if n != l.last {
		l.last, l.about = n, measurements.Key{}
		l.known = describe(n, l.at, &l.about)
		l.text = strings.Join([]string{l.about.Operator, l.about.Attributes, l.about.Shapes, l.about.Types}, "\n")
	}
	if !l.known {
		return 0
	}
	f := formats(n, sig)
	short := [3]string{l.text, backend, f}
	ns, ok := l.found[short]
	if !ok {
		ns = l.get(l.host.key(l.about, backend, f))
		l.found[short] = ns
	}
	return ns
}

// Conversion implements partition.Times.
func (l *Lookup) Conversion(v *graph.Value, hop *convert.Converter) float64 {
	k, _, ok := hopKey(&l.host, v, hop, l.at)
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
