package tune

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/measurements"
)

// Choice is what tuning found for a model and its options.
type Choice struct {
	Whole  string // name of the fastest whole
	Points []Point
	Times  map[string]float64
}

// Point is a list of symbols' values for which it was measured.
type Point struct {
	At     graph.Bindings
	Weight float64 // of times that were measured there, where there are several points
	Runs   []Run   // of all wholes, the fastest first
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
	for i := range c.Points {
		p := &c.Points[i]
		if len(c.Points) > 1 {
			fmt.Fprintf(&s, "point %s\n", number(p.Weight))
		}
		for _, r := range p.Runs {
			fmt.Fprintf(&s, "run %q %s %s\n", r.Whole, number(r.Nanos), number(r.Noise))
		}
		for _, name := range slices.Sorted(maps.Keys(p.At)) {
			fmt.Fprintf(&s, "at %q %d\n", name, p.At[name])
		}
	}
	for _, d := range slices.Sorted(maps.Keys(c.Times)) {
		fmt.Fprintf(&s, "time %s %s\n", d, number(c.Times[d]))
	}
	return s.String()
}

func number(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

// ParseChoice reads Text. The error wraps measurements.ErrEntry.
func ParseChoice(text string) (*Choice, error) {
	c := &Choice{Times: map[string]float64{}}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if err := c.line(line); err != nil {
			return nil, fmt.Errorf("%w: %q", measurements.ErrEntry, line)
		}
	}
	if len(c.Points) == 1 {
		c.Points[0].Weight = 1
	}
	if c.Whole == "" {
		return nil, fmt.Errorf("%w: no whole is chosen", measurements.ErrEntry)
	}
	return c, nil
}

func (c *Choice) line(s string) (err error) {
	word, rest, _ := strings.Cut(s, " ")
	switch word {
	case "time":
		d, ns, _ := strings.Cut(rest, " ")
		c.Times[d], err = nanos(ns)
		return err
	case "point":
		weight, err := nanos(rest)
		c.Points = append(c.Points, Point{At: graph.Bindings{}, Weight: weight})
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
		c.last().At[name], err = strconv.ParseInt(rest, 10, 64)
	case "run":
		r := Run{Whole: name}
		ns, noise, _ := strings.Cut(rest, " ")
		if r.Nanos, err = nanos(ns); err == nil {
			r.Noise, err = nanos(noise)
		}
		c.last().Runs = append(c.last().Runs, r)
	default:
		err = fmt.Errorf("unknown word %q", word)
	}
	return err
}

// last returns the point that is being read. A choice of one has no line that begins it.
func (c *Choice) last() *Point {
	if len(c.Points) == 0 {
		c.Points = append(c.Points, Point{At: graph.Bindings{}, Weight: 1})
	}
	return &c.Points[len(c.Points)-1]
}

// nanos reads a finite number that is not negative.
func nanos(s string) (float64, error) {
	x, err := strconv.ParseFloat(s, 64)
	if err == nil && (!(x >= 0) || math.IsInf(x, 1)) {
		err = strconv.ErrRange
	}
	return x, err
}
